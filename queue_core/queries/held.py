"""What workers hold: the runs of living ones, and those that lost ones held when they were lost."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, LiteralString
from uuid import UUID

import psycopg

from queue_core.database import rows
from queue_core.queries.places import Place, locate

MOST_RUNS: Final = 200
"""Of one worker, shown at once."""
LOST_CAP: Final = 100
"""What was lost with a worker is counted up to here, and then "100+"."""
_PLACE: Final = re.compile(r"([0-9a-f]{32})_([0-9]{1,9})", re.ASCII)


@dataclass(frozen=True, slots=True)
class HeldRun:
    """A run that a worker has claimed; `of` is how many runs it has in all.

    `started_at` is None where it has not begun, as far as is known.
    """

    worker: UUID
    id: UUID
    attempt: int
    name: str
    queue: str
    claimed_at: datetime
    started_at: datetime | None
    child_pid: int | None
    stop_requested_at: datetime | None
    of: int


# Whole, since no index is worth its cost at each claim: as many rows as there are slots.
HELD = """
SELECT held.worker, held.id, held.attempt, held.name, held.queue, held.claimed_at,
    held.started_at, held.child_pid, held.stop_requested_at, held.of
FROM (
    SELECT running.*,
        count(*) OVER (PARTITION BY running.worker) AS of,
        row_number() OVER (
            PARTITION BY running.worker
            ORDER BY running.started_at IS NULL, running.claimed_at, running.id
        ) AS place
    FROM countersign.running
    WHERE running.worker = ANY(%(workers)s)
) AS held
WHERE held.place <= %(most)s
ORDER BY held.worker, held.place
"""


def held_by(
    conn: psycopg.Connection[object], workers: Iterable[UUID], *, most: int = MOST_RUNS
) -> dict[UUID, list[HeldRun]]:
    """Return the runs of each worker that has any, begun ones first, at most `most` of each."""
    found: dict[UUID, list[HeldRun]] = {}
    for run in rows(conn, HELD, {"workers": list(workers), "most": most}, HeldRun):
        found.setdefault(run.worker, []).append(run)
    return found


@dataclass(frozen=True, slots=True)
class LostPlace:
    """A place in the list of what a worker held: a run's job and attempt."""

    id: UUID
    attempt: int

    def encode(self) -> str:
        """Return the place as it stands in a URL."""
        return f"{self.id.hex}_{self.attempt}"

    @classmethod
    def decode(cls, text: str) -> "LostPlace":
        """Read a place from a URL. Raises ValueError for anything that `encode` did not make."""
        match = _PLACE.fullmatch(text)
        if not match:
            message = "not a place"
            raise ValueError(message)
        return cls(UUID(match[1]), int(match[2]))


@dataclass(frozen=True, slots=True)
class LostRun:
    """A run that was lost with its worker. A job whose body is gone has the name "unknown"."""

    id: UUID
    attempt: int
    name: str
    queue: str
    claimed_at: datetime | None
    started_at: datetime | None
    lost_at: datetime

    def place(self) -> LostPlace:
        """Return where this run stands in the list."""
        return LostPlace(self.id, self.attempt)


LOST: Final[LiteralString] = """
SELECT runs.job_id AS id, runs.attempt, COALESCE(body.name, 'unknown') AS name,
    COALESCE(body.queue, 'unknown') AS queue, runs.claimed_at, runs.started_at,
    runs.ended_at AS lost_at
FROM countersign.runs
LEFT JOIN LATERAL (
    SELECT jobs.name, jobs.queue FROM countersign.jobs WHERE jobs.id = runs.job_id LIMIT 1
) AS body ON true
WHERE runs.worker = %(worker)s AND runs.outcome = 'lost'
"""
BEYOND: Final[LiteralString] = "    AND (runs.job_id, runs.attempt) > (%(id)s, %(attempt)s)\n"
BEFORE: Final[LiteralString] = "    AND (runs.job_id, runs.attempt) < (%(id)s, %(attempt)s)\n"
RISING: Final[LiteralString] = "ORDER BY runs.job_id, runs.attempt\nLIMIT %(limit)s\n"
FALLING: Final[LiteralString] = "ORDER BY runs.job_id DESC, runs.attempt DESC\nLIMIT %(limit)s\n"


@dataclass(frozen=True, slots=True)
class Lost:
    """What a worker held when it was lost, and where those jobs are now, if they still are.

    One page of it; a place is None where there is no more that way.
    """

    runs: list[LostRun]
    places: dict[UUID, Place]
    previous: LostPlace | None
    next: LostPlace | None


def lost_with(
    conn: psycopg.Connection[object],
    worker: UUID,
    *,
    place: LostPlace | None = None,
    direction: Literal["next", "previous"] = "next",
    limit: int = MOST_RUNS,
) -> Lost:
    """Return the runs that were lost with a worker, as they were enqueued, from `place` on.

    With `direction` those before it; at most `limit`.
    """
    backward = direction == "previous" and place is not None
    given: dict[str, object] = {"worker": worker, "limit": limit + 1}
    if place:
        given |= {"id": place.id, "attempt": place.attempt}
    side = (BEFORE if backward else BEYOND) if place else ""
    found = rows(conn, LOST + side + (FALLING if backward else RISING), given, LostRun)
    more, kept = len(found) > limit, found[:limit]
    if backward:
        kept.reverse()
    now = locate(conn, list({run.id for run in kept})) if kept else {}
    has_previous = more if backward else place is not None
    return Lost(
        kept,
        now,
        kept[0].place() if kept and has_previous else None,
        kept[-1].place() if kept and (more or backward) else None,
    )


@dataclass(frozen=True, slots=True)
class _Count:
    """A row of LOST_BY."""

    worker: UUID
    runs: int


LOST_BY = """
SELECT asked.worker, (
        SELECT count(*) FROM (
            SELECT FROM countersign.runs
            WHERE runs.worker = asked.worker AND runs.outcome = 'lost'
            LIMIT %(limit)s
        ) AS capped
    ) AS runs
FROM unnest(%(workers)s::uuid[]) AS asked (worker)
"""


def lost_by(
    conn: psycopg.Connection[object], workers: Sequence[UUID], *, cap: int = LOST_CAP
) -> dict[UUID, int]:
    """Count the runs that were lost with each worker, up to `cap`; `cap + 1` means more."""
    given = {"workers": list(workers), "limit": cap + 1}
    return {row.worker: row.runs for row in rows(conn, LOST_BY, given, _Count)}
