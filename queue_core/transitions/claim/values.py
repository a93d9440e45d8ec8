"""What a claim is asked for and what comes of it: names that may be taken, runs that were."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal
from uuid import UUID

from queue_core.sharing import Shares


@dataclass(frozen=True, slots=True)
class Claimable:
    """A name that a worker handles, with the defaults in force for jobs that set none.

    `limit` is how many of its runs the worker may have at once; one that is `safe_to_repeat`
    may be claimed before a slot is free. `shares` says what its runs have in common with others.
    """

    name: str
    attempts: int = 1
    on_lost: Literal["attempts", "review"] = "attempts"
    time_limit: float | None = None
    limit: int | None = None
    safe_to_repeat: bool = False
    shares: Shares | None = None


@dataclass(slots=True)  # not frozen, which costs a microsecond a run
class Claimed:
    """A run that now belongs to a worker.

    `args` is JSON text as the database keeps it, None where the job's body is gone;
    `time_limit` is in seconds.
    """

    id: UUID
    attempt: int
    name: str
    queue: str
    args: str | None = field(repr=False)
    time_limit: float | None
    attempts_allowed: int
    on_lost: str
    claimed_at: datetime
