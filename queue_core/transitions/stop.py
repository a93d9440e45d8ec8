"""running -> cancelled | ready: the run stopped, since it was asked to or was killed for it."""

from collections.abc import Sequence
from uuid import UUID

import psycopg

from queue_core.clauses import REPORT, TAKEN, TALLIED
from queue_core.database import contention, rows
from queue_core.outcomes import Moved, RunReport, Stopped, cut, in_order, report_columns

# Only a cancel sets `stop_requested_at`; without it the run stopped for its worker's shutdown.
STOP = (
    REPORT
    + """
halt AS (
    SELECT halt.id, halt.attempt, halt.error, halt.killed
    FROM unnest(%(ids)s::uuid[], %(attempts)s::integer[], %(errors)s::text[],
        %(killed)s::boolean[]) AS halt (id, attempt, error, killed)
),
"""
    + TAKEN
    + """
decided AS MATERIALIZED (
    SELECT taken.*, halt.error, halt.killed,
        CASE WHEN taken.stop_requested_at IS NULL THEN 'ready' ELSE 'cancelled' END AS state
    FROM taken
    JOIN halt ON halt.id = taken.id AND halt.attempt = taken.attempt
),
run AS (
    INSERT INTO countersign.runs (job_id, attempt, outcome, worker, child_pid, claimed_at,
        started_at, error)
    SELECT decided.id, decided.attempt,
        CASE decided.state WHEN 'ready' THEN 'returned' ELSE 'stopped' END,
        decided.worker, decided.child_pid, decided.claimed_at, decided.started_at, decided.error
    FROM decided
),
again AS (
    INSERT INTO countersign.ready (id, queue, name, rank, run_at, attempt, attempts_allowed)
    SELECT decided.id, decided.queue, decided.name, decided.rank, decided.run_at,
        decided.attempt, decided.attempts_allowed + 1
    FROM decided
    WHERE decided.state = 'ready'
),
tally AS (
    SELECT decided.name, decided.state, 1 AS entered, 0 AS removed, decided.started_at
    FROM decided
    WHERE decided.state = 'cancelled'
),
"""
    + TALLIED
    + """
ended AS (
    INSERT INTO countersign.ended (id, state, uncertain, attempt, worker, started_at, error)
    SELECT decided.id, 'cancelled', decided.killed, decided.attempt, decided.worker,
        decided.started_at, decided.error
    FROM decided
    WHERE decided.state = 'cancelled'
)
SELECT decided.id, decided.attempt, decided.state
FROM decided
"""
)


def stop(
    conn: psycopg.Connection[object], worker: UUID, reports: Sequence[RunReport]
) -> list[Moved]:
    """Record runs whose ending is Stopped; returns where each that held its claim went.

    After a cancel the job is cancelled, and uncertain where the run was killed: it may have run
    in part. Otherwise it stopped since its worker ends: it goes back to its old place, ready,
    with the attempt given back.
    """
    ordered = in_order(reports)
    halts = [each.ending for each in ordered if isinstance(each.ending, Stopped)]
    parameters = report_columns(worker, ordered) | {
        "errors": [cut(halt.error) or None for halt in halts],
        "killed": [halt.killed for halt in halts],
    }
    with contention():
        return rows(conn, STOP, parameters, Moved)
