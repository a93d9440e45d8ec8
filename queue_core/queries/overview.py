"""The first page: what needs a person."""

from dataclasses import dataclass
from datetime import datetime

import psycopg

from queue_core.database import rows


@dataclass(frozen=True, slots=True)
class Overview:
    """What needs a person, at one instant.

    `needs_review` and both numbers of failed ones stop at 10,001, which means more;
    `oldest_review_at` is None where nothing waits for review.
    """

    at: datetime
    needs_review: int
    oldest_review_at: datetime | None
    failed: int
    failed_uncertain: int
    workers_live: int
    slots_live: int


# Both in the order of an index that has all that is asked: unordered, a bitmap of everything that
# ever failed may be made first, and the rows read for a column.
OVERVIEW = """
WITH failed AS (
    SELECT FROM countersign.ended
    WHERE ended.state = 'failed'
    ORDER BY ended.ended_at, ended.id
    LIMIT 10001
),
uncertain AS (
    SELECT FROM countersign.ended
    WHERE ended.state = 'failed' AND ended.uncertain
    ORDER BY ended.ended_at
    LIMIT 10001
),
live AS (
    SELECT workers.slots FROM countersign.workers
    WHERE workers.stopped_at IS NULL AND workers.lost_at IS NULL
)
SELECT now() AS at,
    (SELECT count(*) FROM (SELECT FROM countersign.review LIMIT 10001) AS capped) AS needs_review,
    (SELECT min(review.entered_at) FROM countersign.review) AS oldest_review_at,
    (SELECT count(*) FROM failed) AS failed,
    (SELECT count(*) FROM uncertain) AS failed_uncertain,
    (SELECT count(*) FROM live) AS workers_live,
    (SELECT COALESCE(sum(live.slots), 0) FROM live) AS slots_live
"""


def overview(conn: psycopg.Connection[object]) -> Overview:
    """Read the overview in one statement, so that its numbers fit each other."""
    return rows(conn, OVERVIEW, {}, Overview)[0]
