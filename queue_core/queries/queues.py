"""Queues: how each stands that holds live jobs or is paused, and how many jobs one holds."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, LiteralString

import psycopg

from queue_core.database import rows, value
from queue_core.jobs import check_name
from queue_core.queries.counts import CAP

MOST_QUEUES: Final = 200
LIST_CAPS: Final = (1_000, 500, 200, 100)
"""Of each queue and state, on a page of all: the first that keeps it within so many in all."""
MOST_COUNTED: Final = 20_000
MOST_LANES: Final = 2_000
"""In how many pairs of name and priority of one queue its oldest job is looked for."""


@dataclass(frozen=True, slots=True)
class QueueRow:
    """How one queue stands: its jobs by live state, each up to a cap; `cap + 1` means more.

    `oldest_ready_seconds` is the age of its oldest ready job, 0 where nothing is ready;
    `paused_at` is None where workers take jobs from it.
    """

    name: str
    ready: int
    waiting: int
    blocked: int
    running: int
    oldest_ready_seconds: float
    paused_at: datetime | None


# From each queue to the next by the index, over however many rows lie between.
KNOWN: Final[LiteralString] = """
WITH RECURSIVE in_ready AS (
    SELECT min(ready.queue) AS name FROM countersign.ready
    UNION ALL
    SELECT (SELECT min(ready.queue) FROM countersign.ready WHERE ready.queue > in_ready.name)
    FROM in_ready
    WHERE in_ready.name IS NOT NULL
),
in_waiting AS (
    SELECT min(waiting.queue) AS name FROM countersign.waiting
    UNION ALL
    SELECT (SELECT min(waiting.queue) FROM countersign.waiting
        WHERE waiting.queue > in_waiting.name)
    FROM in_waiting
    WHERE in_waiting.name IS NOT NULL
),
in_blocked AS (
    SELECT min(blocked.queue) AS name FROM countersign.blocked
    UNION ALL
    SELECT (SELECT min(blocked.queue) FROM countersign.blocked
        WHERE blocked.queue > in_blocked.name)
    FROM in_blocked
    WHERE in_blocked.name IS NOT NULL
),
known AS MATERIALIZED (
    SELECT named.name, queues.paused_at
    FROM (
        SELECT in_ready.name FROM in_ready
        UNION
        SELECT in_waiting.name FROM in_waiting
        UNION
        SELECT in_blocked.name FROM in_blocked
        UNION
        SELECT running.queue FROM countersign.running
        UNION
        SELECT queues.name FROM countersign.queues
    ) AS named
    LEFT JOIN countersign.queues ON queues.name = named.name
    WHERE named.name IS NOT NULL
    ORDER BY queues.paused_at IS NULL, named.name
    LIMIT %(queues)s
)
"""
# The oldest is at the head of one of the queue's lanes: rows of a name and a priority stand in
# the index by age.
OLDEST: Final[LiteralString] = """
CROSS JOIN LATERAL (
    WITH RECURSIVE lane AS (
        (
            SELECT ready.name, ready.rank, ready.run_at
            FROM countersign.ready
            WHERE ready.queue = known.name
            ORDER BY ready.name, ready.rank, ready.run_at, ready.id
            LIMIT 1
        )
        UNION ALL
        SELECT next.name, next.rank, next.run_at
        FROM lane
        CROSS JOIN LATERAL (
            SELECT ready.name, ready.rank, ready.run_at
            FROM countersign.ready
            WHERE ready.queue = known.name AND (ready.name, ready.rank) > (lane.name, lane.rank)
            ORDER BY ready.name, ready.rank, ready.run_at, ready.id
            LIMIT 1
        ) AS next
    )
    SELECT min(head.run_at) AS run_at
    FROM (
        (SELECT lane.run_at FROM lane LIMIT %(lanes)s)
        UNION ALL
        (SELECT waiting.run_at FROM countersign.waiting
        WHERE waiting.queue = known.name AND waiting.run_at <= now()
        ORDER BY waiting.run_at LIMIT 1)
    ) AS head
) AS oldest
"""
# Counted from the queue's first row onward in the index's order, so that the LIMIT ends the walk:
# for the rows of one queue alone a bitmap of them all may be made first.
NUMBERS: Final[LiteralString] = (
    """
