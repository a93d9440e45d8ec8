"""needs_review -> cancelled: a person decides that the job is never to run again."""

from collections.abc import Iterable
from uuid import UUID

import psycopg

from queue_core.acts import ActOutcome, Seen, Signature, perform
from queue_core.clauses import DECIDED, SIGNED, TALLIED, WANTED

CLOSE = (
    WANTED
    + DECIDED
    + """
ended AS (
    INSERT INTO countersign.ended (id, state, uncertain, attempt, error)
    SELECT decided.id, 'cancelled', decided.why <> 'unreadable', decided.attempt, decided.error
    FROM decided
),
tally AS (
    SELECT COALESCE(named.name, '') AS name, 'cancelled' AS state, 1 AS entered, 0 AS removed,
        NULL::timestamptz AS started_at
    FROM named
),
changed AS (
    SELECT named.id, COALESCE(named.name, 'unknown') AS name, named.attempt, 'closed' AS act,
        'cancelled' AS state
    FROM named
),
"""
    + TALLIED
    + SIGNED
)


def close(
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
    """Cancel jobs in review: they are not to run again, whatever their last run did.

    What that was is not undone, and stays uncertain unless their code was never entered. One
    whose body is gone can be closed too. Parameters and errors as for `cancel`.
    """
    signature = Signature(by, reason, note, via, bulk_id)
    return perform(conn, "close", CLOSE, ids, signature, seen)
