"""What a handler sees of its run, and what it raises to say how its job goes on."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, NoReturn
from uuid import UUID

from queue_core.jobs import check_seconds

StopReason = Literal["cancelled", "shutdown", "stopped"]
"""Why a run is to stop: somebody cancelled its job, its worker shuts down, or its time is over."""


class RetryAfter(Exception):  # noqa: N818 - an instruction to the queue, not a kind of error
    """Raised by a handler: try this job again in `seconds`, if it has attempts left."""

    def __init__(self, seconds: float, reason: str = "") -> None:
        self.seconds = check_seconds(seconds, "RetryAfter", zero=True)
        super().__init__(reason or f"try again in {self.seconds:g} s")


class PermanentError(Exception):
    """Raised by a handler: this job fails for good, whatever attempts are left."""


class Stopped(BaseException):
    """Ends a run that is asked to stop: raise it where `run.stop_requested()` says so.

    A cancelled job is then cancelled; at a shutdown the job goes back to the queue and the
    attempt is given back. Say how far the run came: `raise Stopped("3 of 10 files")`. It is
    also what a handler sees as an exception when its process is about to be killed.
    """


class DeferRun(BaseException):
    """Ends a run that put its job back; raised by `run.defer`, never by hand."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        super().__init__()


@dataclass(slots=True)
class StopRequest:
    """Whether a run is asked to stop, and why: set by one thread of the child, read by others.

    `heard` is called, in that thread, when it was asked.
    """

    why: StopReason | None = None
    heard: Callable[[], object] | None = None

    def ask(self, why: StopReason) -> None:
        """Ask the run to stop. That its job was cancelled outweighs a shutdown, never less."""
        if self.why != "cancelled":
            self.why = why
        if self.heard:
            self.heard()


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a job, as its handler sees it: the first parameter of every handler.

    `attempt` counts from 1. `key` is the same on every attempt: give it to outside
    services as their idempotency key.
    """

    id: UUID
    name: str
    attempt: int
    _request: StopRequest = field(default_factory=StopRequest, repr=False, compare=False)

    @property
    def key(self) -> str:
        """The job's own key for outside services, the same on every attempt."""
        return str(self.id)

    def stop_requested(self) -> StopReason | None:
        """Say whether this run is asked to stop: "cancelled", "shutdown", "stopped", or None.

        "cancelled": a person cancelled the job; "shutdown": the worker is to end; "stopped": its
        time limit is passed, and its process is killed with all in it unless it ends. Cheap enough
        for the tightest loop, since it only looks at what the child was told.
        """
        return self._request.why

    def defer(self, delay: float) -> NoReturn:
        """End this run and put the job back for `delay` seconds; the attempt is given back.

        Raises OptionError where `delay` is negative or not finite.
        """
        raise DeferRun(check_seconds(delay, "delay", zero=True))