SELECT known.name,
    (SELECT count(*) FROM (
        SELECT FROM (
            SELECT ready.queue FROM countersign.ready WHERE ready.queue >= known.name
            ORDER BY ready.queue, ready.name, ready.rank, ready.run_at, ready.id
            LIMIT %(limit)s
        ) AS onward
        WHERE onward.queue = known.name
        UNION ALL
        SELECT FROM (
            SELECT waiting.queue, waiting.run_at
            FROM countersign.waiting
            WHERE waiting.queue >= known.name
            ORDER BY waiting.queue, waiting.run_at, waiting.id
            LIMIT %(limit)s
        ) AS onward
        WHERE onward.queue = known.name AND onward.run_at <= now()
        LIMIT %(limit)s
    ) AS capped) AS ready,
    (SELECT count(*) FROM (
        SELECT waiting.queue
        FROM countersign.waiting
        WHERE (waiting.queue, waiting.run_at) > (known.name, now())
        ORDER BY waiting.queue, waiting.run_at, waiting.id
        LIMIT %(limit)s
    ) AS capped WHERE capped.queue = known.name) AS waiting,
    (SELECT count(*) FROM (
        SELECT blocked.queue FROM countersign.blocked WHERE blocked.queue >= known.name
        ORDER BY blocked.queue, blocked.id
        LIMIT %(limit)s
    ) AS capped WHERE capped.queue = known.name) AS blocked,
    (SELECT count(*) FROM countersign.running WHERE running.queue = known.name) AS running,
    GREATEST(COALESCE(EXTRACT(EPOCH FROM now() - oldest.run_at), 0), 0)::double precision
        AS oldest_ready_seconds,
    known.paused_at
FROM known
"""
    + OLDEST
)
QUEUES = KNOWN + NUMBERS + "ORDER BY known.name"


def list_queues(conn: psycopg.Connection[object], *, cap: int = CAP) -> list[QueueRow]:
    """Return how each queue stands that holds live jobs or is paused, by name, at most 200.

    Where there are more, paused ones come before others. Due `waiting` rows count as ready.
    """
    limits = {"queues": MOST_QUEUES, "lanes": MOST_LANES, "limit": cap + 1}
    # A plan for any limit makes bitmaps of whole queues.
    return rows(conn, QUEUES, limits, QueueRow, prepare=False)


HOW_MANY: Final[LiteralString] = KNOWN + "SELECT count(*) FROM known"


def list_cap(conn: psycopg.Connection[object]) -> int:
    """Return how far each queue is counted on a page of all: 1,000, or less where many are.

    So a page costs the same for 20 queues and for 200.
    """
    number = int(str(value(conn, HOW_MANY, {"queues": MOST_QUEUES})))
    return next((cap for cap in LIST_CAPS if cap * number <= MOST_COUNTED), LIST_CAPS[-1])


ONE: Final[LiteralString] = """
WITH known AS MATERIALIZED (
    SELECT asked.name, queues.paused_at
    FROM (SELECT %(name)s::text AS name) AS asked
    LEFT JOIN countersign.queues ON queues.name = asked.name
)
"""
QUEUE = ONE + NUMBERS


def queue(conn: psycopg.Connection[object], name: str, *, cap: int = CAP) -> QueueRow:
    """Return how one queue stands; one that no job names holds nothing.

    Raises OptionError for what cannot name a queue.
    """
    given = {"name": check_name(name, "a queue's name"), "lanes": MOST_LANES, "limit": cap + 1}
    return rows(conn, QUEUE, given, QueueRow, prepare=False)[0]


def longest(queues: Sequence[QueueRow]) -> QueueRow | None:
    """Return the queue whose oldest ready job is the oldest of all, None where nothing is ready."""
    behind = [queue for queue in queues if queue.ready]
    return max(behind, key=lambda queue: queue.oldest_ready_seconds, default=None)


SIZE = """
SELECT (SELECT count(*) FROM countersign.ready WHERE ready.queue = %(queue)s)
    + (SELECT count(*) FROM countersign.waiting WHERE waiting.queue = %(queue)s)
    + (SELECT count(*) FROM countersign.blocked WHERE blocked.queue = %(queue)s)
"""


def queue_size(conn: psycopg.Connection[object], name: str) -> int:
    """Count the queued jobs of a queue, exactly; running ones are in it no more.

    Raises OptionError for what cannot name a queue.
    """
    return int(str(value(conn, SIZE, {"queue": check_name(name, "a queue's name")})))
