"""Many jobs that are asked for at once, by COPY: a fraction of what as many inserts take."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Final, LiteralString, NamedTuple
from uuid import UUID

import psycopg
from psycopg import pq

from queue_core.database import copy_in, rows
from queue_core.jobs import Asked
from queue_core.waking import wake

ROWS_AT_ONCE: Final = 1_000
"""Sent together: the server reads them while the next are written out."""

JOBS: Final = """
COPY countersign.jobs (id, name, queue, args, priority, attempts, time_limit) FROM STDIN
"""
READY: Final = """
COPY countersign.ready (id, queue, name, rank, run_at, attempts_allowed) FROM STDIN
"""
WAITING: Final = """
COPY countersign.waiting (id, queue, name, rank, run_at, attempts_allowed) FROM STDIN
"""
# Sorted: ids of one call rise in the order of the jobs.
FRESH: Final[LiteralString] = """
SELECT array_agg(fresh.id ORDER BY fresh.id) AS ids, date_part('epoch', now()) AS at
FROM (SELECT countersign.new_id() AS id FROM generate_series(1, %(count)s)) AS fresh
"""


@dataclass(frozen=True, slots=True)
class _Fresh:
    """The row of FRESH: as many ids, and when the transaction began, in seconds."""

    ids: list[UUID]
    at: float


class _Place(NamedTuple):
    """Where a job stands from its time on."""

    id: UUID
    job: Asked
    run_at: datetime


def may_copy(conn: psycopg.Connection[object]) -> bool:
    """Say whether the connection takes a COPY now: in a pipeline it does not."""
    return conn.pgconn.pipeline_status == pq.PipelineStatus.OFF


def copy_jobs(conn: psycopg.Connection[object], asked: Sequence[Asked]) -> list[UUID]:
    """Write jobs in the caller's transaction; returns their ids, in the order given."""
    (fresh,) = rows(conn, FRESH, {"count": len(asked)}, _Fresh)
    now = datetime.fromtimestamp(fresh.at, UTC)
    copy_in(conn, JOBS, _in_parts(map(_body, fresh.ids, asked)))
    places = [
        _Place(made, job, _run_at(job, now)) for made, job in zip(fresh.ids, asked, strict=True)
    ]
    due = [place for place in places if place.run_at <= now]
    if due:
        copy_in(conn, READY, _in_parts(map(_line, due)))
        wake(conn)
    if len(due) < len(places):
        copy_in(
            conn, WAITING, _in_parts(map(_line, (each for each in places if each.run_at > now)))
        )
    return fresh.ids


def _run_at(job: Asked, now: datetime) -> datetime:
    if job.run_at is not None:
        return job.run_at.astimezone(UTC)
    return now + timedelta(seconds=job.delay) if job.delay else now


def _body(made: UUID, job: Asked) -> str:
    return (
        f"{made.hex}\t{_text(job.name)}\t{_text(job.queue)}\t{_text(job.args)}\t{job.priority}"
        f"\t{_number(job.attempts)}\t{_number(job.time_limit)}\n"
    )


def _line(place: _Place) -> str:
    job = place.job
    return (
        f"{place.id.hex}\t{_text(job.queue)}\t{_text(job.name)}\t{-job.priority}"
        f"\t{place.run_at.isoformat()}\t{_number(job.attempts)}\n"
    )


def _text(text: str) -> str:
    """Write text as COPY reads it. Tabs and line breaks are neither in names nor in JSON."""
    return text.replace("\\", "\\\\")


def _number(number: float | None) -> str:
    return "\\N" if number is None else repr(number)


def _in_parts(lines: Iterator[str]) -> Iterator[str]:
    while part := "".join(islice(lines, ROWS_AT_ONCE)):
        yield part
