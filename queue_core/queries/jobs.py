"""Jobs: one with all that is known of it, and lists by state. Arguments are never read here."""

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final, Literal, LiteralString
from uuid import UUID

import psycopg

from queue_core.database import rows
from queue_core.states import State

PAGE: Final = 50
MOST: Final = 200
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_CURSOR: Final = re.compile(r"(-?\d{1,18})_([0-9a-f]{32})", re.ASCII)


@dataclass(frozen=True, slots=True)
class JobFacts:
    """What is known of one job, without its arguments and its result; None where unknown.

    `attempts` is what was asked for, `attempts_allowed` what is in force now (None: the
    default when it runs). `error` is the last failure's, whatever the state. Without
    `has_body` what was asked for is gone: name and queue are then the word "unknown".
    """

    id: UUID
    name: str
    queue: str
    priority: int | None
    attempts: int | None
    time_limit: float | None
    created_at: datetime
    state: State
    attempt: int
    attempts_allowed: int | None
    run_at: datetime | None
    claimed_at: datetime | None
    started_at: datetime | None
    ended_at: datetime | None
    entered_at: datetime | None
    worker: UUID | None
    child_pid: int | None
    signal: int | None
    stop_requested_at: datetime | None
    why: str | None
    uncertain: bool
    has_result: bool
    error: str | None = field(repr=False)
    error_type: str | None
    error_place: str | None
    has_body: bool = True


# The place decides whether there is such a job: one whose body is gone waits for a person, who
# has to find it.
JOB = """
WITH place AS (
    SELECT 'ready' AS state, ready.attempt, ready.attempts_allowed, ready.run_at,
        NULL::timestamptz AS claimed_at, NULL::timestamptz AS started_at,
        NULL::timestamptz AS ended_at, NULL::timestamptz AS entered_at, NULL::uuid AS worker,
        NULL::integer AS child_pid, NULL::integer AS signal,
        NULL::timestamptz AS stop_requested_at, NULL::text AS why, false AS uncertain,
        false AS has_result, NULL::text AS error
    FROM countersign.ready WHERE ready.id = %(id)s
    UNION ALL
    SELECT CASE WHEN waiting.run_at <= now() THEN 'ready' ELSE 'waiting' END, waiting.attempt,
        waiting.attempts_allowed, waiting.run_at, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
        NULL, false, false, NULL
    FROM countersign.waiting WHERE waiting.id = %(id)s
    UNION ALL
    SELECT 'blocked', blocked.attempt, blocked.attempts_allowed, blocked.run_at, NULL, NULL, NULL,
        NULL, NULL, NULL, NULL, NULL, NULL, false, false, NULL
    FROM countersign.blocked WHERE blocked.id = %(id)s
    UNION ALL
    SELECT 'running', running.attempt, running.attempts_allowed, running.run_at,
        running.claimed_at, running.started_at, NULL, NULL, running.worker, running.child_pid,
        NULL, running.stop_requested_at, NULL, false, false, NULL
    FROM countersign.running WHERE running.id = %(id)s
    UNION ALL
    SELECT 'needs_review', review.attempt, NULL, NULL, review.claimed_at, review.started_at, NULL,
        review.entered_at, review.worker, review.child_pid, review.signal, NULL, review.why, true,
        false, review.error
    FROM countersign.review WHERE review.id = %(id)s
    UNION ALL
    SELECT ended.state, ended.attempt, NULL, NULL, NULL, ended.started_at, ended.ended_at, NULL,
        ended.worker, NULL, NULL, NULL, NULL, ended.uncertain, ended.result IS NOT NULL,
        ended.error
    FROM countersign.ended WHERE ended.id = %(id)s
)
SELECT %(id)s::uuid AS id, COALESCE(jobs.name, 'unknown') AS name,
    COALESCE(jobs.queue, 'unknown') AS queue, jobs.priority, jobs.attempts, jobs.time_limit,
    COALESCE(jobs.created_at, countersign.made_at(%(id)s::uuid)) AS created_at,
    place.state, place.attempt, place.attempts_allowed, place.run_at,
    place.claimed_at, place.started_at, place.ended_at, place.entered_at, place.worker,
    place.child_pid,
    COALESCE(place.signal, CASE WHEN place.state <> 'completed' THEN last.signal END) AS signal,
    place.stop_requested_at, place.why, place.uncertain, place.has_result,
    COALESCE(place.error, last.error) AS error, last.error_type, last.error_place,
    jobs.id IS NOT NULL AS has_body
FROM place
LEFT JOIN countersign.jobs ON jobs.id = %(id)s
LEFT JOIN LATERAL (
    SELECT runs.error, runs.error_type, runs.error_place, runs.signal
    FROM countersign.runs
    WHERE runs.job_id = %(id)s AND runs.error IS NOT NULL
    ORDER BY runs.attempt DESC, runs.ended_at DESC
    LIMIT 1
) AS last ON true
"""


