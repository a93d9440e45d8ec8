"""running -> waiting | cancelled: the handler put its job back, and the attempt is given back."""

from collections.abc import Sequence
from uuid import UUID

import psycopg

from queue_core.clauses import REPORT, TAKEN, TALLIED
from queue_core.database import contention, rows
from queue_core.outcomes import Deferred, Moved, RunReport, in_order, report_columns

DEFER = (
    REPORT
    + """
pause AS (
    SELECT pause.id, pause.attempt, pause.wait
    FROM unnest(%(ids)s::uuid[], %(attempts)s::integer[], %(waits)s::double precision[])
        AS pause (id, attempt, wait)
),
"""
    + TAKEN
    + """
run AS (
    INSERT INTO countersign.runs (job_id, attempt, outcome, worker, child_pid, claimed_at,
        started_at)
    SELECT taken.id, taken.attempt, 'deferred', taken.worker, taken.child_pid, taken.claimed_at,
        taken.started_at
    FROM taken
),
again AS (
    INSERT INTO countersign.waiting (id, queue, name, rank, run_at, attempt, attempts_allowed)
    SELECT taken.id, taken.queue, taken.name, taken.rank,
        now() + make_interval(secs => pause.wait), taken.attempt, taken.attempts_allowed + 1
    FROM taken
    JOIN pause ON pause.id = taken.id AND pause.attempt = taken.attempt
    WHERE taken.stop_requested_at IS NULL
),
tally AS (
    SELECT taken.name, 'cancelled' AS state, 1 AS entered, 0 AS removed, taken.started_at
    FROM taken
    WHERE taken.stop_requested_at IS NOT NULL
),
"""
    + TALLIED
    + """
ended AS (
    INSERT INTO countersign.ended (id, state, attempt, worker, started_at)
    SELECT taken.id, 'cancelled', taken.attempt, taken.worker, taken.started_at
    FROM taken
    WHERE taken.stop_requested_at IS NOT NULL
)
SELECT taken.id, taken.attempt,
    CASE WHEN taken.stop_requested_at IS NULL THEN 'waiting' ELSE 'cancelled' END AS state
FROM taken
"""
)


def defer(
    conn: psycopg.Connection[object], worker: UUID, reports: Sequence[RunReport]
) -> list[Moved]:
    """Put back jobs whose ending is Deferred; returns where each that held its claim went.

    After a request to stop the job is cancelled instead: it never goes back to the queue.
    """
    ordered = in_order(reports)
    waits = [each.ending.seconds for each in ordered if isinstance(each.ending, Deferred)]
    parameters = report_columns(worker, ordered) | {"waits": waits}
    with contention():
        return rows(conn, DEFER, parameters, Moved)
