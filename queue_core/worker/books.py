"""What a worker knows of its runs: those in a child's hands, and those that ended."""

import math
import threading
import time
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from queue_core.backoff import backoff, jittered
from queue_core.fleet import Started
from queue_core.outcomes import Ending, Failed, RunReport, Stopped
from queue_core.run import StopReason
from queue_core.transitions.claim import Claimed
from queue_core.worker.guard import boottime
from queue_core.worker.messages import Report


class Key(NamedTuple):
    """A run: the job's id and the attempt."""

    id: UUID
    attempt: int


@dataclass(frozen=True, slots=True)
class Returned:
    """The run never began: its claim is given back."""


@dataclass(slots=True, eq=False)
class RunInHand:
    """A run that a child was given at `given`; it is to end by `stop_at` (monotonic).

    `began` is None while it waits behind another run of the same child. Both are on the clock
    of `boottime()`. Where `verdict` is set the run ended so, whatever its child says from now
    on, and its child is killed at `kill_process_at` (monotonic) unless it is over by then.
    """

    claimed: Claimed
    child_pid: int
    given: float
    began: float | None = None
    stop_at: float = math.inf
    asked: StopReason | None = None
    """Why it is asked to stop, if it is; it may go on all the same."""
    kill_after: int | None = None
    kill_at: float = math.inf
    verdict: Failed | Stopped | None = None
    kill_process_at: float = math.inf

    @property
    def key(self) -> Key:
        """Which run it is."""
        return Key(self.claimed.id, self.claimed.attempt)

    def named(self) -> dict[str, object]:
        """Return what a line of the log says of it."""
        return {"job": self.claimed.id, "name": self.claimed.name, "attempt": self.claimed.attempt}

    def begin(self) -> None:
        """Note that it has begun, and let its limit count from now."""
        self.began = boottime()
        if self.claimed.time_limit is not None:
            self.stop_at = time.monotonic() + self.claimed.time_limit

    @property
    def force_at(self) -> float:
        """When it is stopped by force, for its limit or a request (monotonic)."""
        return min(self.stop_at, self.kill_at)

    def ask(self, why: StopReason, kill_after: int | None) -> bool:
        """Note that it is asked to stop; False where that is no news to its code.

        It may go on for `kill_after` seconds, counted from when they are first heard of; None
        for as long as it likes.
        """
        if kill_after is not None and self.kill_after is None:
            self.kill_after, self.kill_at = kill_after, time.monotonic() + kill_after
        if self.asked in {why, "cancelled"}:
            return False
        self.asked = why
        return True

    def next_act(self) -> float:
        """Return when something is to be done about it, on the monotonic clock."""
        return self.force_at if self.verdict is None else self.kill_process_at


@dataclass(slots=True)  # not frozen, which costs a microsecond a run
class Finished:
    """A run that ended, kept until the database has it. `seconds` is how long it took."""

    key: Key
    name: str
    ending: Ending | Returned = field(repr=False)
    began: float | None = None
    child_pid: int | None = None
    seconds: float | None = None
    wait: float = 0.0

    def report(self) -> RunReport:
        """Return what the transitions take; how long ago it began is counted from now."""
        if isinstance(self.ending, Returned):
            raise TypeError("a run that is given back has no ending")
        ago = None if self.began is None else boottime() - self.began
        return RunReport(*self.key, self.ending, ago, self.child_pid, self.wait)


def finished(run: RunInHand, ending: Ending | Returned, report: Report | None = None) -> Finished:
    """Return a run in hand as ended so, with the pause before its next attempt if it gets one.

    Its child's word on when it began is believed within reason.
    """
    now = boottime()
    began = run.began
    if report and report.began is not None:
        began = min(max(report.began, run.given), now)
    again = isinstance(ending, Failed) and ending.retryable
    return Finished(
        run.key,
        run.claimed.name,
        ending,
        began,
        run.child_pid,
        None if began is None else now - began,
        jittered(backoff(run.claimed.attempt)) if again else 0.0,
    )


def not_begun(claimed: Claimed, ending: Ending | Returned) -> Finished:
    """Return a run that no child was given as ended so."""
    return Finished(Key(claimed.id, claimed.attempt), claimed.name, ending)


class Begun:
    """What goes on in each child, as far as the database has to be told; shared by two threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs: dict[int, tuple[RunInHand, ...]] = {}
        self._written: set[Key] = set()

    def note(self, child: int, runs: tuple[RunInHand, ...]) -> None:
        """Note which runs go on in a child."""
        with self._lock:
            over = {run.key for run in self._runs.get(child, ())} - {run.key for run in runs}
            self._written -= over
            self._runs[child] = runs
            if not runs:
                del self._runs[child]

    def drop(self, keys: set[Key]) -> None:
        """Tell no more of runs whose beginning is written."""
        with self._lock:
            going = {run.key for runs in self._runs.values() for run in runs}
            self._written |= keys & going

    def snapshot(self) -> dict[Key, Started]:
        """Return them as a beat tells of them."""
        with self._lock:
            now = boottime()
            return {
                run.key: Started(*run.key, run.child_pid, now - run.began)
                for runs in self._runs.values()
                for run in runs
                if run.began is not None and run.key not in self._written
            }