def job(conn: psycopg.Connection[object], job_id: UUID) -> JobFacts | None:
    """Return what is known of a job, or None where there is no such job."""
    found = rows(conn, JOB, {"id": job_id}, JobFacts)
    return found[0] if found else None


@dataclass(frozen=True, slots=True)
class Cursor:
    """A place in a list: a row's time and id, so that rows of equal time are not skipped."""

    at: datetime
    id: UUID

    def encode(self) -> str:
        """Return the cursor as it stands in a URL."""
        micros = (self.at - EPOCH) // timedelta(microseconds=1)
        return f"{micros}_{self.id.hex}"

    @classmethod
    def decode(cls, text: str) -> "Cursor":
        """Read a cursor from a URL. Raises ValueError for anything that `encode` did not make."""
        match = _CURSOR.fullmatch(text)
        if not match:
            message = "not a cursor"
            raise ValueError(message)
        try:
            return cls(EPOCH + timedelta(microseconds=int(match[1])), UUID(match[2]))
        except OverflowError:
            message = "not a cursor"
            raise ValueError(message) from None


@dataclass(frozen=True, slots=True)
class JobRow:
    """One line of a list. `at` is the time the list is ordered by.

    That is when the job may run (ready, waiting, blocked), was claimed (running), entered
    review (needs_review) or ended. A job whose body is gone has the name "unknown".
    """

    id: UUID
    name: str
    queue: str
    state: State
    attempt: int
    attempts_allowed: int | None
    at: datetime
    worker: UUID | None
    error: str | None = field(repr=False)
    uncertain: bool
    stop_requested_at: datetime | None
    why: str | None


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list, in its order; a cursor is None where there is no more that way."""

    rows: list[JobRow]
    previous: Cursor | None
    next: Cursor | None


READY: Final[LiteralString] = """
    SELECT ready.id, ready.name, ready.queue, 'ready' AS state, ready.attempt,
        ready.attempts_allowed, ready.run_at AS at, NULL::uuid AS worker, NULL::text AS error,
        false AS uncertain, NULL::timestamptz AS stop_requested_at, NULL::text AS why
    FROM countersign.ready
    UNION ALL
    SELECT waiting.id, waiting.name, waiting.queue, 'ready', waiting.attempt,
        waiting.attempts_allowed, waiting.run_at, NULL, NULL, false, NULL, NULL
    FROM countersign.waiting
    WHERE waiting.run_at <= now()
"""
WAITING: Final[LiteralString] = """
    SELECT waiting.id, waiting.name, waiting.queue, 'waiting' AS state, waiting.attempt,
        waiting.attempts_allowed, waiting.run_at AS at, NULL::uuid AS worker,
        NULL::text AS error, false AS uncertain, NULL::timestamptz AS stop_requested_at,
        NULL::text AS why
    FROM countersign.waiting
    WHERE waiting.run_at > now()
"""
BLOCKED: Final[LiteralString] = """
    SELECT blocked.id, blocked.name, blocked.queue, 'blocked' AS state, blocked.attempt,
        blocked.attempts_allowed, blocked.run_at AS at, NULL::uuid AS worker,
        NULL::text AS error, false AS uncertain, NULL::timestamptz AS stop_requested_at,
        NULL::text AS why
    FROM countersign.blocked
"""
RUNNING: Final[LiteralString] = """
    SELECT running.id, running.name, running.queue, 'running' AS state, running.attempt,
        running.attempts_allowed, running.claimed_at AS at, running.worker, NULL::text AS error,
        false AS uncertain, running.stop_requested_at, NULL::text AS why
    FROM countersign.running
