"""What stands in the tables, as values: the model predicts them, `reading` reads them."""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import NAMESPACE_URL, UUID, uuid5


@dataclass(frozen=True, slots=True)
class Queued:
    """A row of `ready`, `waiting` or `blocked`; `table` says which."""

    table: str
    queue: str
    name: str
    rank: int
    run_at: datetime
    attempt: int
    attempts_allowed: int | None


@dataclass(frozen=True, slots=True)
class Running:
    """A row of `running`."""

    attempt: int
    worker: UUID
    claimed_at: datetime
    queue: str
    name: str
    rank: int
    run_at: datetime
    attempts_allowed: int
    on_lost: str
    child_pid: int | None = None
    started_at: datetime | None = None
    stop_requested_at: datetime | None = None
    safe_to_repeat: bool = False
    kill_after: int | None = None


@dataclass(frozen=True, slots=True)
class Reviewed:
    """A row of `review`."""

    entered_at: datetime
    why: str
    attempt: int
    worker: UUID | None
    claimed_at: datetime | None = None
    started_at: datetime | None = None
    child_pid: int | None = None
    signal: int | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """A row of `ended`."""

    state: str
    attempt: int
    ended_at: datetime
    uncertain: bool = False
    worker: UUID | None = None
    started_at: datetime | None = None
    error: str | None = None
    error_type: str | None = None
    error_place: str | None = None
    result: Any = None


Place = Queued | Running | Reviewed | Ended


@dataclass(frozen=True, slots=True)
class Body:
    """A row of `jobs`."""

    name: str
    queue: str
    args: Any
    priority: int
    attempts: int | None
    time_limit: float | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Ran:
    """A row of `runs`."""

    attempt: int
    outcome: str
    ended_at: datetime
    worker: UUID | None = None
    child_pid: int | None = None
    signal: int | None = None
    claimed_at: datetime | None = None
    started_at: datetime | None = None
    error: str | None = None
    error_type: str | None = None
    error_place: str | None = None
    traceback: str | None = None


@dataclass(frozen=True, slots=True)
class Acted:
    """A row of `acts` about a job or queue; what the trigger sets is left out."""

    by: str
    act: str
    subject_name: str
    attempt: int | None
    reason: str
    note: str | None
    bulk_id: UUID | None
    via: str
    kill_after: int | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """All that the database has of one job; `place` is where its id stands."""

    body: Body
    place: Place
    runs: tuple[Ran, ...] = ()
    acts: tuple[Acted, ...] = ()

    def state(self, now: datetime) -> str:
        """Return the state at an instant: what waits and is due counts as ready."""
        match self.place:
            case Queued(table="waiting", run_at=run_at) if run_at <= now:
                return "ready"
            case Queued(table=table):
                return table
            case Running():
                return "running"
            case Reviewed():
                return "needs_review"
            case Ended(state=state):
                return state


@dataclass(frozen=True, slots=True)
class Worker:
    """A row of `workers`, as far as others judge it."""

    silent: bool = False
    stopped_at: datetime | None = None
    lost_at: datetime | None = None
    lost_by: UUID | None = None
    lost_rule: str | None = None
    draining_at: datetime | None = None

    @property
    def lives(self) -> bool:
        """Say whether it neither stopped nor was lost."""
        return self.stopped_at is None and self.lost_at is None


@dataclass(frozen=True, slots=True)
class Queue:
    """A row of `queues`, if there is one, and what people did to the queue."""

    paused_at: datetime | None = None
    acts: tuple[Acted, ...] = ()


def queue_key(name: str) -> UUID:
    """Return what stands for a queue among the ids of jobs and workers."""
    return uuid5(NAMESPACE_URL, name)


Fact = Job | Worker | Queue
Tallies = Counter[tuple[str, str, str]]
"""Sums of `tallies` by name and state: how many `entered`, `removed` and were `timed`, and the
microseconds (`us`) that these took."""
