"""Schedules in tests: time is moved by their rows, and their jobs are brought to an end."""

from datetime import timedelta
from typing import Any
from uuid import UUID

from queue_core.outcomes import Completed, Failed, RunReport, Unreadable
from queue_core.queries.schedules import ScheduleRow, list_schedules
from queue_core.transitions.claim import Claimable, claim
from queue_core.transitions.complete import complete
from queue_core.transitions.fail import fail
from queue_core.transitions.set_aside import set_aside

NAMES = [Claimable("mail.send", 2)]
LATER = """
UPDATE countersign.schedules
SET due_at = due_at - %(by)s, seen_at = seen_at - %(by)s, created_at = created_at - %(by)s,
    paused_at = paused_at - %(by)s, archived_at = archived_at - %(by)s
"""
VERSIONS_LATER = """
UPDATE countersign.schedule_versions
SET seen_at = seen_at - %(by)s, first_seen_at = first_seen_at - %(by)s,
    present_since = present_since - %(by)s
"""


def pass_time(conn: Any, **by: float) -> None:
    """Let so much time go by for schedules, by moving all their times into the past."""
    for statement in (LATER, VERSIONS_LATER):
        conn.execute(statement, {"by": timedelta(**by)})


def row(conn: Any, name: str = "nightly") -> ScheduleRow:
    """Return how a schedule stands."""
    (found,) = [each for each in list_schedules(conn) if each.name == name]
    return found


def due_in(conn: Any, name: str = "nightly") -> float:
    """Return the seconds until a schedule is due, on the database's clock."""
    query = "SELECT EXTRACT(EPOCH FROM due_at - now())::float8 AS s FROM countersign.schedules"
    return conn.execute(query + " WHERE name = %s", [name]).fetchone()["s"]


def begin(conn: Any, worker: UUID) -> UUID:
    """Claim what is ready, and return its id."""
    (run,) = claim(conn, worker=worker, names=NAMES, count=1)
    return run.id


def finish(conn: Any, worker: UUID, state: str = "completed") -> UUID:
    """Claim what is ready and bring it to a state; returns its id."""
    job = begin(conn, worker)
    match state:
        case "completed":
            complete(conn, worker, [RunReport(job, 1, Completed())])
        case "failed":
            failed = Failed("ValueError: no such address", retryable=False)
            fail(conn, worker, [RunReport(job, 1, failed)])
        case "waiting":
            fail(conn, worker, [RunReport(job, 1, Failed("busy"), wait=600.0)])
        case "needs_review":
            set_aside(conn, worker, [RunReport(job, 1, Unreadable("not JSON"))])
    return job
