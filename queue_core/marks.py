"""Marks of a person on a job: to look after it, to note something, to be shown its arguments.

They move nothing. Arguments are read by the act alone, once it is committed.
"""

from typing import Final, LiteralString
from uuid import UUID

import psycopg

from queue_core.acts import ActOutcome, Seen, Signature, perform
from queue_core.clauses import SIGNED, WANTED
from queue_core.errors import NoteError

# Each row is held until the commit: whoever moves the job waits, and whoever is moving it is waited
# for, so that it is marked as it was seen or not at all. IS TRUE keeps the states of what ended out
# of the plan: one that walks the index of lists by state goes through all of history.
PLACE: Final[LiteralString] = """
ready_one AS (
    SELECT ready.id, ready.attempt, 'ready' AS state
    FROM countersign.ready
    JOIN wanted ON wanted.id = ready.id
    WHERE ready.id = ANY(%(ids)s)
        AND 'ready' = ANY(%(states)s::text[])
        AND (wanted.seen_state IS NULL
            OR (wanted.seen_state = 'queued' AND wanted.seen_attempt = ready.attempt))
    FOR UPDATE OF ready
),
waiting_one AS (
    SELECT waiting.id, waiting.attempt,
        CASE WHEN waiting.run_at <= now() THEN 'ready' ELSE 'waiting' END AS state
    FROM countersign.waiting
    JOIN wanted ON wanted.id = waiting.id
    WHERE waiting.id = ANY(%(ids)s)
        AND 'waiting' = ANY(%(states)s::text[])
        AND (wanted.seen_state IS NULL
            OR (wanted.seen_state = 'queued' AND wanted.seen_attempt = waiting.attempt))
    FOR UPDATE OF waiting
),
blocked_one AS (
    SELECT blocked.id, blocked.attempt, 'blocked' AS state
    FROM countersign.blocked
    JOIN wanted ON wanted.id = blocked.id
    WHERE blocked.id = ANY(%(ids)s)
        AND 'blocked' = ANY(%(states)s::text[])
        AND (wanted.seen_state IS NULL
            OR (wanted.seen_state = 'queued' AND wanted.seen_attempt = blocked.attempt))
    FOR UPDATE OF blocked
),
running_one AS (
    SELECT running.id, running.attempt, 'running' AS state
    FROM countersign.running
    JOIN wanted ON wanted.id = running.id
    WHERE running.id = ANY(%(ids)s)
        AND 'running' = ANY(%(states)s::text[])
        AND (wanted.seen_state IS NULL
            OR (wanted.seen_state = 'running' AND wanted.seen_attempt = running.attempt))
    FOR UPDATE OF running
),
review_one AS (
    SELECT review.id, review.attempt, 'needs_review' AS state
    FROM countersign.review
    JOIN wanted ON wanted.id = review.id
    WHERE review.id = ANY(%(ids)s)
        AND 'needs_review' = ANY(%(states)s::text[])
        AND (wanted.seen_state IS NULL
            OR (wanted.seen_state = 'needs_review' AND wanted.seen_attempt = review.attempt))
    FOR UPDATE OF review
),
ended_one AS (
    SELECT ended.id, ended.attempt, ended.state
    FROM countersign.ended
    JOIN wanted ON wanted.id = ended.id
    WHERE ended.id = ANY(%(ids)s)
        AND (ended.state = ANY(%(states)s::text[])) IS TRUE
        AND (wanted.seen_state IS NULL
            OR (wanted.seen_state = ended.state AND wanted.seen_attempt = ended.attempt))
    FOR UPDATE OF ended
),
place AS (
    SELECT ready_one.* FROM ready_one
    UNION ALL
    SELECT waiting_one.* FROM waiting_one
    UNION ALL
    SELECT blocked_one.* FROM blocked_one
    UNION ALL
    SELECT running_one.* FROM running_one
    UNION ALL
    SELECT review_one.* FROM review_one
    UNION ALL
    SELECT ended_one.* FROM ended_one
),
"""
NAMED: Final[LiteralString] = """
named AS (
    SELECT place.*, COALESCE(body.name, 'unknown') AS name
    FROM place
    LEFT JOIN LATERAL (
        SELECT jobs.name FROM countersign.jobs WHERE jobs.id = place.id LIMIT 1
    ) AS body ON true
),
"""
ASSIGN = (
    WANTED
    + PLACE
    + NAMED
    + """
changed AS (
    SELECT named.id, named.name, named.attempt, 'assigned' AS act, named.state
    FROM named
),
"""
    + SIGNED
)


def assign(
    conn: psycopg.Connection[object],
    job_id: UUID,
    *,
    by: str,
    reason: str,
    note: str | None = None,
    seen: Seen | None = None,
    via: str = "code",
) -> ActOutcome:
    """Let a job in review, or a failed one, be looked after by whoever signs.

    It holds for the job's present attempt, until somebody else takes it; the job moves
    nowhere. Never commits. Errors as for `cancel`.
    """
    signature = Signature(by, reason, note, via)
    (outcome,) = perform(conn, "assign", ASSIGN, [job_id], signature, seen)
    return outcome


NOTE = (
    WANTED
    + PLACE
    + NAMED
    + """
changed AS (
    SELECT named.id, named.name, named.attempt, 'noted' AS act, named.state
    FROM named
),
"""
    + SIGNED
)


def note(
    conn: psycopg.Connection[object],
    job_id: UUID,
    *,
    by: str,
    reason: str,
    note: str,
    seen: Seen | None = None,
    via: str = "code",
) -> ActOutcome:
    """Put a note beside a job in review, or a failed one, for whoever comes next.

    The newest of its present attempt is shown with the job, which moves nowhere. Never
    commits. Raises NoteError for a blank note, too; other errors as for `cancel`.
    """
    signature = Signature(by, reason, note, via)
    if signature.note is None:
        raise NoteError
    (outcome,) = perform(conn, "note", NOTE, [job_id], signature, seen)
    return outcome


REVEAL = (
    WANTED
    + PLACE
    + """
changed AS (
    SELECT place.id, body.name, place.attempt, 'revealed' AS act, place.state
    FROM place
    CROSS JOIN LATERAL (
        SELECT jobs.name FROM countersign.jobs WHERE jobs.id = place.id LIMIT 1
    ) AS body
),
"""
    + SIGNED
)


def reveal(
    conn: psycopg.Connection[object],
    job_id: UUID,
    *,
    by: str,
    reason: str,
    note: str | None = None,
    seen: Seen | None = None,
    via: str = "code",
) -> ActOutcome:
    """Sign that whoever signs is shown a job's arguments; nothing else changes.

    Commit, then read them with `queries.arguments` and the act's id. Never commits. Refused
    as `not_found` where the body is gone. Errors as for `cancel`.
    """
    signature = Signature(by, reason, note, via)
    (outcome,) = perform(conn, "reveal", REVEAL, [job_id], signature, seen)
    return outcome
