"""What a worker knows of its runs: those in a child's hands, and those that ended."""

import threading
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from queue_core.backoff import backoff, jittered
from queue_core.fleet import Started
from queue_core.outcomes import Ending, Failed, RunReport
from queue_core.transitions.claim import Claimed
from queue_core.worker.guard import boottime


class Key(NamedTuple):
    """A run: the job's id and the attempt."""

    id: UUID
    attempt: int


@dataclass(frozen=True, slots=True)
class Returned:
    """The run never began: its claim is given back."""


@dataclass(frozen=True, slots=True)
class RunInHand:
    """A run that a child was given at `began` (`boottime()`), to end by `stop_at` (monotonic)."""

    claimed: Claimed
    child_pid: int
    began: float
    stop_at: float

    @property
    def key(self) -> Key:
        """Which run it is."""
        return Key(self.claimed.id, self.claimed.attempt)


@dataclass(frozen=True, slots=True)
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


def finished(run: RunInHand, ending: Ending) -> Finished:
    """Return a run in hand as ended so, with the pause before its next attempt if it gets one."""
    again = isinstance(ending, Failed) and ending.retryable
    return Finished(
        run.key,
        run.claimed.name,
        ending,
        run.began,
        run.child_pid,
        boottime() - run.began,
        jittered(backoff(run.claimed.attempt)) if again else 0.0,
    )


def not_begun(claimed: Claimed, ending: Ending | Returned) -> Finished:
    """Return a run that no child was given as ended so."""
    return Finished(Key(claimed.id, claimed.attempt), claimed.name, ending)


class Begun:
    """The runs in hand whose beginning the database has not been told; shared by two threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs: dict[Key, RunInHand] = {}

    def add(self, run: RunInHand) -> None:
        """Note a run that began."""
        with self._lock:
            self._runs[run.key] = run

    def drop(self, keys: set[Key]) -> None:
        """Forget runs that ended, or whose beginning is written."""
        with self._lock:
            for key in keys:
                self._runs.pop(key, None)

    def snapshot(self) -> dict[Key, Started]:
        """Return them as a beat tells of them."""
        with self._lock:
            now = boottime()
            return {
                key: Started(*key, run.child_pid, now - run.began)
                for key, run in self._runs.items()
            }
