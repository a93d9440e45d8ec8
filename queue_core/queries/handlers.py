"""Handlers: what each name is, who handles it now, and the names that nobody handles."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, LiteralString
from uuid import UUID

import psycopg

from queue_core.database import rows
from queue_core.queries.names import PAGE, by_name

SILENT_SECONDS: Final = 300
"""Without a beat for so long a worker is none: a dead fleet leaves nobody to declare it lost."""
MOST_LANES: Final = 2_000
"""In how many lanes (queue, name and priority) names without a handler are looked for."""
MOST_DUE: Final = 1_000
"""Of the jobs that are due and that no worker has promoted, so many are looked at."""
MOST_UNHANDLED: Final = 50


@dataclass(frozen=True, slots=True)
class HandlerRow:
    """A name as the last worker to begin declared it; `time_limit` is in seconds.

    `limit` is how many of its runs one worker has at once, `workers` how many live workers
    handle it now: those that were heard from and do not drain.
    """

    name: str
    queue: str
    attempts: int
    time_limit: float | None
    on_lost: Literal["attempts", "review"]
    safe_to_repeat: bool
    limit: int | None
    effects: str | None
    how_to_check: str | None
    owner: str | None
    runbook: str | None
    first_declared_at: datetime
    declared_at: datetime
    declared_by: UUID
    workers: int


ABLE: Final[LiteralString] = """
WITH RECURSIVE able AS MATERIALIZED (
    SELECT workers.queues, workers.handles
    FROM countersign.workers
    WHERE workers.stopped_at IS NULL
        AND workers.lost_at IS NULL
        AND workers.draining_at IS NULL
        AND workers.beat_at > now() - make_interval(secs => %(silent)s)
)
"""
LISTED: Final[LiteralString] = (
    ABLE
    + """,
handled AS MATERIALIZED (
    SELECT each.name, count(*) AS workers
    FROM able
    CROSS JOIN LATERAL unnest(able.handles) AS each (name)
    GROUP BY each.name
)
SELECT handlers.name, handlers.queue, handlers.attempts, handlers.time_limit, handlers.on_lost,
    handlers.safe_to_repeat, handlers.most_at_once AS "limit", handlers.effects,
    handlers.how_to_check, handlers.owner, handlers.runbook, handlers.first_declared_at,
    handlers.declared_at, handlers.declared_by, COALESCE(handled.workers, 0) AS workers
FROM countersign.handlers
LEFT JOIN handled ON handled.name = handlers.name
"""
)
HANDLER = LISTED + "WHERE handlers.name = %(name)s"


def handler(conn: psycopg.Connection[object], name: str) -> HandlerRow | None:
    """Return what is known of a name, or None where no worker ever said that it handles it."""
    found = rows(conn, HANDLER, {"name": name, "silent": SILENT_SECONDS}, HandlerRow)
    return found[0] if found else None


AFTER = (
    LISTED
    + """
WHERE handlers.name > %(beyond)s
ORDER BY handlers.name
LIMIT %(limit)s
"""
)
BEFORE = (
    LISTED
    + """
WHERE handlers.name < %(beyond)s
ORDER BY handlers.name DESC
LIMIT %(limit)s
"""
)


@dataclass(frozen=True, slots=True)
class HandlerPage:
    """One page of handlers by name; `before` and `after` name where the pages beside it begin."""

    rows: list[HandlerRow]
    before: str | None
    after: str | None


def list_handlers(
    conn: psycopg.Connection[object],
    *,
    after: str = "",
    before: str | None = None,
    size: int = PAGE,
) -> HandlerPage:
    """Return a page of the names that workers ever declared: past one name, or before one."""
    beyond = after if before is None else before
    given = {"beyond": beyond, "limit": size + 1, "silent": SILENT_SECONDS}
    found = rows(conn, AFTER if before is None else BEFORE, given, HandlerRow)
    return HandlerPage(*by_name(found, size, after=after, before=before))


@dataclass(frozen=True, slots=True)
class Unhandled:
    """Jobs of a queue that are ready while no live worker handles their name there."""

    name: str
    queue: str
    oldest_ready_at: datetime


# From each lane to the next by the index, over however many rows lie between.
UNHANDLED = (
    ABLE
    + """,
