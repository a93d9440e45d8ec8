"""What the supervisor and its children say to each other, as values and as frames."""

from dataclasses import asdict, dataclass, field
from typing import Final, Literal, cast
from uuid import UUID

from queue_core.jobs import LONGEST_SECONDS
from queue_core.outcomes import (
    MAX_RESULT_BYTES,
    MAX_TRACEBACK_BYTES,
    Completed,
    Deferred,
    Ending,
    Failed,
    Unreadable,
    cut,
    cut_middle,
)
from queue_core.transitions.claim import Claimable, Claimed
from queue_core.worker.frames import (
    LARGEST_FROM_CHILD,
    LARGEST_TO_CHILD,
    Frame,
    FrameError,
    encode,
)

STOP: Final = encode({"kind": "stop"}, LARGEST_TO_CHILD)
"""To a child: end the run at once, and yourself after it."""
END: Final = encode({"kind": "end"}, LARGEST_TO_CHILD)
"""To an idle child: leave in peace."""
_MAX_NAME_BYTES: Final = 400


@dataclass(frozen=True, slots=True)
class JobMessage:
    """To a child: run this."""

    id: UUID
    name: str
    attempt: int
    args: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Hello:
    """From a child, first: what its code handles, with the defaults of each name."""

    offers: tuple[Claimable, ...]


@dataclass(frozen=True, slots=True)
class NoHello:
    """From a child, instead of a hello: its code cannot be used, and why."""

    why: str
    traceback: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """From a child: how the run of job `id` ended."""

    id: UUID
    ending: Ending


def job_frame(claimed: Claimed) -> bytes:
    """Return the frame that hands over a run; FrameError where its arguments are too large."""
    frame = {
        "kind": "job",
        "id": str(claimed.id),
        "name": claimed.name,
        "attempt": claimed.attempt,
        "args": claimed.args,
    }
    return encode(frame, LARGEST_TO_CHILD)


def read_job(frame: Frame) -> JobMessage:
    """Return the run that a frame hands over."""
    match frame:
        case {"id": str(job), "name": str(name), "attempt": int(attempt), "args": str(args)}:
            return JobMessage(UUID(job), name, attempt, args)
        case _:
            raise FrameError("the frame is no job")


def child_frame(message: Hello | NoHello | Report) -> bytes:
    """Return the frame in which a child says `message`."""
    match message:
        case Hello():
            said: dict[str, object] = {"offers": [asdict(offer) for offer in message.offers]}
        case NoHello():
            said = {"why": message.why, "traceback": message.traceback}
        case Report():
            ending = type(message.ending).__name__
            said = {"id": str(message.id), "ending": ending, **asdict(message.ending)}
    return encode({"kind": type(message).__name__, **said}, LARGEST_FROM_CHILD)


def read_child(frame: Frame) -> Hello | NoHello | Report:
    """Return what a child said. Raises FrameError for anything else: a child is not trusted."""
    try:
        return _read_child(frame)
    except (TypeError, ValueError, KeyError):
        raise FrameError("the frame is no message of a child") from None


def _read_child(frame: Frame) -> Hello | NoHello | Report:
    match frame:
        case {"kind": "Hello", "offers": list()}:
            return Hello(tuple(_offer(offer) for offer in cast("list[Frame]", frame["offers"])))
        case {"kind": "NoHello", "why": str(why), "traceback": str(traceback)}:
            return NoHello(cut(why), cut_middle(traceback))
        case {"kind": "Report", "id": str(job)}:
            return Report(UUID(job), _ending(frame))
        case _:
            raise FrameError("the frame is no message of a child")


def _offer(offer: Frame) -> Claimable:
    match offer:
        case {
            "name": str(name),
            "attempts": int(attempts),
            "on_lost": "attempts" | "review" as on_lost,
            "time_limit": float() | int() | None as limit,
        } if attempts >= 1 and (limit is None or limit > 0):
            return Claimable(name, attempts, cast("Literal['attempts', 'review']", on_lost), limit)
        case _:
            raise FrameError("the frame offers no name")


def _ending(frame: Frame) -> Ending:
    match frame:
        case {"ending": "Completed", "result": None}:
            return Completed()
        case {"ending": "Completed", "result": str(result)} if _fits(result):
            return Completed(result)
        case {"ending": "Failed", "error": str(error), "retryable": bool(retryable)}:
            return Failed(
                cut(error),
                retryable=retryable,
                retry_after=_seconds(frame["retry_after"]),
                error_type=_text(frame["error_type"], _MAX_NAME_BYTES),
                error_place=_text(frame["error_place"], _MAX_NAME_BYTES),
                traceback=_text(frame["traceback"], MAX_TRACEBACK_BYTES),
            )
        case {"ending": "Deferred", "seconds": int() | float() as seconds} if seconds >= 0:
            return Deferred(min(float(seconds), LONGEST_SECONDS))
        case {"ending": "Unreadable", "error": str(error)}:
            return Unreadable(cut(error))
        case _:
            raise FrameError("the frame is no ending")


def _fits(result: str) -> bool:
    return len(result.encode(errors="surrogatepass")) <= MAX_RESULT_BYTES


def _seconds(value: object) -> float | None:
    return None if value is None else min(max(0.0, float(cast("float", value))), LONGEST_SECONDS)


def _text(value: object, limit: int) -> str | None:
    return cut(value, limit) if isinstance(value, str) else None
