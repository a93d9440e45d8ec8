"""Frames between the supervisor and its children: a length, then one JSON object."""

import json
import struct
from collections.abc import Mapping, Sequence
from typing import Final, cast

LARGEST_TO_CHILD: Final = 16 * 1024 * 1024
"""Bytes. Arguments are at most 256 KiB, but plain SQL can insert larger ones."""
LARGEST_FROM_CHILD: Final = 1024 * 1024
"""Bytes. A result of 64 KiB, a traceback or the names of a registry fit many times."""
_LENGTH: Final = struct.Struct("!I")
# Escapes to ASCII, so that halves of surrogate pairs pass as they are.
_JSON: Final = json.JSONEncoder(separators=(",", ":"))

Frame = dict[str, object]


class FrameError(Exception):
    """What arrived is no frame, or what is to be sent is larger than a frame may be."""


def encode(frame: Mapping[str, object], limit: int) -> bytes:
    """Return `frame` as bytes; FrameError where its JSON is over `limit` bytes."""
    return framed(_JSON.encode(frame), limit)


def framed(text: str, limit: int) -> bytes:
    """Return a JSON object as a frame; FrameError where it is over `limit` bytes."""
    body = text.encode()
    if len(body) > limit:
        raise FrameError("the frame is too large")
    return _LENGTH.pack(len(body)) + body


def quoted(text: str | None) -> str:
    """Return text as JSON, for a frame that is put together by hand."""
    return "null" if text is None else _JSON.encode(text)


class Frames:
    """Cuts a stream of bytes, in whatever pieces it arrives, into frames."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Frame]:
        """Take the next bytes of the stream and return the frames that they complete.

        Raises FrameError for a length over the limit or a body that is no JSON object;
        nothing that follows can be read then.
        """
        self._buffer += data
        bodies = self._cut()
        return _decode(bodies) if bodies else []

    def _cut(self) -> list[bytes]:
        """Take the bodies of all frames that are whole out of the buffer."""
        buffer, bodies, start = self._buffer, list[bytes](), 0
        while len(buffer) - start >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(buffer, start)
            if length > self._limit:
                raise FrameError("the frame is too large")
            end = start + _LENGTH.size + length
            if len(buffer) < end:
                break
            bodies.append(bytes(buffer[start + _LENGTH.size : end]))
            start = end
        del buffer[:start]
        return bodies


def _decode(bodies: Sequence[bytes]) -> list[Frame]:
    """Read all at once, since a reader for each costs more than what it reads."""
    try:
        frames: list[object] = json.loads(b"[%b]" % b",".join(bodies))
    except (ValueError, RecursionError):
        raise FrameError("the frame is not JSON") from None
    if len(frames) != len(bodies) or not all(isinstance(frame, dict) for frame in frames):
        raise FrameError("the frame is not an object")
    return cast("list[Frame]", frames)
