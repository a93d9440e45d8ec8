"""One job with all that is known of it. Arguments are never read here."""

from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

import psycopg

from queue_core.database import rows
from queue_core.states import State


@dataclass(frozen=True, slots=True)
class JobFacts:
    """What is known of one job, without its arguments and its result; None where unknown.

    `attempts` is what was asked for, `attempts_allowed` what is in force now (None: the
    default when it runs). `error` is the last failure's, whatever the state. `schedule` is
    that by which it was enqueued, by its time or by a person; None for any other. Without
    `has_body` what was asked for is gone: name and queue are then the word "unknown".
    `confirmed_by` signed that a job in review had run; such a one has completed no run here.
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
    kill_after: int | None
    why: str | None
    uncertain: bool
    has_result: bool
    error: str | None = field(repr=False)
    error_type: str | None
    error_place: str | None
    has_body: bool = True
    confirmed_by: str | None = None
    schedule: str | None = None


# The place decides whether there is such a job: one whose body is gone waits for a person, who
# has to find it.
JOB = """
WITH place AS (
    SELECT 'ready' AS state, ready.attempt, ready.attempts_allowed, ready.run_at,
        NULL::timestamptz AS claimed_at, NULL::timestamptz AS started_at,
        NULL::timestamptz AS ended_at, NULL::timestamptz AS entered_at, NULL::uuid AS worker,
        NULL::integer AS child_pid, NULL::integer AS signal,
        NULL::timestamptz AS stop_requested_at, NULL::integer AS kill_after, NULL::text AS why,
        false AS uncertain, false AS has_result, NULL::text AS error
    FROM countersign.ready WHERE ready.id = %(id)s
    UNION ALL
    SELECT CASE WHEN waiting.run_at <= now() THEN 'ready' ELSE 'waiting' END, waiting.attempt,
        waiting.attempts_allowed, waiting.run_at, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
        NULL, NULL, false, false, NULL
    FROM countersign.waiting WHERE waiting.id = %(id)s
    UNION ALL
    SELECT 'blocked', blocked.attempt, blocked.attempts_allowed, blocked.run_at, NULL, NULL, NULL,
        NULL, NULL, NULL, NULL, NULL, NULL, NULL, false, false, NULL
    FROM countersign.blocked WHERE blocked.id = %(id)s
    UNION ALL
    SELECT 'running', running.attempt, running.attempts_allowed, running.run_at,
        running.claimed_at, running.started_at, NULL, NULL, running.worker, running.child_pid,
        NULL, running.stop_requested_at, running.kill_after, NULL, false, false, NULL
    FROM countersign.running WHERE running.id = %(id)s
    UNION ALL
    SELECT 'needs_review', review.attempt, NULL, NULL, review.claimed_at, review.started_at, NULL,
        review.entered_at, review.worker, review.child_pid, review.signal, NULL, NULL, review.why,
        true, false, review.error
    FROM countersign.review WHERE review.id = %(id)s
    UNION ALL
    SELECT ended.state, ended.attempt, NULL, NULL, NULL, ended.started_at, ended.ended_at, NULL,
        ended.worker, NULL, NULL, NULL, NULL, NULL, ended.uncertain, ended.result IS NOT NULL,
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
    place.stop_requested_at, place.kill_after, place.why, place.uncertain, place.has_result,
    COALESCE(place.error, last.error) AS error, last.error_type, last.error_place,
    jobs.id IS NOT NULL AS has_body, confirmed.by AS confirmed_by, jobs.schedule
FROM place
LEFT JOIN countersign.jobs ON jobs.id = %(id)s
LEFT JOIN LATERAL (
    SELECT runs.error, runs.error_type, runs.error_place, runs.signal
    FROM countersign.runs
    WHERE runs.job_id = %(id)s AND runs.error IS NOT NULL
    ORDER BY runs.attempt DESC, runs.ended_at DESC
    LIMIT 1
) AS last ON true
LEFT JOIN LATERAL (
    SELECT acts.by
    FROM countersign.acts
    WHERE acts.subject_id = %(id)s AND acts.act = 'confirmed' AND place.state = 'completed'
    ORDER BY acts.id DESC
    LIMIT 1
) AS confirmed ON true
"""


def job(conn: psycopg.Connection[object], job_id: UUID) -> JobFacts | None:
    """Return what is known of a job, or None where there is no such job."""
    found = rows(conn, JOB, {"id": job_id}, JobFacts)
    return found[0] if found else None
