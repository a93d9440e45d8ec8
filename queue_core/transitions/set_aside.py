"""running -> needs_review: the job's body is gone or its arguments cannot be read."""

from collections.abc import Sequence
from uuid import UUID

import psycopg

from queue_core.clauses import FAILURE, REPORT, TAKEN
from queue_core.database import contention, rows
from queue_core.outcomes import Moved, RunReport, failure_columns, in_order, report_columns

SET_ASIDE = (
    REPORT
    + FAILURE
    + TAKEN
    + """
run AS (
    INSERT INTO countersign.runs (job_id, attempt, outcome, worker, child_pid, claimed_at,
        started_at, error)
    SELECT taken.id, taken.attempt, 'failed', taken.worker, taken.child_pid, taken.claimed_at,
        taken.started_at, failure.error
    FROM taken
    JOIN failure ON failure.id = taken.id AND failure.attempt = taken.attempt
),
review AS (
    INSERT INTO countersign.review (id, why, attempt, worker, claimed_at, started_at, child_pid,
        error)
    SELECT taken.id, 'unreadable', taken.attempt, taken.worker, taken.claimed_at,
        taken.started_at, taken.child_pid, failure.error
    FROM taken
    JOIN failure ON failure.id = taken.id AND failure.attempt = taken.attempt
)
SELECT taken.id, taken.attempt, 'needs_review' AS state
FROM taken
"""
)


def set_aside(
    conn: psycopg.Connection[object], worker: UUID, reports: Sequence[RunReport]
) -> list[Moved]:
    """Send runs whose ending is Unreadable to a person; returns those that held their claim."""
    ordered = in_order(reports)
    parameters = report_columns(worker, ordered) | failure_columns(ordered)
    with contention():
        return rows(conn, SET_ASIDE, parameters, Moved)
