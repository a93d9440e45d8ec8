"""running -> ready | failed | cancelled | needs_review: the run's worker is gone."""

from typing import Final
from uuid import UUID

import psycopg

from queue_core.clauses import TALLIED
from queue_core.database import rows
from queue_core.outcomes import Moved

BATCH: Final = 1_000

RECOVER = (
    """
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
        running.stop_requested_at, running.started_at, running.child_pid,
        running.safe_to_repeat
),
-- Claimed ahead and, as far as is known, not begun: the attempt is given back, but once only, for
-- the job may be what brings its workers down.
spared AS MATERIALIZED (
    SELECT taken.id
    FROM taken
    WHERE taken.safe_to_repeat
        AND taken.started_at IS NULL
        AND NOT EXISTS (
            SELECT FROM countersign.runs
            WHERE runs.job_id = taken.id AND runs.outcome = 'lost'
        )
),
decided AS MATERIALIZED (
    SELECT taken.*,
        taken.attempts_allowed + (spared.id IS NOT NULL)::integer AS allowed,
        CASE
            WHEN taken.on_lost = 'review' THEN 'needs_review'
            WHEN taken.stop_requested_at IS NOT NULL THEN 'cancelled'
            WHEN taken.attempt < taken.attempts_allowed OR spared.id IS NOT NULL THEN 'ready'
            ELSE 'failed'
        END AS state
    FROM taken
    LEFT JOIN spared ON spared.id = taken.id
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
        decided.attempt, decided.allowed
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
tally AS (
    SELECT decided.name, decided.state, 1 AS entered, 0 AS removed, decided.started_at
    FROM decided
    WHERE decided.state IN ('failed', 'cancelled')
),
"""
    + TALLIED
    + """
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
)


def recover(
    conn: psycopg.Connection[object], *, worker: UUID | None = None, limit: int = BATCH
) -> list[Moved]:
    """Resolve runs whose worker is unknown, stopped or lost; returns where each job went.

    With attempts left a job is ready again in its old place, without backoff; none left: it
    failed, abandoned by its worker. A job that is safe to repeat and was claimed ahead gets
    the attempt back, once. `on_lost="review"` always sends it to a person. With
    `worker` only that worker's runs are looked at. At most `limit` a call.
    """
    return rows(conn, RECOVER, {"worker": worker, "limit": limit}, Moved)
