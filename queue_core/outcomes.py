"""How a run ended, as values: a child reports one, one `match` stores it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal
from uuid import UUID

from queue_core.states import State

MAX_ERROR_BYTES: Final = 1_024
MAX_TRACEBACK_BYTES: Final = 16_384
MAX_RESULT_BYTES: Final = 65_536
_ELLIPSIS: Final = "\n… cut …\n"


@dataclass(frozen=True, slots=True)
class Completed:
    """The handler returned. `result` is JSON text of at most 64 KiB, or None for no result."""

    result: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Failed:
    """The handler raised, passed its limit, or its child died.

    `retryable` is False for an error that another attempt cannot mend; `retry_after`
    (seconds) replaces the backoff; `signal` is the one that ended the child.
    """

    error: str = field(repr=False)
    outcome: Literal["failed", "timed_out", "crashed"] = "failed"
    retryable: bool = True
    retry_after: float | None = None
    signal: int | None = None
    error_type: str | None = None
    error_place: str | None = None
    traceback: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Deferred:
    """The handler put its job back, for `seconds` from now; the attempt is given back."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Stopped:
    """The run was asked to stop and did, or was `killed` since it had not.

    `error` says in a line how far it came, as far as its handler said so.
    """

    error: str = field(repr=False)
    killed: bool = False


@dataclass(frozen=True, slots=True)
class Unreadable:
    """The job's arguments could not be read at all, so no handler was entered."""

    error: str = field(repr=False)


Ending = Completed | Failed | Deferred | Stopped | Unreadable


@dataclass(slots=True)  # not frozen, which costs a microsecond a run
class RunReport:
    """What a worker says of one of its runs: which run, how it ended, what is known of it.

    `seconds` is how long ago the run began, None where it did not begin or nobody knows;
    `wait` is the backoff in seconds if there is another attempt.
    """

    id: UUID
    attempt: int
    ending: Ending
    seconds: float | None = None
    child_pid: int | None = None
    wait: float = 0.0


def cut(text: str, limit: int = MAX_ERROR_BYTES) -> str:
    """Return `text` as it can be stored, cut to `limit` bytes on a character boundary.

    NUL and lone surrogates, which Postgres refuses, are replaced by U+FFFD.
    """
    whole = storable(text).encode()
    return whole[:limit].decode(errors="ignore")


def cut_middle(text: str, limit: int = MAX_TRACEBACK_BYTES) -> str:
    """Return `text` as it can be stored, keeping head and tail within `limit` bytes."""
    whole = storable(text).encode()
    if len(whole) <= limit:
        return whole.decode()
    half = (limit - len(_ELLIPSIS.encode())) // 2
    head, tail = whole[:half], whole[-half:]
    return head.decode(errors="ignore") + _ELLIPSIS + tail.decode(errors="ignore")


def storable(text: str) -> str:
    """Replace what Postgres cannot store in text, NUL and lone surrogates, by U+FFFD."""
    return text.replace("\0", "\ufffd").encode(errors="surrogatepass").decode(errors="replace")


@dataclass(frozen=True, slots=True)
class Moved:
    """Where a transition took the job of a run."""

    id: UUID
    attempt: int
    state: State


def in_order(reports: Iterable[RunReport]) -> list[RunReport]:
    """Sort reports by job and attempt: who locks in one order never waits in a circle."""
    # By whole numbers: two UUIDs are compared by Python, and there are many pairs.
    return sorted(reports, key=lambda each: (each.id.int, each.attempt))


def report_columns(worker: UUID, reports: Sequence[RunReport]) -> dict[str, object]:
    """Return what the clause REPORT binds."""
    return {
        "worker": worker,
        "ids": [each.id for each in reports],
        "attempts": [each.attempt for each in reports],
        "seconds": [each.seconds for each in reports],
        "child_pids": [each.child_pid for each in reports],
    }


def failure_columns(reports: Sequence[RunReport]) -> dict[str, object]:
    """Return what the clause FAILURE binds; texts are cut to what their columns hold."""
    failures = [_as_failure(each.ending) for each in reports]
    return {
        "outcomes": [outcome for outcome, _ in failures],
        "retryables": [failed.retryable for _, failed in failures],
        "waits": [
            each.wait if failed.retry_after is None else failed.retry_after
            for each, (_, failed) in zip(reports, failures, strict=True)
        ],
        "signals": [failed.signal for _, failed in failures],
        "errors": [cut(failed.error) or None for _, failed in failures],
        "error_types": [
            failed.error_type and cut(failed.error_type, 200) for _, failed in failures
        ],
        "error_places": [
            failed.error_place and cut(failed.error_place, 400) for _, failed in failures
        ],
        "tracebacks": [failed.traceback and cut_middle(failed.traceback) for _, failed in failures],
    }


def _as_failure(ending: Ending) -> tuple[str, Failed]:
    """Return how a run ended, as a word, with what there is to say of it."""
    match ending:
        case Failed():
            return ending.outcome, ending
        case Unreadable():
            return "failed", Failed(ending.error)
        case Stopped():
            return "stopped", Failed(ending.error)
        case Deferred():
            return "deferred", Failed("put its job back")
        case Completed():
            return "completed", Failed("")
