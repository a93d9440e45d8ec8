"""Schedules: how each stands, and in which versions live code has it."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, LiteralString
from uuid import UUID

import psycopg

from queue_core.database import rows
from queue_core.queries.names import PAGE, by_name
from queue_core.states import State


@dataclass(frozen=True, slots=True)
class ScheduleRow:
    """A schedule in the version in force. `every` is in seconds.

    `last_job` is the last job it enqueued; its state and error are None where retention
    deleted it. `last_skip` says why a due time had no job of its own, last at `last_skip_at`.
    `seen_at` is when a process had it in code, to within a minute.
    """

    name: str
    every: float
    job: str
    queue: str
    due_at: datetime
    last_job: UUID | None
    last_state: State | None
    last_error: str | None = field(repr=False)
    last_skip: str | None
    last_skip_at: datetime | None
    seen_at: datetime
    paused_at: datetime | None
    archived_at: datetime | None
    created_at: datetime


LISTED: Final[LiteralString] = """
SELECT schedules.name,
    EXTRACT(EPOCH FROM schedule_versions.every)::double precision AS every,
    schedule_versions.job, schedule_versions.queue, schedules.due_at, schedules.last_job,
    place.state AS last_state, COALESCE(place.error, failure.error) AS last_error,
    schedules.last_skip, schedules.last_skip_at, schedules.seen_at, schedules.paused_at,
    schedules.archived_at, schedules.created_at
FROM countersign.schedules
JOIN countersign.schedule_versions ON schedule_versions.id = schedules.version
LEFT JOIN LATERAL (
    SELECT 'ready' AS state, NULL::text AS error
    FROM countersign.ready WHERE ready.id = schedules.last_job
    UNION ALL
    SELECT CASE WHEN waiting.run_at <= now() THEN 'ready' ELSE 'waiting' END, NULL
    FROM countersign.waiting WHERE waiting.id = schedules.last_job
    UNION ALL
    SELECT 'blocked', NULL FROM countersign.blocked WHERE blocked.id = schedules.last_job
    UNION ALL
    SELECT 'running', NULL FROM countersign.running WHERE running.id = schedules.last_job
    UNION ALL
    SELECT 'needs_review', review.error
    FROM countersign.review WHERE review.id = schedules.last_job
    UNION ALL
    SELECT ended.state, ended.error FROM countersign.ended WHERE ended.id = schedules.last_job
) AS place ON true
LEFT JOIN LATERAL (
    SELECT runs.error
    FROM countersign.runs
    WHERE runs.job_id = schedules.last_job AND runs.error IS NOT NULL
    ORDER BY runs.attempt DESC, runs.ended_at DESC
    LIMIT 1
) AS failure ON place.state IS NOT NULL
"""
LIST = LISTED + "ORDER BY schedules.name"


def list_schedules(conn: psycopg.Connection[object]) -> list[ScheduleRow]:
    """Return every schedule there ever was, archived ones too, by name."""
    return rows(conn, LIST, {}, ScheduleRow)


SCHEDULE = LISTED + "WHERE schedules.name = %(name)s"


def schedule(conn: psycopg.Connection[object], name: str) -> ScheduleRow | None:
    """Return a schedule, archived or not, or None where there never was one of this name."""
    found = rows(conn, SCHEDULE, {"name": name}, ScheduleRow)
    return found[0] if found else None


@dataclass(frozen=True, slots=True)
class SchedulePage:
    """One page of schedules by name; `before` and `after` name where the pages beside it begin."""

    rows: list[ScheduleRow]
    before: str | None
    after: str | None


AFTER = (
    LISTED
    + """
WHERE (schedules.archived_at IS NOT NULL) = %(archived)s AND schedules.name > %(beyond)s
ORDER BY schedules.name
LIMIT %(limit)s
"""
)
BEFORE = (
    LISTED
    + """
WHERE (schedules.archived_at IS NOT NULL) = %(archived)s AND schedules.name < %(beyond)s
ORDER BY schedules.name DESC
LIMIT %(limit)s
"""
)


def page_of_schedules(
    conn: psycopg.Connection[object],
    *,
    archived: bool = False,
    after: str = "",
    before: str | None = None,
    size: int = PAGE,
) -> SchedulePage:
    """Return a page of the schedules that code has, or that none has any more."""
    beyond = after if before is None else before
    given = {"archived": archived, "beyond": beyond, "limit": size + 1}
    found = rows(conn, AFTER if before is None else BEFORE, given, ScheduleRow)
    return SchedulePage(*by_name(found, size, after=after, before=before))


@dataclass(frozen=True, slots=True)
class VersionRow:
    """What code says of a schedule. `every` is in seconds; one version is in force."""

    schedule: str
    every: float
    job: str
    queue: str
    in_force: bool
    first_seen_at: datetime
    seen_at: datetime


VERSIONS: Final[LiteralString] = """
SELECT schedule_versions.schedule,
    EXTRACT(EPOCH FROM schedule_versions.every)::double precision AS every,
    schedule_versions.job, schedule_versions.queue, schedules.version IS NOT NULL AS in_force,
    schedule_versions.first_seen_at, schedule_versions.seen_at
FROM countersign.schedule_versions
LEFT JOIN countersign.schedules ON schedules.version = schedule_versions.id
WHERE (schedules.version IS NOT NULL
    OR schedule_versions.seen_at >= now() - interval '3 minutes')
"""
ORDER: Final[LiteralString] = """
ORDER BY schedule_versions.schedule, in_force DESC, schedule_versions.id DESC
"""
EVERY_VERSION = VERSIONS + ORDER


def list_versions(conn: psycopg.Connection[object]) -> list[VersionRow]:
    """Return each schedule's version in force, then the others that live code still has."""
    return rows(conn, EVERY_VERSION, {}, VersionRow)


OTHERS = (
    VERSIONS
    + """
    AND schedule_versions.schedule = %(name)s AND schedules.version IS NULL
"""
    + ORDER
)


def other_versions(conn: psycopg.Connection[object], name: str) -> list[VersionRow]:
    """Return how other live code has a schedule, the newest first."""
    return rows(conn, OTHERS, {"name": name}, VersionRow)
