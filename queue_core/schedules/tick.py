"""A tick: the job of each schedule that is due, once over all processes."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

import psycopg

from queue_core.clauses import PLACED
from queue_core.database import rows, transaction
from queue_core.errors import ArgumentsError
from queue_core.rules import Schedule
from queue_core.schedules.declared import register, unregistered
from queue_core.schedules.pieces import HELD, NEXT, UNFINISHED

Outcome = TypeVar("Outcome")


@dataclass(frozen=True, slots=True)
class Ticked:
    """What a tick did: how many jobs it enqueued, and in how many seconds it has more to do."""

    enqueued: int
    due_in: float


NOTHING: Final = Ticked(0, math.inf)


def tick_schedules(conn: psycopg.Connection[object], schedules: Iterable[Schedule]) -> int:
    """Enqueue the job of each schedule that is due, and return how many were enqueued.

    `schedules` are those of this process's code, such as `registry.schedules`; saying so
    keeps them from being archived. Any number of processes may tick at once: each due time
    is enqueued once. A due time is passed, not postponed, while the schedule's last job is
    queued or running; times that nobody ticked at are made up by one job. Workers do this
    by themselves. On an autocommit connection each schedule is a commit of its own. An error
    of one leaves its time due, stops no other, and is raised at the end.
    """
    return tick(conn, schedules).enqueued


def tick(conn: psycopg.Connection[object], schedules: Iterable[Schedule]) -> Ticked:
    """Do what `tick_schedules` does, and say when the next of the schedules is due."""
    declared = {each.name: each for each in schedules}
    if not declared:
        return NOTHING
    trouble: list[psycopg.Error | ArgumentsError] = []
    for name in unregistered(conn, declared.values()):
        _apart(conn, trouble, partial(register, conn, declared[name]))
    enqueued, due_in = 0, math.inf
    for each in _upcoming(conn, list(declared)):
        ticked = Ticked(0, each.due_in)
        if each.due_in <= 0:
            ticked = _apart(conn, trouble, partial(_tick_one, conn, each.name)) or NOTHING
        enqueued += ticked.enqueued
        due_in = min(due_in, ticked.due_in)
    if trouble:
        raise trouble[0]
    return Ticked(enqueued, due_in)


def _apart(
    conn: psycopg.Connection[object],
    trouble: list[psycopg.Error | ArgumentsError],
    step: Callable[[], Outcome],
) -> Outcome | None:
    """Take a step that may fail without the others: its error is kept for later."""
    try:
        with transaction(conn):
            return step()
    except (psycopg.Error, ArgumentsError) as error:
        trouble.append(error)
        return None


@dataclass(frozen=True, slots=True)
class _Upcoming:
    """A row of UPCOMING: in how many seconds a schedule is due, 0 or less where it is."""

    name: str
    due_in: float


UPCOMING = """
SELECT schedules.name,
    EXTRACT(EPOCH FROM schedules.due_at - now())::double precision AS due_in
FROM countersign.schedules
WHERE schedules.name = ANY(%(names)s)
    AND schedules.paused_at IS NULL
    AND schedules.archived_at IS NULL
ORDER BY schedules.due_at, schedules.name
"""


def _upcoming(conn: psycopg.Connection[object], names: Sequence[str]) -> list[_Upcoming]:
    return rows(conn, UPCOMING, {"names": list(names)}, _Upcoming)


TICK = (
    HELD
    + """
        AND schedules.paused_at IS NULL
        AND schedules.due_at <= now()
    FOR UPDATE OF schedules SKIP LOCKED
"""
    + UNFINISHED
    + PLACED
    + """,
passed AS (
    SELECT held.name, CASE
            WHEN unfinished.place IS NOT NULL THEN 'its last job was still ' || unfinished.place
            WHEN held.created_at <= held.due_at AND missed.times > 0
                THEN 'due times missed: ' || missed.times
        END AS skip
    FROM held
    JOIN countersign.schedule_versions ON schedule_versions.id = held.version
    LEFT JOIN unfinished ON true
    CROSS JOIN LATERAL (
        SELECT div(EXTRACT(EPOCH FROM now() - held.due_at),
            EXTRACT(EPOCH FROM schedule_versions.every)) AS times
    ) AS missed
),
moved AS (
    UPDATE countersign.schedules
    SET due_at ="""
    + NEXT
    + """,
        last_job = COALESCE((SELECT asked.id FROM asked), schedules.last_job),
        last_skip = COALESCE(passed.skip, schedules.last_skip),
        last_skip_at = CASE WHEN passed.skip IS NULL THEN schedules.last_skip_at ELSE now() END
    FROM passed
    JOIN held ON held.name = passed.name
    JOIN countersign.schedule_versions ON schedule_versions.id = held.version
    WHERE schedules.name = passed.name
    RETURNING schedules.due_at
)
SELECT (SELECT count(*) FROM asked)::integer AS enqueued,
    EXTRACT(EPOCH FROM moved.due_at - now())::double precision AS due_in
FROM moved
"""
)


def _tick_one(conn: psycopg.Connection[object], name: str) -> Ticked:
    """Enqueue a due schedule's job, or pass the time; nothing where another process is at it."""
    ticked = rows(conn, TICK, {"name": name}, Ticked)
    return ticked[0] if ticked else NOTHING
