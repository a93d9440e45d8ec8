"""ready | waiting | blocked -> cancelled, running -> running with a stop asked for: by a person."""

from collections.abc import Iterable
from uuid import UUID

import psycopg

from queue_core.acts import ActOutcome, Seen, Signature, perform
from queue_core.clauses import SIGNED, TALLIED, WANTED

# Held in the order of their ids first, as in every act: a join goes through them as it likes, and
# two bulks that share jobs would wait for each other.
CANCEL = (
    WANTED
    + """
ready_held AS (
    SELECT ready.id
    FROM countersign.ready
    JOIN wanted ON wanted.id = ready.id
    WHERE wanted.seen_state IS NULL
        OR (wanted.seen_state = 'queued' AND wanted.seen_attempt = ready.attempt)
    ORDER BY ready.id
    FOR UPDATE OF ready
),
from_ready AS (
    DELETE FROM countersign.ready
    USING ready_held
    WHERE ready.id = ready_held.id
    RETURNING ready.id, ready.name, ready.attempt
),
waiting_held AS (
    SELECT waiting.id
    FROM countersign.waiting
    JOIN wanted ON wanted.id = waiting.id
    WHERE wanted.seen_state IS NULL
        OR (wanted.seen_state = 'queued' AND wanted.seen_attempt = waiting.attempt)
    ORDER BY waiting.id
    FOR UPDATE OF waiting
),
from_waiting AS (
    DELETE FROM countersign.waiting
    USING waiting_held
    WHERE waiting.id = waiting_held.id
    RETURNING waiting.id, waiting.name, waiting.attempt
),
blocked_held AS (
    SELECT blocked.id
    FROM countersign.blocked
    JOIN wanted ON wanted.id = blocked.id
    WHERE wanted.seen_state IS NULL
        OR (wanted.seen_state = 'queued' AND wanted.seen_attempt = blocked.attempt)
    ORDER BY blocked.id
    FOR UPDATE OF blocked
),
from_blocked AS (
    DELETE FROM countersign.blocked
    USING blocked_held
    WHERE blocked.id = blocked_held.id
    RETURNING blocked.id, blocked.name, blocked.attempt
),
running_held AS (
    SELECT running.id
    FROM countersign.running
    JOIN wanted ON wanted.id = running.id
    WHERE (running.stop_requested_at IS NULL
            OR (running.kill_after IS NULL AND %(kill_after)s::integer IS NOT NULL))
        AND (wanted.seen_state IS NULL
            OR (wanted.seen_state = 'running' AND wanted.seen_attempt = running.attempt))
    ORDER BY running.id
    FOR UPDATE OF running
),
asked AS (
    UPDATE countersign.running
    SET stop_requested_at = COALESCE(running.stop_requested_at, now()),
        kill_after = %(kill_after)s::integer
    FROM running_held
    WHERE running.id = running_held.id
    RETURNING running.id, running.name, running.attempt
),
left_queue AS (
    SELECT * FROM from_ready
    UNION ALL
    SELECT * FROM from_waiting
    UNION ALL
    SELECT * FROM from_blocked
),
ended AS (
    INSERT INTO countersign.ended (id, state, attempt)
    SELECT left_queue.id, 'cancelled', left_queue.attempt
    FROM left_queue
),
tally AS (
    SELECT left_queue.name, 'cancelled' AS state, 1 AS entered, 0 AS removed,
        NULL::timestamptz AS started_at
    FROM left_queue
),
changed AS (
    SELECT left_queue.id, left_queue.name, left_queue.attempt, 'cancelled' AS act,
        'cancelled' AS state
    FROM left_queue
    UNION ALL
    SELECT asked.id, asked.name, asked.attempt, 'cancel_requested', 'running'
    FROM asked
),
"""
    + TALLIED
    + SIGNED
)


def cancel(  # noqa: PLR0913 - what signs it, and how long a run may go on
    conn: psycopg.Connection[object],
    ids: Iterable[UUID],
    *,
    by: str,
    reason: str,
    note: str | None = None,
    seen: Seen | None = None,
    via: str = "code",
    bulk_id: UUID | None = None,
    kill_after: int | None = None,
) -> list[ActOutcome]:
    """Cancel queued jobs; of running ones ask that they stop.

    A run that goes on `kill_after` whole seconds (1 to 86,400) after it was told is killed, and
    may then have run in part; without it nothing is killed, and its code decides.

    Signed by `by` for `reason`, in the caller's transaction. `seen` is what the person saw
    of each job (state, attempt): a job that has moved on since is refused. A second request
    for a running job is refused as `already_asked`, unless it has `kill_after` and no earlier
    one had. Raises NotACodeError, NoteError, OptionError, ContendedError.
    """
    signature = Signature(by, reason, note, via, bulk_id, kill_after)
    return perform(conn, "cancel", CANCEL, ids, signature, seen)
