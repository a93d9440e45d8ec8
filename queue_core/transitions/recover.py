"""running -> ready | failed | cancelled | needs_review: the run's worker is gone."""

from typing import Final
from uuid import UUID

import psycopg

from queue_core.database import rows
from queue_core.outcomes import Moved

BATCH: Final = 1_000

RECOVER = """
WITH orphan AS (
    SELECT running.id
    FROM countersign.running
    LEFT JOIN countersign.workers ON workers.id = running.worker
    WHERE (workers.id IS NULL OR workers.stopped_at IS NOT NULL OR workers.lost_at IS NOT NULL)
        AND (%(worker)s::uuid IS NULL OR running.worker = %(worker)s::uuid)
    ORDER BY running.id
    FOR UPDATE OF running SKIP LOCKED
    LIMIT %(limit)s
),
taken AS (
    DELETE FROM countersign.running
    USING orphan
    WHERE running.id = orphan.id
    RETURNING running.id, running.attempt, running.worker, running.claimed_at, running.queue,
        running.name, running.rank, running.run_at, running.attempts_allowed, running.on_lost,
        running.stop_requested_at, running.started_at, running.child_pid
),
decided AS MATERIALIZED (
    SELECT taken.*,
        CASE
            WHEN taken.on_lost = 'review' THEN 'needs_review'
            WHEN taken.stop_requested_at IS NOT NULL THEN 'cancelled'
            WHEN taken.attempt < taken.attempts_allowed THEN 'ready'
            ELSE 'failed'
        END AS state
    FROM taken
),
run AS (
    INSERT INTO countersign.runs (job_id, attempt, outcome, worker, child_pid, claimed_at,
        started_at, error)
    SELECT decided.id, decided.attempt, 'lost', decided.worker, decided.child_pid,
        decided.claimed_at, decided.started_at, 'abandoned by its worker'
    FROM decided
),
again AS (
    INSERT INTO countersign.ready (id, queue, name, rank, run_at, attempt, attempts_allowed)
    SELECT decided.id, decided.queue, decided.name, decided.rank, decided.run_at,
        decided.attempt, decided.attempts_allowed
    FROM decided
    WHERE decided.state = 'ready'
),
ended AS (
    INSERT INTO countersign.ended (id, state, uncertain, attempt, worker, started_at, error)
    SELECT decided.id, decided.state, true, decided.attempt, decided.worker, decided.started_at,
        'abandoned by its worker'
    FROM decided
    WHERE decided.state IN ('failed', 'cancelled')
),
review AS (
    INSERT INTO countersign.review (id, why, attempt, worker, claimed_at, started_at, child_pid,
        error)
    SELECT decided.id, 'lost', decided.attempt, decided.worker, decided.claimed_at,
        decided.started_at, decided.child_pid, 'abandoned by its worker'
    FROM decided
    WHERE decided.state = 'needs_review'
)
SELECT decided.id, decided.attempt, decided.state
FROM decided
"""


def recover(
    conn: psycopg.Connection[object], *, worker: UUID | None = None, limit: int = BATCH
) -> list[Moved]:
    """Resolve runs whose worker is unknown, stopped or lost; returns where each job went.

    With attempts left a job is ready again in its old place, without backoff; none left: it
    failed, abandoned by its worker. `on_lost="review"` always sends it to a person. With
    `worker` only that worker's runs are looked at. At most `limit` a call.
    """
    return rows(conn, RECOVER, {"worker": worker, "limit": limit}, Moved)
