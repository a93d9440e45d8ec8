"""What the supervisor and its children say to each other, as values and as frames."""

from dataclasses import asdict, dataclass, field
from typing import Final, Literal, cast, get_args
from uuid import UUID

from queue_core.errors import OptionError
from queue_core.handlers import Declared
from queue_core.jobs import LONGEST_SECONDS
from queue_core.outcomes import (
    MAX_RESULT_BYTES,
    MAX_TRACEBACK_BYTES,
    Completed,
    Deferred,
    Ending,
    Failed,
    Stopped,
    Unreadable,
    cut,
    cut_middle,
)
from queue_core.rules import Schedule
from queue_core.run import StopReason, StopRequest
from queue_core.transitions.claim import Claimable, Claimed
from queue_core.worker.frames import (
    LARGEST_FROM_CHILD,
    LARGEST_TO_CHILD,
    Frame,
    FrameError,
    encode,
    framed,
    quoted,
)
from queue_core.worker.hellos import declared, offered, said_of, scheduled

RECALL: Final = encode({"kind": "recall"}, LARGEST_TO_CHILD)
"""To a child: give back the runs that have not begun."""
END: Final = encode({"kind": "end"}, LARGEST_TO_CHILD)
"""To an idle child: leave in peace."""
NO_RESULT: Final = Completed()
_MAX_NAME_BYTES: Final = 400

Stain = Literal["threads", "processes", "memory", "output", "settings"]
"""Why a child cannot run another job: what the last one left in it."""


