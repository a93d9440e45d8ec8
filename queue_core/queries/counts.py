"""How many jobs are in each state."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final, LiteralString

import psycopg

from queue_core.database import rows
from queue_core.states import State

CAP: Final = 10_000
"""Pages count up to here and then say "10,000+"."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Exact numbers of jobs by state at one instant, and the age in seconds of the oldest ready.

    A due `waiting` row counts as ready; the age is 0 where nothing is ready.
    """

    at: datetime
    ready: int
    waiting: int
    blocked: int
    running: int
    completed: int
    failed: int
    cancelled: int
    needs_review: int
    oldest_ready_seconds: float


COUNTS = """
WITH due AS (
    SELECT ready.run_at FROM countersign.ready
    UNION ALL
    SELECT waiting.run_at FROM countersign.waiting WHERE waiting.run_at <= now()
),
tallied AS (
    SELECT tallies.state, sum(tallies.entered - tallies.removed)::bigint AS jobs
    FROM countersign.tallies
    GROUP BY tallies.state
)
SELECT now() AS at,
    (SELECT count(*) FROM due) AS ready,
    (SELECT count(*) FROM countersign.waiting WHERE waiting.run_at > now()) AS waiting,
    (SELECT count(*) FROM countersign.blocked) AS blocked,
    (SELECT count(*) FROM countersign.running) AS running,
    COALESCE((SELECT tallied.jobs FROM tallied WHERE tallied.state = 'completed'), 0) AS completed,
    COALESCE((SELECT tallied.jobs FROM tallied WHERE tallied.state = 'failed'), 0) AS failed,
    COALESCE((SELECT tallied.jobs FROM tallied WHERE tallied.state = 'cancelled'), 0) AS cancelled,
    (SELECT count(*) FROM countersign.review) AS needs_review,
    COALESCE(GREATEST(EXTRACT(EPOCH FROM now() - (SELECT min(due.run_at) FROM due)), 0), 0)
        ::double precision AS oldest_ready_seconds
"""


def counts(conn: psycopg.Connection[object]) -> Counts:
    """Count every job, exactly and in one snapshot; what ended by its tallies, not one by one."""
    return rows(conn, COUNTS, {}, Counts)[0]


@dataclass(frozen=True, slots=True)
class _Tab:
    """A row of CAPPED."""

    state: State
    jobs: int


_FITTING: Final[LiteralString] = """
        AND (%(queue)s::text IS NULL OR counted.queue = %(queue)s::text)
        AND (%(name)s::text IS NULL OR counted.name = %(name)s::text)
"""
_FITS: Final[LiteralString] = (
    _FITTING
    + """
        LIMIT %(limit)s
    ) AS capped
"""
)
CAPPED_ENDED: Final[LiteralString] = """
UNION ALL
SELECT 'completed', count(*) FROM (
    SELECT FROM countersign.ended WHERE ended.state = 'completed' LIMIT %(limit)s
) AS capped
UNION ALL
SELECT 'failed', count(*) FROM (
    SELECT FROM countersign.ended WHERE ended.state = 'failed' LIMIT %(limit)s
) AS capped
UNION ALL
SELECT 'cancelled', count(*) FROM (
    SELECT FROM countersign.ended WHERE ended.state = 'cancelled' LIMIT %(limit)s
) AS capped
UNION ALL
SELECT 'needs_review', count(*) FROM (
    SELECT FROM countersign.review LIMIT %(limit)s
) AS capped
"""
CAPPED_ENDED_FITTING: Final[LiteralString] = (
    """
UNION ALL
SELECT 'completed', count(*) FROM (
        SELECT FROM countersign.ended JOIN countersign.jobs AS counted ON counted.id = ended.id
        WHERE ended.state = 'completed'
"""
    + _FITS
    + """
UNION ALL
SELECT 'failed', count(*) FROM (
        SELECT FROM countersign.ended JOIN countersign.jobs AS counted ON counted.id = ended.id
        WHERE ended.state = 'failed'
"""
    + _FITS
    + """
UNION ALL
SELECT 'cancelled', count(*) FROM (
        SELECT FROM countersign.ended JOIN countersign.jobs AS counted ON counted.id = ended.id
        WHERE ended.state = 'cancelled'
"""
    + _FITS
    + """
UNION ALL
SELECT 'needs_review', count(*) FROM (
        SELECT FROM countersign.review JOIN countersign.jobs AS counted ON counted.id = review.id
        WHERE true
"""
    + _FITS
)
# By time, so that the index is walked and not all that is due on the other side of now.
CAPPED_LIVE: Final[LiteralString] = (
    """
SELECT 'ready' AS state, count(*) AS jobs FROM (
        (SELECT FROM countersign.ready AS counted WHERE true
"""
    + _FITTING
    + """
        LIMIT %(limit)s)
        UNION ALL
        (SELECT FROM countersign.waiting AS counted WHERE counted.run_at <= now()
"""
    + _FITTING
    + """
        ORDER BY counted.run_at
        LIMIT %(limit)s)
        LIMIT %(limit)s
    ) AS capped
UNION ALL
SELECT 'waiting', count(*) FROM (
        SELECT FROM countersign.waiting AS counted WHERE counted.run_at > now()
"""
    + _FITTING
    + """
        ORDER BY counted.run_at
        LIMIT %(limit)s
    ) AS capped
UNION ALL
SELECT 'blocked', count(*) FROM (
        SELECT FROM countersign.blocked AS counted WHERE true
"""
    + _FITS
    + """
UNION ALL
SELECT 'running', count(*) FROM (
        SELECT FROM countersign.running AS counted WHERE true
"""
    + _FITS
)
CAPPED = CAPPED_LIVE + CAPPED_ENDED
CAPPED_FITTING = CAPPED_LIVE + CAPPED_ENDED_FITTING


def capped_counts(
    conn: psycopg.Connection[object],
    *,
    queue: str | None = None,
    name: str | None = None,
    cap: int = CAP,
) -> dict[State, int]:
    """Count the jobs of each state under these filters, up to `cap`; `cap + 1` means more."""
    statement = CAPPED if queue is None and name is None else CAPPED_FITTING
    parameters = {"queue": queue, "name": name, "limit": cap + 1}
    return {row.state: row.jobs for row in rows(conn, statement, parameters, _Tab)}
