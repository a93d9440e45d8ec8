"""Runs whose end nobody has seen, of jobs in review: they may go on while a person decides."""

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

import psycopg

from queue_core.database import rows


@dataclass(frozen=True, slots=True)
class Unseen:
    """A run of a job in review that was given up on, and may be at work even now."""

    id: UUID
    attempt: int
    worker: UUID | None


# Its end was seen where the run reported after all, where its worker's process was found gone,
# or where the worker ended its runs before it stopped or gave itself up.
UNSEEN = """
SELECT asked.id, given_up.attempt, given_up.worker
FROM unnest(%(ids)s::uuid[]) AS asked (id)
CROSS JOIN LATERAL (
    SELECT FROM countersign.review WHERE review.id = asked.id LIMIT 1
) AS waits
CROSS JOIN LATERAL (
    SELECT runs.attempt, runs.worker
    FROM countersign.runs
    WHERE runs.job_id = asked.id
        AND runs.outcome = 'lost'
        AND NOT EXISTS (
            SELECT FROM countersign.runs AS late
            WHERE late.job_id = runs.job_id
                AND late.attempt = runs.attempt
                AND late.outcome IN ('late_completed', 'late_failed')
        )
        AND NOT EXISTS (
            SELECT FROM countersign.workers
            WHERE workers.id = runs.worker
                AND (workers.stopped_at IS NOT NULL
                    OR workers.lost_rule IN ('same_host', 'gave_up'))
        )
    ORDER BY runs.attempt DESC
    LIMIT 1
) AS given_up
"""


def unseen(conn: psycopg.Connection[object], ids: Iterable[UUID]) -> dict[UUID, Unseen]:
    """Return the newest such run of each job of `ids` that is in review and has one.

    What was seen once stays seen: a job at its attempt leaves this and never comes back.
    """
    return {row.id: row for row in rows(conn, UNSEEN, {"ids": list(ids)}, Unseen)}
