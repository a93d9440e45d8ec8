"""waiting -> ready: its time has come, on the database's clock."""

from typing import Final

import psycopg

from queue_core.database import execute

BATCH: Final = 1_000

PROMOTE = """
WITH due AS (
    DELETE FROM countersign.waiting
    WHERE waiting.ctid = ANY(ARRAY(
        SELECT waiting.ctid
        FROM countersign.waiting
        WHERE waiting.run_at <= now()
        ORDER BY waiting.run_at, waiting.id
        FOR UPDATE SKIP LOCKED
        LIMIT %(limit)s
    ))
    RETURNING waiting.id, waiting.queue, waiting.name, waiting.rank, waiting.run_at,
        waiting.attempt, waiting.attempts_allowed
)
INSERT INTO countersign.ready (id, queue, name, rank, run_at, attempt, attempts_allowed)
SELECT due.id, due.queue, due.name, due.rank, due.run_at, due.attempt, due.attempts_allowed
FROM due
"""


def promote(conn: psycopg.Connection[object], *, limit: int = BATCH) -> int:
    """Move jobs that have fallen due to `ready`, at most `limit`; returns how many moved."""
    return execute(conn, PROMOTE, {"limit": limit})