@dataclass(slots=True)  # not frozen, which costs a microsecond a run
class JobMessage:
    """To a child: run this. What is asked of the run while it goes on comes to `request`."""

    id: UUID
    name: str
    attempt: int
    args: str = field(repr=False)
    request: StopRequest = field(default_factory=StopRequest, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Hello:
    """From a child, first: what its code handles, its schedules, and what it says of each name."""

    offers: tuple[Claimable, ...]
    schedules: tuple[Schedule, ...] = ()
    handlers: tuple[Declared, ...] = ()


@dataclass(frozen=True, slots=True)
class NoHello:
    """From a child, instead of a hello: its code cannot be used, and why."""

    why: str
    traceback: str = ""


@dataclass(slots=True)  # as above
class Report:
    """From a child: how the run of job `id` ended, when it began (`boottime()`), how long it took.

    Where runs go on one at a time it is sent before the next begins, so that the first run
    without one is the one that goes on. With `stain` the child begins none after it, and leaves.
    """

    id: UUID
    ending: Ending
    began: float | None = None
    seconds: float = 0.0
    stain: Stain | None = None


@dataclass(frozen=True, slots=True)
class Dropped:
    """From a child, when it is asked to: the jobs whose runs have not begun, and never will."""

    ids: tuple[UUID, ...]


Message = Hello | NoHello | Report | Dropped


def stop_frame(job: UUID) -> bytes:
    """Return the frame that tells a child to end the run of `job` at once, and itself after it."""
    return encode({"kind": "stop", "id": str(job)}, LARGEST_TO_CHILD)


def ask_frame(job: UUID, attempt: int, why: StopReason) -> bytes:
    """Return the frame that tells a run that it is asked to stop: its handler may look and obey."""
    frame = {"kind": "ask", "id": str(job), "attempt": attempt, "why": why}
    return encode(frame, LARGEST_TO_CHILD)


def read_ask(frame: Frame) -> tuple[UUID, int, StopReason]:
    """Return which run (job and attempt) a frame asks to stop, and why."""
    match frame:
        case {"id": str(job), "attempt": int(attempt), "why": "cancelled" | "shutdown" as why}:
            return UUID(job), attempt, cast("StopReason", why)
        case _:
            raise FrameError("the frame asks no run to stop")


def read_id(frame: Frame) -> UUID:
    """Return the job that a frame is about."""
    return UUID(str(frame["id"]))


def job_frame(claimed: Claimed) -> bytes:
    """Return the frame that hands over a run; FrameError where its arguments are too large."""
    name, args = quoted(claimed.name), quoted(claimed.args)
    said = f'"id":"{claimed.id}","name":{name},"attempt":{claimed.attempt},"args":{args}'
    return framed(f'{{"kind":"job",{said}}}', LARGEST_TO_CHILD)


def read_job(frame: Frame) -> JobMessage:
    """Return the run that a frame hands over."""
    job, name, attempt = frame.get("id"), frame.get("name"), frame.get("attempt")
    args = frame.get("args")
    if not isinstance(job, str) or not isinstance(name, str) or not isinstance(args, str):
        raise FrameError("the frame is no job")
    if not isinstance(attempt, int):
        raise FrameError("the frame is no job")
    return JobMessage(UUID(job), name, attempt, args)


def child_frame(message: Message) -> bytes:
    """Return the frame in which a child says `message`."""
    match message:
        case Hello():
            said: dict[str, object] = {
                "offers": [asdict(offer) for offer in message.offers],
                "schedules": [said_of(schedule) for schedule in message.schedules],
                "handlers": [asdict(each) for each in message.handlers],
            }
        case NoHello():
            said = {"why": message.why, "traceback": message.traceback}
        case Report(ending=Completed(result)):
            return framed(_completed(message, result), LARGEST_FROM_CHILD)
        case Report():
            ending = type(message.ending).__name__
            said = {"id": str(message.id), "ending": ending}
            said |= {"began": message.began, "took": message.seconds, "stain": message.stain}
            said |= asdict(message.ending)
        case Dropped():
            said = {"ids": [str(each) for each in message.ids]}
    return encode({"kind": type(message).__name__, **said}, LARGEST_FROM_CHILD)


def _completed(report: Report, result: str | None) -> str:
    """Return what most children say most often, put together by hand: an encoder takes longer."""
    began = "null" if report.began is None else repr(report.began)
    return (
        f'{{"kind":"Report","id":"{report.id}","ending":"Completed","result":{quoted(result)},'
        f'"began":{began},"took":{report.seconds!r},"stain":{quoted(report.stain)}}}'
    )


def read_child(frame: Frame) -> Message:
    """Return what a child said. Raises FrameError for anything else: a child is not trusted."""
    try:
        return _report(frame) if frame.get("kind") == "Report" else _read_child(frame)
    except (TypeError, ValueError, KeyError, OptionError):
        raise FrameError("the frame is no message of a child") from None


def _read_child(frame: Frame) -> Message:
    match frame:
        case {"kind": "Hello", "offers": list(), "schedules": list(), "handlers": list()}:
            return Hello(
                tuple(offered(offer) for offer in cast("list[Frame]", frame["offers"])),
                tuple(scheduled(each) for each in cast("list[Frame]", frame["schedules"])),
                tuple(declared(each) for each in cast("list[Frame]", frame["handlers"])),
            )
        case {"kind": "NoHello", "why": str(why), "traceback": str(traceback)}:
            return NoHello(cut(why), cut_middle(traceback))
        case {"kind": "Dropped", "ids": list()}:
            return Dropped(tuple(UUID(str(each)) for each in cast("list[object]", frame["ids"])))
        case _:
            raise FrameError("the frame is no message of a child")


def _report(frame: Frame) -> Report:
    job, began, seconds = frame["id"], frame["began"], frame["took"]
    if not isinstance(job, str) or not (began is None or isinstance(began, float)):
        raise FrameError("the frame is no report")
    if not isinstance(seconds, float) or not seconds >= 0:  # as it would be for NaN
        raise FrameError("the frame is no report")
    return Report(UUID(job), _ending(frame), began, seconds, _stain(frame))


def _ending(frame: Frame) -> Ending:
    if frame["ending"] == "Completed" and frame["result"] is None:
        return NO_RESULT
    match frame:
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
        case {"ending": "Stopped", "error": str(error)}:
            return Stopped(cut(error))
        case {"ending": "Unreadable", "error": str(error)}:
            return Unreadable(cut(error))
        case _:
            raise FrameError("the frame is no ending")


def _stain(frame: Frame) -> Stain | None:
    stain = frame.get("stain")
    if stain is None:
        return None
    if stain not in get_args(Stain):
        raise FrameError("the frame names no stain")
    return cast("Stain | None", stain)


def _fits(result: str) -> bool:
    return len(result.encode(errors="surrogatepass")) <= MAX_RESULT_BYTES


def _seconds(value: object) -> float | None:
    return None if value is None else min(max(0.0, float(cast("float", value))), LONGEST_SECONDS)


def _text(value: object, limit: int) -> str | None:
    return cut(value, limit) if isinstance(value, str) else None
