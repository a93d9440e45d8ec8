"""-> ready | waiting: a job is asked for."""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Final, LiteralString
from uuid import UUID

import psycopg

from queue_core.acts import Signature
from queue_core.clauses import PLACED, PLACED_NOW, SIGNED, WOKEN
from queue_core.copying import copy_jobs, may_copy
from queue_core.database import contention, rows, transaction
from queue_core.errors import ArgumentsError, SchemaError
from queue_core.jobs import Asked, Enqueued, NewJob
from queue_core.registry import Handler, find
from queue_core.waking import TOLD

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
    FROM unnest(%(name)s::text[], %(queue)s::text[], %(args)s::text[], %(priority)s::smallint[],
        %(attempts)s::integer[], %(time_limit)s::double precision[],
        %(delay)s::double precision[], %(run_at)s::timestamptz[])
        WITH ORDINALITY AS asked (name, queue, args, priority, attempts, time_limit, delay, run_at,
            position)
    JOIN made ON made.position = asked.position
),
"""
ASKED_ONE: Final[LiteralString] = """
WITH asked AS MATERIALIZED (
    SELECT countersign.new_id() AS id, 1 AS position, %(name)s::text AS name,
        %(queue)s::text AS queue, %(args)s::text AS args, %(priority)s::smallint AS priority,
        %(attempts)s::integer AS attempts, %(time_limit)s::double precision AS time_limit,
        NULL::text AS schedule,
        COALESCE(%(run_at)s::timestamptz,
            now() + make_interval(secs => %(delay)s::double precision)) AS run_at
),
"""
ANSWER: Final[LiteralString] = """
SELECT asked.id
FROM asked
LEFT JOIN woken ON true
ORDER BY asked.position
"""
ENQUEUE: Final[LiteralString] = ASKED + PLACED + WOKEN + ANSWER
# Arrays of one would have to be written, read and sorted for each job.
ENQUEUE_ONE: Final[LiteralString] = ASKED_ONE + PLACED + WOKEN + ANSWER
# A table that it may insert into costs a statement something though it gets no row; so does a join.
ENQUEUE_NOW: Final[LiteralString] = (
    ASKED_ONE
    + PLACED_NOW
    + "SELECT asked.id, ("
    + TOLD
    + """) AS told
FROM asked
"""
)
ENQUEUE_SIGNED = (
    ASKED_ONE
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
    """A row of ENQUEUE, or of ENQUEUE_NOW: whether somebody was told is nobody's business."""

    id: UUID
    told: bool | None = None


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
    handler = find(job)
    new = NewJob(
        name=handler.name,
        args={} if args is None else args,
        queue=queue,
        priority=priority,
        delay=delay,
        run_at=run_at,
        attempts=attempts,
        time_limit=time_limit,
    )
    asked = _asked(handler, new)
    statement = ENQUEUE_ONE if delay or run_at else ENQUEUE_NOW
    with contention(), _refusals(new.name):
        (made,) = rows(conn, statement, asked._asdict(), _Created)
    return Enqueued(made.id, created=True)


def enqueue_many(conn: psycopg.Connection[object], jobs: Iterable[NewJob]) -> list[Enqueued]:
    """Ask for many jobs, all or none; answers in the order given.

    Errors as for `enqueue`; those of a job are found before anything is inserted.
    """
    new = list(jobs)
    handlers = {name: find(name) for name in dict.fromkeys(job.name for job in new)}
    asked = [_asked(handlers[job.name], job) for job in new]
    if not asked:
        return []
    with contention(), _refusals(asked[0].name):
        if len(asked) <= MOST_PER_STATEMENT:
            # One statement is all or nothing by itself, and spares the round trips of many.
            ids = _insert(conn, asked)
        else:
            with transaction(conn):
                ids = copy_jobs(conn, asked) if may_copy(conn) else _insert(conn, asked)
    return [Enqueued(each, created=True) for each in ids]


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
    asked = _asked(find(job.name), job)
    with contention(), _refusals(job.name):
        parameters = asked._asdict() | signature.parameters()
        (made,) = rows(conn, ENQUEUE_SIGNED, parameters, _Signed)
    return Enqueued(made.job_id, created=True)


def _asked(handler: Handler, job: NewJob) -> Asked:
    """Check a job against what is declared under its name."""
    return Asked(
        name=job.name,
        queue=job.queue or handler.queue,
        args=handler.encode(job.args),
        priority=job.priority,
        attempts=job.attempts,
        time_limit=None if job.time_limit is None else float(job.time_limit),
        delay=float(job.delay or 0),
        run_at=job.run_at,
    )


def _insert(conn: psycopg.Connection[object], asked: Sequence[Asked]) -> list[UUID]:
    """Insert jobs a thousand at a time; returns their ids, in the order given."""
    ids: list[UUID] = []
    for start in range(0, len(asked), MOST_PER_STATEMENT):
        part = asked[start : start + MOST_PER_STATEMENT]
        columns = [list(column) for column in zip(*part, strict=True)]
        parameters = dict(zip(Asked._fields, columns, strict=True))
        made = rows(conn, ENQUEUE, parameters | {"count": len(part)}, _Created)
        ids += [row.id for row in made]
    return ids


@contextmanager
def _refusals(name: str) -> Generator[None]:
    """Tell what Postgres refuses of jobs, the first of which has that name, in our own words."""
    try:
        yield
    except (psycopg.DataError, UnicodeEncodeError):
        # The server's text would carry the arguments; so would that of a failed check below.
        raise ArgumentsError(name, {"": "cannot be stored by Postgres"}) from None
    except psycopg.errors.CheckViolation:
        message = "the tables do not take this job: see what `flask queue check` says"
        raise SchemaError(message) from None
