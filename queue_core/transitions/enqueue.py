"""-> ready | waiting: a job is asked for."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime
from typing import Final, LiteralString, TypeVar
from uuid import UUID

import psycopg

from queue_core.acts import Signature
from queue_core.clauses import PLACED, SIGNED, WOKEN
from queue_core.database import contention, rows, transaction
from queue_core.errors import ArgumentsError, SchemaError
from queue_core.jobs import Enqueued, NewJob
from queue_core.registry import find, fitted

Row = TypeVar("Row")
MOST_PER_STATEMENT: Final = 1_000

# Ids are made first and given out in order: ids of one call rise in the order of the jobs.
ASKED: Final[LiteralString] = """
WITH made AS (
    SELECT fresh.id, row_number() OVER (ORDER BY fresh.id) AS position
    FROM (SELECT countersign.new_id() AS id FROM generate_series(1, %(count)s)) AS fresh
),
asked AS MATERIALIZED (
    SELECT made.id, asked.position, asked.name, asked.queue, asked.args, asked.priority,
        asked.attempts, asked.time_limit, NULL::text AS schedule,
        COALESCE(asked.run_at, now() + make_interval(secs => asked.delay)) AS run_at
    FROM unnest(%(names)s::text[], %(queues)s::text[], %(args)s::text[], %(priorities)s::smallint[],
        %(attempts)s::integer[], %(time_limits)s::double precision[],
        %(delays)s::double precision[], %(run_ats)s::timestamptz[])
        WITH ORDINALITY AS asked (name, queue, args, priority, attempts, time_limit, delay, run_at,
            position)
    JOIN made ON made.position = asked.position
),
"""
ENQUEUE = (
    ASKED
    + PLACED
    + WOKEN
    + """
SELECT asked.id
FROM asked
LEFT JOIN woken ON true
ORDER BY asked.position
"""
)
ENQUEUE_SIGNED = (
    ASKED
    + PLACED
    + """,
changed AS (
    SELECT asked.id, asked.name, 0 AS attempt, 'enqueued' AS act,
        CASE WHEN asked.run_at <= now() THEN 'ready' ELSE 'waiting' END AS state
    FROM asked
),
"""
    + SIGNED
)


@dataclass(frozen=True, slots=True)
class _Created:
    """A row of ENQUEUE."""

    id: UUID


@dataclass(frozen=True, slots=True)
class _Signed:
    """A row of ENQUEUE_SIGNED."""

    job_id: UUID
    act: str
    act_id: int
    state: str
    attempt: int


def enqueue(  # noqa: PLR0913 - a job's options, each with its default
    conn: psycopg.Connection[object],
    job: str | Callable[..., object],
    args: Mapping[str, object] | None = None,
    *,
    queue: str | None = None,
    priority: int = 0,
    delay: float | None = None,
    run_at: datetime | None = None,
    attempts: int | None = None,
    time_limit: float | None = None,
) -> Enqueued:
    """Ask for a job on the caller's connection: it exists when the caller's transaction commits.

    `job` is a declared name or its handler. `priority` (-32768 to 32767, higher first),
    `delay` in seconds on the database's clock or `run_at` as an aware datetime, `attempts`
    (unset: the default in force when it runs), `time_limit` in seconds. The arguments are
    checked first; nothing is inserted on a failure. Raises UnknownNameError,
    ArgumentsError, OptionError, and ContendedError where the connection's lock time-out
    ended the wait for whoever changes the tables.
    """
    name = find(job).name
    new = NewJob(
        name=name,
        args={} if args is None else args,
        queue=queue,
        priority=priority,
        delay=delay,
        run_at=run_at,
        attempts=attempts,
        time_limit=time_limit,
    )
    return enqueue_many(conn, [new])[0]


def enqueue_many(conn: psycopg.Connection[object], jobs: Iterable[NewJob]) -> list[Enqueued]:
    """Ask for many jobs, all or none; answers in the order given.

    Errors as for `enqueue`; those of a job are found before anything is inserted.
    """
    columns = [_row(job) for job in jobs]
    starts = range(0, len(columns), MOST_PER_STATEMENT)
    parts = [columns[start : start + MOST_PER_STATEMENT] for start in starts]
    # One statement is all or nothing by itself, and spares two round trips.
    with contention(), transaction(conn) if len(parts) > 1 else nullcontext():
        made = [row for part in parts for row in _insert(conn, ENQUEUE, part, {}, _Created)]
    return [Enqueued(row.id, created=True) for row in made]


def enqueue_signed(
    conn: psycopg.Connection[object],
    job: NewJob,
    *,
    by: str,
    reason: str,
    note: str | None = None,
    via: str = "code",
) -> Enqueued:
    """Ask for a job as a person, with the act `enqueued` in the same statement.

    Errors as for `enqueue`, and NotACodeError and NoteError.
    """
    signature = Signature(by, reason, note, via)
    with contention():
        made = _insert(conn, ENQUEUE_SIGNED, [_row(job)], signature.parameters(), _Signed)
    return Enqueued(made[0].job_id, created=True)


def _row(job: NewJob) -> dict[str, object]:
    """Check a job against what is declared under its name and return its columns."""
    handler, args = fitted(job)
    return {
        "names": job.name,
        "queues": job.queue or handler.queue,
        "args": args,
        "priorities": job.priority,
        "attempts": job.attempts,
        "time_limits": None if job.time_limit is None else float(job.time_limit),
        "delays": float(job.delay or 0),
        "run_ats": job.run_at,
    }


def _insert(
    conn: psycopg.Connection[object],
    statement: LiteralString,
    columns: Sequence[dict[str, object]],
    signature: dict[str, object],
    shape: type[Row],
) -> list[Row]:
    parameters = {key: [row[key] for row in columns] for key in columns[0]}
    try:
        return rows(conn, statement, parameters | {"count": len(columns)} | signature, shape)
    except (psycopg.DataError, UnicodeEncodeError):
        # The server's text would carry the arguments; so would that of a failed check below.
        name = str(columns[0]["names"])
        raise ArgumentsError(name, {"": "cannot be stored by Postgres"}) from None
    except psycopg.errors.CheckViolation:
        message = "the tables do not take this job: see what `flask queue check` says"
        raise SchemaError(message) from None
