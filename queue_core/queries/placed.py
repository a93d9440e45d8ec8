"""The rows that lists of jobs are made of: where each state's stand, and in what order."""

from typing import Final, LiteralString

from queue_core.states import ENDED, State

MOST_DUE: Final = 10_000
"""Of the jobs that are due and that no worker has promoted, these are listed: the longest due."""
AS_ENQUEUED: Final[frozenset[State]] = frozenset({"ready", "blocked"})
"""Listed by id, as no index has them by time. Ids rise with the time they were made."""
NEWEST_FIRST: Final[frozenset[State]] = frozenset({"completed", "failed", "cancelled"})
BODILESS: Final[frozenset[State]] = frozenset({"needs_review", *ENDED})
"""Their places hold neither name nor queue."""
BY_QUEUE: Final[frozenset[State]] = frozenset({"waiting", "blocked"})
"""Their indexes have them by queue in the order of the list."""

# What is due and not yet promoted is little while a worker lives. Its index is by time.
READY: Final[LiteralString] = """
    SELECT ready.id, ready.name, ready.queue, 'ready' AS state, ready.attempt,
        ready.attempts_allowed, ready.run_at AS at, NULL::uuid AS worker, NULL::text AS error,
        NULL::text AS error_type, NULL::text AS error_place, false AS uncertain,
        NULL::timestamptz AS stop_requested_at, NULL::text AS why, NULL::text AS key
    FROM countersign.ready
    UNION ALL
    SELECT due.id, due.name, due.queue, 'ready', due.attempt, due.attempts_allowed, due.run_at,
        NULL, NULL, NULL, NULL, false, NULL, NULL, NULL
    FROM (
        WITH due AS MATERIALIZED (
            SELECT waiting.* FROM countersign.waiting WHERE waiting.run_at <= now()
            ORDER BY waiting.run_at, waiting.id
            LIMIT %(most_due)s
        )
        SELECT due.* FROM due
    ) AS due
"""
WAITING: Final[LiteralString] = """
    SELECT waiting.id, waiting.name, waiting.queue, 'waiting' AS state, waiting.attempt,
        waiting.attempts_allowed, waiting.run_at AS at, NULL::uuid AS worker,
        NULL::text AS error, NULL::text AS error_type, NULL::text AS error_place,
        false AS uncertain, NULL::timestamptz AS stop_requested_at, NULL::text AS why,
        NULL::text AS key
    FROM countersign.waiting
    WHERE waiting.run_at > now()
"""
BLOCKED: Final[LiteralString] = """
    SELECT blocked.id, blocked.name, blocked.queue, 'blocked' AS state, blocked.attempt,
        blocked.attempts_allowed, blocked.run_at AS at, NULL::uuid AS worker,
        NULL::text AS error, NULL::text AS error_type, NULL::text AS error_place,
        false AS uncertain, NULL::timestamptz AS stop_requested_at, NULL::text AS why,
        blocked.serial_key AS key
    FROM countersign.blocked
"""
RUNNING: Final[LiteralString] = """
    SELECT running.id, running.name, running.queue, 'running' AS state, running.attempt,
        running.attempts_allowed, running.claimed_at AS at, running.worker, NULL::text AS error,
        NULL::text AS error_type, NULL::text AS error_place, false AS uncertain,
        running.stop_requested_at, NULL::text AS why, NULL::text AS key
    FROM countersign.running
"""
REVIEW: Final[LiteralString] = """
    SELECT review.id, NULL::text AS name, NULL::text AS queue, 'needs_review' AS state,
        review.attempt, NULL::integer AS attempts_allowed, review.entered_at AS at,
        review.worker, review.error, NULL::text AS error_type, NULL::text AS error_place,
        true AS uncertain, NULL::timestamptz AS stop_requested_at, review.why, NULL::text AS key
    FROM countersign.review
"""
OF_ENDED: Final[LiteralString] = """
    SELECT ended.id, NULL::text AS name, NULL::text AS queue, ended.state, ended.attempt,
        NULL::integer AS attempts_allowed, ended.ended_at AS at, ended.worker, ended.error,
        ended.error_type, ended.error_place, ended.uncertain,
        NULL::timestamptz AS stop_requested_at, NULL::text AS why, NULL::text AS key
    FROM countersign.ended
    WHERE ended.state = %(state)s
"""
PLACES: Final[dict[State, LiteralString]] = {
    "ready": READY,
    "waiting": WAITING,
    "blocked": BLOCKED,
    "running": RUNNING,
    "needs_review": REVIEW,
    "completed": OF_ENDED,
    "failed": OF_ENDED,
    "cancelled": OF_ENDED,
}
LOOKED_AT: Final[LiteralString] = "FROM (\nSELECT placed.* FROM ("
PLACED: Final[LiteralString] = ") AS placed\nWHERE true\n"
WINDOW: Final[LiteralString] = "LIMIT %(window)s\n) AS looked\n"
SINCE: Final[LiteralString] = "    AND placed.at >= %(since)s\n"
UNTIL: Final[LiteralString] = "    AND placed.at < %(until)s\n"
OF_QUEUE: Final[LiteralString] = "    AND placed.queue = %(queue)s\n"
OF_IDS: Final[LiteralString] = "    AND placed.id BETWEEN %(lowest)s AND %(highest)s\n"
BEYOND: Final[LiteralString] = "    AND (placed.at, placed.id) > (%(at)s, %(id)s)\n"
BEFORE: Final[LiteralString] = "    AND (placed.at, placed.id) < (%(at)s, %(id)s)\n"
RISING: Final[LiteralString] = "ORDER BY placed.at, placed.id\n"
FALLING: Final[LiteralString] = "ORDER BY placed.at DESC, placed.id DESC\n"
BEYOND_ID: Final[LiteralString] = "    AND placed.id > %(id)s\n"
BEFORE_ID: Final[LiteralString] = "    AND placed.id < %(id)s\n"
RISING_ID: Final[LiteralString] = "ORDER BY placed.id\n"
FALLING_ID: Final[LiteralString] = "ORDER BY placed.id DESC\n"
