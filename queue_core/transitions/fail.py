"""running -> waiting | failed | cancelled | needs_review: the run raised, timed out or crashed."""

from collections.abc import Sequence
from uuid import UUID

import psycopg

from queue_core.clauses import FAILURE, REPORT, TAKEN, TALLIED
from queue_core.database import contention, rows
from queue_core.outcomes import Moved, RunReport, failure_columns, in_order, report_columns

FAIL = (
    REPORT
    + FAILURE
    + TAKEN
    + """
decided AS MATERIALIZED (
    SELECT taken.*, failure.outcome, failure.wait, failure.signal, failure.error,
        failure.error_type, failure.error_place, failure.traceback,
        CASE
            WHEN failure.outcome = 'crashed' AND taken.on_lost = 'review' THEN 'needs_review'
            WHEN taken.stop_requested_at IS NOT NULL THEN 'cancelled'
            WHEN failure.outcome = 'crashed' AND EXISTS (
                SELECT FROM countersign.runs
                WHERE runs.job_id = taken.id AND runs.outcome = 'crashed'
            ) THEN 'needs_review'
            WHEN failure.retryable AND taken.attempt < taken.attempts_allowed THEN 'waiting'
            ELSE 'failed'
        END AS state
    FROM taken
    JOIN failure ON failure.id = taken.id AND failure.attempt = taken.attempt
),
run AS (
    INSERT INTO countersign.runs (job_id, attempt, outcome, worker, child_pid, signal, claimed_at,
        started_at, error, error_type, error_place, traceback)
    SELECT decided.id, decided.attempt, decided.outcome, decided.worker, decided.child_pid,
        decided.signal, decided.claimed_at, decided.started_at, decided.error,
        decided.error_type, decided.error_place, decided.traceback
    FROM decided
),
again AS (
    INSERT INTO countersign.waiting (id, queue, name, rank, run_at, attempt, attempts_allowed)
    SELECT decided.id, decided.queue, decided.name, decided.rank,
        now() + make_interval(secs => decided.wait), decided.attempt, decided.attempts_allowed
    FROM decided
    WHERE decided.state = 'waiting'
),
ended AS (
    INSERT INTO countersign.ended (id, state, uncertain, attempt, worker, started_at, error,
        error_type, error_place)
    SELECT decided.id, decided.state, decided.outcome = 'crashed', decided.attempt,
        decided.worker, decided.started_at, decided.error, decided.error_type,
        decided.error_place
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
        signal, error)
    SELECT decided.id,
        CASE WHEN decided.on_lost = 'review' THEN 'crashed' ELSE 'crashed_again' END,
        decided.attempt, decided.worker, decided.claimed_at, decided.started_at,
        decided.child_pid, decided.signal, decided.error
    FROM decided
    WHERE decided.state = 'needs_review'
)
SELECT decided.id, decided.attempt, decided.state
FROM decided
"""
)


def fail(
    conn: psycopg.Connection[object], worker: UUID, reports: Sequence[RunReport]
) -> list[Moved]:
    """Record runs whose ending is Failed; returns where each that held its claim went.

    With attempts left the job waits for `report.wait` seconds; a permanent error or the last
    attempt fails it; after a request to stop it is cancelled; a child that died on it under
    `on_lost="review"`, or for the second time, sends it to review.
    """
    ordered = in_order(reports)
    parameters = report_columns(worker, ordered) | failure_columns(ordered)
    with contention():
        return rows(conn, FAIL, parameters, Moved)
