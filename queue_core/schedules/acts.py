"""Pause, resume, run now: what people do to schedules, each signed in one statement."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import LiteralString
from uuid import UUID

import psycopg

from queue_core.acts import Signature
from queue_core.clauses import PLACED, SIGNED_BY_NAME
from queue_core.database import contention, rows, transaction
from queue_core.errors import ScheduleRefusedError
from queue_core.jobs import Enqueued, check_name
from queue_core.named import perform
from queue_core.schedules.pieces import HELD, NEXT, UNFINISHED
from queue_core.states import ScheduleAct

PAUSE = (
    """
WITH changed AS (
    UPDATE countersign.schedules
    SET paused_at = now()
    WHERE schedules.name = %(name)s
        AND schedules.paused_at IS NULL
    RETURNING schedules.name
)
"""
    + SIGNED_BY_NAME
)


def pause_schedule(
    conn: psycopg.Connection[object],
    name: str,
    *,
    by: str,
    reason: str,
    note: str | None = None,
    via: str = "code",
) -> int:
    """Let a schedule enqueue nothing until it is resumed; returns the act's id.

    Raises ScheduleRefusedError where there is no such schedule or it is paused already,
    and what `Signature` raises.
    """
    signature = Signature(by, reason, note, via)
    return _perform(conn, "paused", PAUSE, name, signature, _why_not_paused)


def _why_not_paused(found: "_Found") -> str | None:
    return "already_paused" if found.paused else None


RESUME = (
    """
WITH changed AS (
    UPDATE countersign.schedules
    SET paused_at = NULL,
        due_at = CASE WHEN schedules.due_at > now() THEN schedules.due_at ELSE """
    + NEXT
    + """ END,
        last_skip = CASE WHEN schedules.due_at > now() THEN schedules.last_skip
            ELSE 'it was paused' END,
        last_skip_at = CASE WHEN schedules.due_at > now() THEN schedules.last_skip_at
            ELSE now() END
    FROM countersign.schedule_versions
    WHERE schedules.name = %(name)s
        AND schedule_versions.id = schedules.version
        AND schedules.paused_at IS NOT NULL
    RETURNING schedules.name
)
"""
    + SIGNED_BY_NAME
)


def resume_schedule(
    conn: psycopg.Connection[object],
    name: str,
    *,
    by: str,
    reason: str,
    note: str | None = None,
    via: str = "code",
) -> int:
    """Let a paused schedule go on with its next due time; returns the act's id.

    The times it was paused over are passed, not made up. Raises ScheduleRefusedError where
    there is no such schedule or it is not paused, and what `Signature` raises.
    """
    signature = Signature(by, reason, note, via)
    return _perform(conn, "resumed", RESUME, name, signature, _why_not_resumed)


def _why_not_resumed(found: "_Found") -> str | None:
    return None if found.paused else "not_paused"


RUN_NOW = (
    HELD
    + """
    FOR UPDATE OF schedules
"""
    + UNFINISHED
    + PLACED
    + """,
changed AS (
    UPDATE countersign.schedules
    SET last_job = asked.id
    FROM asked
    WHERE schedules.name = asked.schedule
    RETURNING schedules.name
)
"""
    + SIGNED_BY_NAME
)
LAST_JOB = """
SELECT schedules.last_job AS job
FROM countersign.schedules
WHERE schedules.name = %(name)s
"""


@dataclass(frozen=True, slots=True)
class _Last:
    """A row of LAST_JOB."""

    job: UUID


def run_schedule_now(
    conn: psycopg.Connection[object],
    name: str,
    *,
    by: str,
    reason: str,
    note: str | None = None,
    via: str = "code",
) -> Enqueued:
    """Enqueue a schedule's job now, paused or not; its due times stay as they are.

    Raises ScheduleRefusedError where there is no such schedule, where it is archived, and
    where its last job is queued or running: the rule that jobs of a schedule do not stack
    holds for people too. Raises what `Signature` raises.
    """
    signature = Signature(by, reason, note, via)
    with contention(), transaction(conn):
        _perform(conn, "run_now", RUN_NOW, name, signature, _why_not_run)
        # Ours: the row stays locked until the transaction ends.
        (last,) = rows(conn, LAST_JOB, {"name": name}, _Last)
    return Enqueued(last.job, created=True)


def _why_not_run(found: "_Found") -> str | None:
    if found.archived:
        return "archived"
    return f"last_job_{found.place}" if found.place else None


@dataclass(frozen=True, slots=True)
class _Found:
    """A row of LOOK."""

    paused: bool
    archived: bool
    place: str | None


LOOK = """
SELECT schedules.paused_at IS NOT NULL AS paused, schedules.archived_at IS NOT NULL AS archived,
    CASE
        WHEN EXISTS (SELECT FROM countersign.running WHERE running.id = schedules.last_job)
            THEN 'running'
        WHEN EXISTS (SELECT FROM countersign.ready WHERE ready.id = schedules.last_job)
            OR EXISTS (SELECT FROM countersign.waiting WHERE waiting.id = schedules.last_job)
            OR EXISTS (SELECT FROM countersign.blocked WHERE blocked.id = schedules.last_job)
            THEN 'queued'
    END AS place
FROM countersign.schedules
WHERE schedules.name = %(name)s
"""


def _perform(  # noqa: PLR0917 - called by the acts alone
    conn: psycopg.Connection[object],
    act: ScheduleAct,
    statement: LiteralString,
    name: str,
    signature: Signature,
    why_not: Callable[[_Found], str | None],
) -> int:
    def refusal() -> ScheduleRefusedError | None:
        found = rows(conn, LOOK, {"name": name}, _Found)
        why = why_not(found[0]) if found else "not_found"
        return ScheduleRefusedError(name, act, why) if why else None

    check_name(name, "a schedule's name")
    return perform(conn, statement, "schedule", name, act, signature, refusal)
