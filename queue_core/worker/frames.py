"""Frames between the supervisor and its children: a length, then one JSON object."""

import json
import struct
from collections.abc import Mapping
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
    body = _JSON.encode(frame).encode()
    if len(body) > limit:
        raise FrameError("the frame is too large")
    return _LENGTH.pack(len(body)) + body


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
        frames: list[Frame] = []
        while (body := self._next()) is not None:
            frames.append(_decode(body))
        return frames

    def _next(self) -> bytes | None:
        if len(self._buffer) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._buffer)
        if length > self._limit:
            raise FrameError("the frame is too large")
        end = _LENGTH.size + length
        if len(self._buffer) < end:
            return None
        body = bytes(self._buffer[_LENGTH.size : end])
        del self._buffer[:end]
        return body


def _decode(body: bytes) -> Frame:
    try:
        frame: object = json.loads(body)
    except (ValueError, RecursionError):
        raise FrameError("the frame is not JSON") from None
    if not isinstance(frame, dict):
        raise FrameError("the frame is not an object")
    return cast("Frame", frame)
