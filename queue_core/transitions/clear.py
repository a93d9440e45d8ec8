"""ready | waiting | blocked -> cancelled: a person clears a queue."""

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Final, LiteralString
from uuid import UUID, uuid4

import psycopg

from queue_core.acts import KEPT_MOVING, LOOKS, MOST_JOBS, Signature
from queue_core.clauses import ACTS, TALLIED
from queue_core.crossings import out_of_order, whole
from queue_core.database import rows
from queue_core.errors import ContendedError
from queue_core.jobs import check_name, check_whole

# From the queue's first row onward in the index's order, so that a LIMIT known to the planner ends
# the walk; rows beyond the queue are sorted out afterwards. By ctid, as the claim does: no row is
# ever updated. Locked in the order of their ids first, as every act does: a delete goes through
# them as they lie.
HEADS: Final[LiteralString] = """
WITH ready_head AS MATERIALIZED (
    SELECT onward.ctid
    FROM (
        SELECT ready.ctid, ready.queue
        FROM countersign.ready
        WHERE ready.queue >= %(queue)s
        ORDER BY ready.queue, ready.name, ready.rank, ready.run_at, ready.id
        LIMIT %(limit)s
    ) AS onward
    WHERE onward.queue = %(queue)s
),
waiting_head AS MATERIALIZED (
    SELECT onward.ctid
    FROM (
        SELECT waiting.ctid, waiting.queue
        FROM countersign.waiting
        WHERE waiting.queue >= %(queue)s
        ORDER BY waiting.queue, waiting.run_at, waiting.id
        LIMIT %(limit)s
    ) AS onward
    WHERE onward.queue = %(queue)s
    LIMIT %(limit)s - (SELECT count(*) FROM ready_head)
),
blocked_head AS MATERIALIZED (
    SELECT onward.ctid
    FROM (
        SELECT blocked.ctid, blocked.queue
        FROM countersign.blocked
        WHERE blocked.queue >= %(queue)s
        ORDER BY blocked.queue, blocked.id
        LIMIT %(limit)s
    ) AS onward
    WHERE onward.queue = %(queue)s
    LIMIT %(limit)s - (SELECT count(*) FROM ready_head) - (SELECT count(*) FROM waiting_head)
),
"""
CLEAR = (
    HEADS
    + """
from_ready AS (
    DELETE FROM countersign.ready
    WHERE ready.ctid = ANY(ARRAY(
        SELECT ready.ctid
        FROM countersign.ready
        WHERE ready.ctid = ANY(ARRAY(SELECT ready_head.ctid FROM ready_head))
        ORDER BY ready.id
        FOR UPDATE
    ))
    RETURNING ready.id, ready.name, ready.attempt
),
from_waiting AS (
    DELETE FROM countersign.waiting
    WHERE waiting.ctid = ANY(ARRAY(
        SELECT waiting.ctid
        FROM countersign.waiting
        WHERE waiting.ctid = ANY(ARRAY(SELECT waiting_head.ctid FROM waiting_head))
        ORDER BY waiting.id
        FOR UPDATE
    ))
    RETURNING waiting.id, waiting.name, waiting.attempt
),
from_blocked AS (
    DELETE FROM countersign.blocked
    WHERE blocked.ctid = ANY(ARRAY(
        SELECT blocked.ctid
        FROM countersign.blocked
        WHERE blocked.ctid = ANY(ARRAY(SELECT blocked_head.ctid FROM blocked_head))
        ORDER BY blocked.id
        FOR UPDATE
    ))
    RETURNING blocked.id, blocked.name, blocked.attempt
),
changed AS (
    SELECT from_ready.id, from_ready.name, from_ready.attempt, 'cancelled' AS act
    FROM from_ready
    UNION ALL
    SELECT from_waiting.id, from_waiting.name, from_waiting.attempt, 'cancelled'
    FROM from_waiting
    UNION ALL
    SELECT from_blocked.id, from_blocked.name, from_blocked.attempt, 'cancelled'
    FROM from_blocked
),
ended AS (
    INSERT INTO countersign.ended (id, state, attempt)
    SELECT changed.id, 'cancelled', changed.attempt
    FROM changed
),
tally AS (
    SELECT changed.name, 'cancelled' AS state, 1 AS entered, 0 AS removed,
        NULL::timestamptz AS started_at
    FROM changed
),
"""
    + TALLIED
    + ACTS
    + """
SELECT (SELECT count(*) FROM signed) AS cancelled,
    (SELECT count(*) FROM ready_head) + (SELECT count(*) FROM waiting_head)
        + (SELECT count(*) FROM blocked_head) AS candidates
"""
)


@dataclass(frozen=True, slots=True)
class _Cleared:
    cancelled: int
    candidates: int


def clear_queue(
    conn: psycopg.Connection[object],
    name: str,
    *,
    by: str,
    reason: str,
    note: str | None = None,
    via: str = "code",
    bulk_id: UUID | None = None,
    limit: int = MOST_JOBS,
) -> int:
    """Cancel queued jobs of a queue, at most `limit` (1 to 1,000); returns how many.

    Running ones go on. Fewer than `limit` means that none was left. Each is signed as by
    `cancel`, and the acts of one call share a `bulk_id`; a longer queue takes a call and a
    commit for each thousand, with one `bulk_id` given. Never commits. Raises OptionError,
    NotACodeError, NoteError and, with nothing written, ContendedError.
    """
    signature = Signature(by, reason, note, via, bulk_id or uuid4())
    asked = {"queue": check_name(name, "a queue's name")}
    left = check_whole(limit, "limit", 1, MOST_JOBS)
    return whole(conn, lambda: _cleared(conn, signature.parameters() | asked, left))


def _cleared(conn: psycopg.Connection[object], parameters: dict[str, object], limit: int) -> int:
    left = limit
    for look in range(LOOKS):
        with out_of_order(conn) if look else nullcontext():
            # A plan for any limit makes a bitmap of the whole queue.
            (found,) = rows(conn, CLEAR, parameters | {"limit": left}, _Cleared, prepare=False)
        left -= found.cancelled
        # Some that were seen had gone: into another place of the queue, it may be.
        if left == 0 or found.cancelled == found.candidates:
            return limit - left
    raise ContendedError(KEPT_MOVING)
