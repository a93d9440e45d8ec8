"""needs_review -> ready: a person looked and lets a job run again."""

from collections.abc import Iterable
from uuid import UUID

import psycopg

from queue_core.acts import ActOutcome, Seen, Signature, perform
from queue_core.clauses import REQUEUED, REVIEW_HELD, SIGNED, WANTED

RELEASE = (
    WANTED
    + REVIEW_HELD
    + """
again AS (
    DELETE FROM countersign.review
    USING held, countersign.jobs
    WHERE review.id = held.id
        AND jobs.id = review.id
    RETURNING review.id, jobs.queue, jobs.name, jobs.priority, review.attempt
),
"""
    + REQUEUED
    + """
changed AS (
    SELECT again.id, again.name, again.attempt, 'released' AS act, 'ready' AS state
    FROM again
),
"""
    + SIGNED
)


def release(
    conn: psycopg.Connection[object],
    ids: Iterable[UUID],
    *,
    by: str,
    reason: str,
    note: str | None = None,
    seen: Seen | None = None,
    via: str = "code",
    bulk_id: UUID | None = None,
) -> list[ActOutcome]:
    """Let jobs in review run again, due now, each for exactly one more attempt.

    Nothing that an earlier run did is undone. Parameters and errors as for `cancel`.
    """
    signature = Signature(by, reason, note, via, bulk_id)
    return perform(conn, "release", RELEASE, ids, signature, seen)
