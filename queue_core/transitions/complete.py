"""running -> completed: the handler returned."""

from collections.abc import Sequence
from uuid import UUID

import psycopg
from psycopg.rows import args_row

from queue_core.clauses import REPORT, TAKEN, TALLIED
from queue_core.database import contention, fetch
from queue_core.outcomes import Completed, Moved, RunReport, in_order, report_columns

COMPLETE = (
    REPORT
    + """
result AS (
    SELECT result.id, result.attempt, result.value
    FROM unnest(%(ids)s::uuid[], %(attempts)s::integer[], %(results)s::text[])
        AS result (id, attempt, value)
),
"""
    + TAKEN
    + """
tally AS (
    SELECT taken.name, 'completed' AS state, 1 AS entered, 0 AS removed, taken.started_at
    FROM taken
),
"""
    + TALLIED
    + """
ended AS (
    INSERT INTO countersign.ended (id, state, attempt, worker, started_at, result)
    SELECT taken.id, 'completed', taken.attempt, taken.worker, taken.started_at,
        result.value::jsonb
    FROM taken
    JOIN result ON result.id = taken.id AND result.attempt = taken.attempt
)
SELECT taken.id, taken.attempt, 'completed' AS state
FROM taken
"""
)


def complete(
    conn: psycopg.Connection[object], worker: UUID, reports: Sequence[RunReport]
) -> list[Moved]:
    """Record runs whose ending is Completed; returns those that still held their claim.

    A result that Postgres cannot store raises psycopg.DataError for the whole batch.
    """
    ordered = in_order(reports)
    results = [each.ending.result for each in ordered if isinstance(each.ending, Completed)]
    parameters = report_columns(worker, ordered) | {"results": results}
    with contention():
        return fetch(conn, COMPLETE, parameters, args_row(Moved))
