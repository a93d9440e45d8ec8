"""waiting -> ready: its time has come, on the database's clock."""

from typing import Final, NamedTuple
from uuid import UUID

import psycopg
from psycopg.rows import args_row

from queue_core.database import fetch

BATCH: Final = 1_000


class Last(NamedTuple):
    """Where the last job of a batch stood, and how many there were; `due` is UTC, as text."""

    moved: int
    due: str
    id: UUID


class Line:
    """What one promoter remembers: where its last batch ended, if it was a full one.

    While an old snapshot is open the rows that left stay in the index, to be walked again.
    """

    def __init__(self) -> None:
        self.last = FIRST


FIRST: Final = Last(0, "-infinity", UUID(int=0))

PROMOTE = """
WITH due AS (
    DELETE FROM countersign.waiting
    WHERE waiting.ctid = ANY(ARRAY(
        SELECT waiting.ctid
        FROM countersign.waiting
        WHERE waiting.run_at <= now()
            AND (waiting.run_at, waiting.id)
                > (%(due)s::timestamp AT TIME ZONE 'UTC', %(id)s::uuid)
        ORDER BY waiting.run_at, waiting.id
        FOR UPDATE SKIP LOCKED
        LIMIT %(limit)s
    ))
    RETURNING waiting.id, waiting.queue, waiting.name, waiting.rank, waiting.run_at,
        waiting.attempt, waiting.attempts_allowed
),
moved AS (
    INSERT INTO countersign.ready (id, queue, name, rank, run_at, attempt, attempts_allowed)
    SELECT due.id, due.queue, due.name, due.rank, due.run_at, due.attempt, due.attempts_allowed
    FROM due
)
SELECT count(*) OVER (), (due.run_at AT TIME ZONE 'UTC')::text, due.id
FROM due
ORDER BY due.run_at DESC, due.id DESC
LIMIT 1
"""


def promote(
    conn: psycopg.Connection[object], *, limit: int = BATCH, line: Line | None = None
) -> int:
    """Move jobs that have fallen due to `ready`, at most `limit`; returns how many moved.

    With `line` it goes on where the last full batch ended; a short one begins anew next time.
    """
    line = line or Line()
    parameters = {"limit": limit, "due": line.last.due, "id": line.last.id}
    (last,) = fetch(conn, PROMOTE, parameters, args_row(Last)) or [FIRST]
    line.last = last if last.moved == limit else FIRST
    return last.moved
