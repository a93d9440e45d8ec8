"""Who looks after a job that waits for a person, and what they found: acts that move nothing."""

from typing import Final, LiteralString
from uuid import UUID

import psycopg

from queue_core.acts import ActOutcome, Seen, Signature, perform
from queue_core.clauses import SIGNED, WANTED
from queue_core.errors import NoteError

# Held until the commit: whoever moves the job waits, and whoever is moving it is waited for. Of
# what ended the states that do not wait are named, as in retry: no plan may walk history.
STANDING: Final[LiteralString] = """
in_review AS (
    SELECT review.id, review.attempt, 'needs_review' AS state
    FROM countersign.review
    JOIN wanted ON wanted.id = review.id
    WHERE review.id = ANY(%(ids)s)
        AND (wanted.seen_state IS NULL
            OR (wanted.seen_state = 'needs_review' AND wanted.seen_attempt = review.attempt))
    FOR UPDATE OF review
),
failed AS (
    SELECT ended.id, ended.attempt, ended.state
    FROM countersign.ended
    JOIN wanted ON wanted.id = ended.id
    WHERE ended.id = ANY(%(ids)s)
        AND ended.state NOT IN ('completed', 'cancelled')
        AND (wanted.seen_state IS NULL
            OR (wanted.seen_state = ended.state AND wanted.seen_attempt = ended.attempt))
    FOR UPDATE OF ended
),
standing AS (
    SELECT in_review.* FROM in_review
    UNION ALL
    SELECT failed.* FROM failed
),
named AS (
    SELECT standing.*, COALESCE(body.name, 'unknown') AS name
    FROM standing
    LEFT JOIN LATERAL (
        SELECT jobs.name FROM countersign.jobs WHERE jobs.id = standing.id LIMIT 1
    ) AS body ON true
),
"""
ASSIGN = (
    WANTED
    + STANDING
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
    + STANDING
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
