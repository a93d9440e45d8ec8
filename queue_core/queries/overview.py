"""The first page: what needs a person, and how the queues stand."""

from dataclasses import dataclass
from datetime import datetime

import psycopg

from queue_core.database import rows


@dataclass(frozen=True, slots=True)
class Overview:
    """What needs a person, at one instant; counts of live states are exact.

    `failed` stops at 10,001, which means more. Ages are in seconds, 0 where nothing is
    ready; `oldest_review_at` is None where nothing waits for review.
    """

    at: datetime
    needs_review: int
    oldest_review_at: datetime | None
    failed: int
    failed_uncertain: int
    oldest_ready_seconds: float
    oldest_ready_queue: str | None
    workers_live: int
    slots_live: int


OVERVIEW = """
WITH oldest AS (
    SELECT due.queue, due.run_at
    FROM (
        SELECT ready.queue, ready.run_at FROM countersign.ready
        UNION ALL
        SELECT waiting.queue, waiting.run_at FROM countersign.waiting WHERE waiting.run_at <= now()
    ) AS due
    ORDER BY due.run_at
    LIMIT 1
),
failed AS (
    SELECT ended.uncertain FROM countersign.ended WHERE ended.state = 'failed' LIMIT 10001
),
live AS (
    SELECT workers.slots FROM countersign.workers
    WHERE workers.stopped_at IS NULL AND workers.lost_at IS NULL
)
SELECT now() AS at,
    (SELECT count(*) FROM countersign.review) AS needs_review,
    (SELECT min(review.entered_at) FROM countersign.review) AS oldest_review_at,
    (SELECT count(*) FROM failed) AS failed,
    (SELECT count(*) FROM failed WHERE failed.uncertain) AS failed_uncertain,
    COALESCE(GREATEST(EXTRACT(EPOCH FROM now() - (SELECT oldest.run_at FROM oldest)), 0), 0)
        ::double precision AS oldest_ready_seconds,
    (SELECT oldest.queue FROM oldest) AS oldest_ready_queue,
    (SELECT count(*) FROM live) AS workers_live,
    (SELECT COALESCE(sum(live.slots), 0) FROM live) AS slots_live
"""


def overview(conn: psycopg.Connection[object]) -> Overview:
    """Read the overview in one statement, so that its numbers fit each other."""
    return rows(conn, OVERVIEW, {}, Overview)[0]


@dataclass(frozen=True, slots=True)
class QueueRow:
    """How one queue stands: jobs by live state, and the age in seconds of its oldest ready job.

    The age is 0 where nothing is ready.
    """

    queue: str
    ready: int
    waiting: int
    blocked: int
    running: int
    oldest_seconds: float


QUEUES = """
SELECT live.queue,
    count(*) FILTER (WHERE live.state = 'ready') AS ready,
    count(*) FILTER (WHERE live.state = 'waiting') AS waiting,
    count(*) FILTER (WHERE live.state = 'blocked') AS blocked,
    count(*) FILTER (WHERE live.state = 'running') AS running,
    GREATEST(EXTRACT(EPOCH FROM now() - min(live.run_at) FILTER (WHERE live.state = 'ready')), 0)
        ::double precision AS oldest_seconds
FROM (
    SELECT ready.queue, 'ready' AS state, ready.run_at FROM countersign.ready
    UNION ALL
    SELECT waiting.queue, CASE WHEN waiting.run_at <= now() THEN 'ready' ELSE 'waiting' END,
        waiting.run_at
    FROM countersign.waiting
    UNION ALL
    SELECT blocked.queue, 'blocked', blocked.run_at FROM countersign.blocked
    UNION ALL
    SELECT running.queue, 'running', running.run_at FROM countersign.running
) AS live
GROUP BY live.queue
ORDER BY live.queue
LIMIT 200
"""


def queues(conn: psycopg.Connection[object]) -> list[QueueRow]:
    """Return how each queue that holds live jobs stands, by name, at most 200."""
    return rows(conn, QUEUES, {}, QueueRow)
