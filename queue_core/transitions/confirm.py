"""needs_review -> completed: a person has found out that the job did run."""

from collections.abc import Iterable
from uuid import UUID

import psycopg

from queue_core.acts import ActOutcome, Seen, Signature, perform
from queue_core.clauses import DECIDED, SIGNED, TALLIED, WANTED

CONFIRM = (
    WANTED
    + DECIDED
    + """
ended AS (
    INSERT INTO countersign.ended (id, state, attempt)
    SELECT decided.id, 'completed', decided.attempt
    FROM decided
),
tally AS (
    SELECT COALESCE(named.name, '') AS name, 'completed' AS state, 1 AS entered, 0 AS removed,
        NULL::timestamptz AS started_at
    FROM named
),
changed AS (
    SELECT named.id, COALESCE(named.name, 'unknown') AS name, named.attempt, 'confirmed' AS act,
        'completed' AS state
    FROM named
),
"""
    + TALLIED
    + SIGNED
)


def confirm(
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
    """Record jobs in review as completed: they did run, as whoever signs has found out.

    No result is kept, and one whose body is gone can be confirmed too. Parameters and errors
    as for `cancel`.
    """
    signature = Signature(by, reason, note, via, bulk_id)
    return perform(conn, "confirm", CONFIRM, ids, signature, seen)
