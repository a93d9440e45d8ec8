"""Runs that ended without completing their job; and what a worker asks of its own runs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

import psycopg
from psycopg.rows import scalar_row

from queue_core.database import fetch, rows
from queue_core.states import Outcome


@dataclass(frozen=True, slots=True)
class RunRow:
    """One run that ended without completing its job; times unknown are None."""

    attempt: int
    outcome: Outcome
    worker: UUID | None
    child_pid: int | None
    signal: int | None
    claimed_at: datetime | None
    started_at: datetime | None
    ended_at: datetime
    error: str | None = field(repr=False)
    error_type: str | None
    error_place: str | None
    traceback: str | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class _Own:
    """A row of OWN_RECORD."""

    id: UUID
    attempt: int


RUNS = """
SELECT runs.attempt, runs.outcome, runs.worker, runs.child_pid, runs.signal, runs.claimed_at,
    runs.started_at, runs.ended_at, runs.error, runs.error_type, runs.error_place, runs.traceback
FROM countersign.runs
WHERE runs.job_id = %(job_id)s
ORDER BY runs.attempt, runs.ended_at, runs.outcome
"""


def runs_of(conn: psycopg.Connection[object], job_id: UUID) -> list[RunRow]:
    """Return the runs of a job that ended without completing it, oldest first."""
    return rows(conn, RUNS, {"job_id": job_id}, RunRow)


OWN_RECORD = """
SELECT asked.id, asked.attempt
FROM unnest(%(ids)s::uuid[], %(attempts)s::integer[]) AS asked (id, attempt)
WHERE EXISTS (
        SELECT FROM countersign.ended
        WHERE ended.id = asked.id
            AND ended.attempt = asked.attempt
            AND ended.worker = %(worker)s
            AND ended.state = 'completed'
    )
    OR EXISTS (
        SELECT FROM countersign.runs
        WHERE runs.job_id = asked.id
            AND runs.attempt = asked.attempt
            AND runs.worker = %(worker)s
            AND runs.outcome NOT IN ('lost', 'late_completed', 'late_failed')
    )
"""


def own_record(
    conn: psycopg.Connection[object], worker: UUID, runs: Iterable[tuple[UUID, int]]
) -> set[tuple[UUID, int]]:
    """Return those of a worker's runs whose end it has recorded itself.

    A commit that nobody answered may have succeeded: a run is only lost to its worker
    where this finds nothing.
    """
    asked = list(runs)
    parameters = {
        "worker": worker,
        "ids": [run[0] for run in asked],
        "attempts": [run[1] for run in asked],
    }
    return {(row.id, row.attempt) for row in rows(conn, OWN_RECORD, parameters, _Own)}


LOCKED_BY_OTHERS = """
SELECT running.id
FROM countersign.running
WHERE running.id = ANY(%(ids)s) AND running.worker = %(worker)s
EXCEPT
SELECT free.id
FROM (
    SELECT running.id
    FROM countersign.running
    WHERE running.id = ANY(%(ids)s) AND running.worker = %(worker)s
    FOR UPDATE SKIP LOCKED
) AS free
"""


def locked_by_others(
    conn: psycopg.Connection[object], worker: UUID, ids: Sequence[UUID]
) -> set[UUID]:
    """Return those of a worker's runs that somebody else has locked at this moment."""
    parameters = {"ids": ids, "worker": worker}
    return set(fetch(conn, LOCKED_BY_OTHERS, parameters, scalar_row))
