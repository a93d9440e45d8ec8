"""failed | cancelled -> ready: a person gives a job one more attempt."""

from collections.abc import Iterable
from uuid import UUID

import psycopg

from queue_core.acts import ActOutcome, Seen, Signature, perform
from queue_core.clauses import REQUEUED, SIGNED, TALLIED, WANTED

# Completed ones are named, not the others: without statistics the planner would walk the index of
# lists by state, all of history, rather than look up each id. Held in order first, as in cancel.
RETRY = (
    WANTED
    + """
held AS (
    SELECT ended.id
    FROM countersign.ended
    JOIN wanted ON wanted.id = ended.id
    WHERE ended.id = ANY(%(ids)s)
        AND ended.state <> 'completed'
        AND (wanted.seen_state IS NULL
            OR (wanted.seen_state = ended.state AND wanted.seen_attempt = ended.attempt))
    ORDER BY ended.id
    FOR UPDATE OF ended
),
again AS (
    DELETE FROM countersign.ended
    USING held, countersign.jobs
    WHERE ended.id = ANY(%(ids)s)
        AND ended.id = held.id
        AND jobs.id = ended.id
    RETURNING ended.id, jobs.queue, jobs.name, jobs.priority, ended.attempt, ended.state
),
tally AS (
    SELECT again.name, again.state, 0 AS entered, 1 AS removed, NULL::timestamptz AS started_at
    FROM again
),
"""
    + REQUEUED
    + """
changed AS (
    SELECT again.id, again.name, again.attempt, 'retried' AS act, 'ready' AS state
    FROM again
),
"""
    + TALLIED
    + SIGNED
)


def retry(
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
    """Queue failed or cancelled jobs again, due now, each for exactly one more attempt.

    Attempts keep rising and the last error stays until the next run ends. Parameters and
    errors as for `cancel`.
    """
    signature = Signature(by, reason, note, via, bulk_id)
    return perform(conn, "retry", RETRY, ids, signature, seen)
