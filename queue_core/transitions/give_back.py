"""running -> ready | cancelled: a worker returns a run that it never began."""

from collections.abc import Iterable
from uuid import UUID

import psycopg

from queue_core.clauses import REPORT, TAKEN, TALLIED
from queue_core.database import contention, rows
from queue_core.outcomes import Moved

GIVE_BACK = (
    REPORT
    + TAKEN
    + """
run AS (
    INSERT INTO countersign.runs (job_id, attempt, outcome, worker, claimed_at)
    SELECT taken.id, taken.attempt, 'returned', taken.worker, taken.claimed_at
    FROM taken
),
again AS (
    INSERT INTO countersign.ready (id, queue, name, rank, run_at, attempt, attempts_allowed)
    SELECT taken.id, taken.queue, taken.name, taken.rank, taken.run_at, taken.attempt,
        taken.attempts_allowed + 1
    FROM taken
    WHERE taken.stop_requested_at IS NULL
),
tally AS (
    SELECT taken.name, 'cancelled' AS state, 1 AS entered, 0 AS removed,
        NULL::timestamptz AS started_at
    FROM taken
    WHERE taken.stop_requested_at IS NOT NULL
),
"""
    + TALLIED
    + """
ended AS (
    INSERT INTO countersign.ended (id, state, attempt, worker)
    SELECT taken.id, 'cancelled', taken.attempt, taken.worker
    FROM taken
    WHERE taken.stop_requested_at IS NOT NULL
)
SELECT taken.id, taken.attempt,
    CASE WHEN taken.stop_requested_at IS NULL THEN 'ready' ELSE 'cancelled' END AS state
FROM taken
"""
)


def give_back(
    conn: psycopg.Connection[object], worker: UUID, runs: Iterable[tuple[UUID, int]]
) -> list[Moved]:
    """Return runs (id, attempt) to their old place, the attempt given back.

    Returns where each that the worker still held went; after a request to stop the job is
    cancelled instead.
    """
    returned = sorted(runs)
    parameters = {
        "worker": worker,
        "ids": [run[0] for run in returned],
        "attempts": [run[1] for run in returned],
        "seconds": [None] * len(returned),
        "child_pids": [None] * len(returned),
    }
    with contention():
        return rows(conn, GIVE_BACK, parameters, Moved)