handled AS MATERIALIZED (
    SELECT DISTINCT each.name, place.queue
    FROM able
    CROSS JOIN LATERAL unnest(able.handles) AS each (name)
    LEFT JOIN LATERAL unnest(able.queues) AS place (queue) ON true
),
lane AS (
    (
        SELECT ready.queue, ready.name, ready.rank, ready.run_at
        FROM countersign.ready
        ORDER BY ready.queue, ready.name, ready.rank, ready.run_at, ready.id
        LIMIT 1
    )
    UNION ALL
    SELECT next.queue, next.name, next.rank, next.run_at
    FROM lane
    CROSS JOIN LATERAL (
        SELECT ready.queue, ready.name, ready.rank, ready.run_at
        FROM countersign.ready
        WHERE (ready.queue, ready.name, ready.rank) > (lane.queue, lane.name, lane.rank)
        ORDER BY ready.queue, ready.name, ready.rank, ready.run_at, ready.id
        LIMIT 1
    ) AS next
),
head AS (
    (SELECT lane.queue, lane.name, lane.run_at FROM lane LIMIT %(lanes)s)
    UNION ALL
    (SELECT waiting.queue, waiting.name, waiting.run_at
    FROM countersign.waiting
    WHERE waiting.run_at <= now()
    ORDER BY waiting.run_at, waiting.id
    LIMIT %(due)s)
)
SELECT head.name, head.queue, min(head.run_at) AS oldest_ready_at
FROM head
WHERE (%(name)s::text IS NULL OR head.name = %(name)s::text)
    AND NOT EXISTS (
        SELECT FROM handled
        WHERE handled.name = head.name AND (handled.queue IS NULL OR handled.queue = head.queue)
    )
    -- One that has just begun, or whose code is older than this list: it may handle any name.
    AND NOT EXISTS (
        SELECT FROM able
        WHERE able.handles = '{}' AND (able.queues = '{}' OR head.queue = ANY(able.queues))
    )
GROUP BY head.name, head.queue
ORDER BY min(head.run_at), head.name, head.queue
LIMIT %(limit)s
"""
)


def unhandled(conn: psycopg.Connection[object], name: str | None = None) -> list[Unhandled]:
    """Return the names with ready jobs that no live worker handles, the longest ready first.

    Workers that have not said yet what they handle may handle all. With `name` only that
    one's. At most 50; a bounded look, through 2,000 lanes and 1,000 due jobs that nobody
    promoted.
    """
    given = {
        "silent": SILENT_SECONDS,
        "lanes": MOST_LANES,
        "due": MOST_DUE,
        "limit": MOST_UNHANDLED,
        "name": name,
    }
    return rows(conn, UNHANDLED, given, Unhandled, prepare=False)


WORKERS = """
SELECT workers.id, COALESCE(workers.name, workers.host) AS name, workers.queues
FROM countersign.workers
WHERE workers.stopped_at IS NULL
    AND workers.lost_at IS NULL
    AND workers.draining_at IS NULL
    AND workers.beat_at > now() - make_interval(secs => %(silent)s)
    AND %(name)s = ANY(workers.handles)
ORDER BY workers.started_at, workers.id
LIMIT %(limit)s
"""


@dataclass(frozen=True, slots=True)
class HandlingWorker:
    """A live worker that handles a name, in its `queues` alone where it has any."""

    id: UUID
    name: str
    queues: list[str]


def handled_by(
    conn: psycopg.Connection[object], name: str, *, most: int = PAGE
) -> list[HandlingWorker]:
    """Return the live workers that handle a name now, oldest first."""
    given = {"name": name, "silent": SILENT_SECONDS, "limit": most}
    return rows(conn, WORKERS, given, HandlingWorker)