"""
REVIEW: Final[LiteralString] = """
    SELECT review.id, jobs.name, jobs.queue, 'needs_review' AS state, review.attempt,
        NULL::integer AS attempts_allowed, review.entered_at AS at, review.worker, review.error,
        true AS uncertain, NULL::timestamptz AS stop_requested_at, review.why
    FROM countersign.review
    LEFT JOIN countersign.jobs ON jobs.id = review.id
"""
ENDED: Final[LiteralString] = """
    SELECT ended.id, jobs.name, jobs.queue, ended.state, ended.attempt,
        NULL::integer AS attempts_allowed, ended.ended_at AS at, ended.worker, ended.error,
        ended.uncertain, NULL::timestamptz AS stop_requested_at, NULL::text AS why
    FROM countersign.ended
    LEFT JOIN countersign.jobs ON jobs.id = ended.id
    WHERE ended.state = %(state)s
"""
PLACES: Final[dict[State, LiteralString]] = {
    "ready": READY,
    "waiting": WAITING,
    "blocked": BLOCKED,
    "running": RUNNING,
    "needs_review": REVIEW,
    "completed": ENDED,
    "failed": ENDED,
    "cancelled": ENDED,
}
HEAD: Final[LiteralString] = """
SELECT listed.id, COALESCE(listed.name, 'unknown') AS name,
    COALESCE(listed.queue, 'unknown') AS queue, listed.state, listed.attempt,
    listed.attempts_allowed, listed.at, listed.worker, listed.error, listed.uncertain,
    listed.stop_requested_at, listed.why
FROM ("""
FITTING: Final[LiteralString] = """
) AS listed
WHERE (%(queue)s::text IS NULL OR listed.queue = %(queue)s::text)
    AND (%(name)s::text IS NULL OR listed.name = %(name)s::text)
"""
BEYOND: Final[LiteralString] = "    AND (listed.at, listed.id) > (%(at)s, %(id)s)\n"
BEFORE: Final[LiteralString] = "    AND (listed.at, listed.id) < (%(at)s, %(id)s)\n"
RISING: Final[LiteralString] = "ORDER BY listed.at, listed.id\nLIMIT %(limit)s"
FALLING: Final[LiteralString] = "ORDER BY listed.at DESC, listed.id DESC\nLIMIT %(limit)s"
NEWEST_FIRST: Final[frozenset[State]] = frozenset({"completed", "failed", "cancelled"})


def list_jobs(
    conn: psycopg.Connection[object],
    state: State,
    *,
    queue: str | None = None,
    name: str | None = None,
    cursor: Cursor | None = None,
    direction: Literal["next", "previous"] = "next",
    limit: int = PAGE,
) -> Page:
    """Return the page of jobs in `state` after `cursor`, or with `direction` before it.

    Ended jobs come newest first; jobs in review, running and queued ones oldest first, so
    that who waited longest is on top. `limit` is clamped to 1–200.
    """
    limit = min(max(limit, 1), MOST)
    backward = direction == "previous" and cursor is not None
    falling = (state in NEWEST_FIRST) != backward
    statement = HEAD + PLACES[state] + FITTING + _slice(cursor, falling=falling)
    parameters: dict[str, object] = {"state": state, "queue": queue, "name": name}
    parameters |= {"limit": limit + 1}
    if cursor:
        parameters |= {"at": cursor.at, "id": cursor.id}
    found = rows(conn, statement, parameters, JobRow)
    return _page(found, limit, backward=backward, began=cursor is None)


def _slice(cursor: Cursor | None, *, falling: bool) -> LiteralString:
    order = FALLING if falling else RISING
    if cursor is None:
        return order
    return (BEFORE if falling else BEYOND) + order


def _page(found: list[JobRow], limit: int, *, backward: bool, began: bool) -> Page:
    """Put the rows in their order and say where the list goes on, both ways."""
    more = len(found) > limit
    kept = found[:limit]
    if backward:
        kept.reverse()
    if not kept:
        return Page([], None, None)
    first, last = Cursor(kept[0].at, kept[0].id), Cursor(kept[-1].at, kept[-1].id)
    has_previous = more if backward else not began
    has_next = more or backward
    return Page(kept, first if has_previous else None, last if has_next else None)
