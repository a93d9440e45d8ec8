"""Lanes with jobs in them, found by jumping in the index: how many jobs there are costs nothing."""

from collections.abc import Mapping
from typing import Final, LiteralString
from uuid import UUID

import psycopg
from psycopg.rows import tuple_row

from queue_core.database import fetch
from queue_core.lanes import TOLD, Head, Lane, Place

MOST_LANES: Final = 100_000
"""In one look. A parameter: the plan of a statement without any is kept, however tables grow."""

HEADS: Final[LiteralString] = """
WITH RECURSIVE step AS (
    (
        SELECT ready.queue, ready.name, ready.rank, ready.run_at, ready.id
        FROM countersign.ready
        ORDER BY ready.queue, ready.name, ready.rank, ready.run_at, ready.id
        LIMIT 1
    )
    UNION ALL
    SELECT next.queue, next.name, next.rank, next.run_at, next.id
    FROM step
    CROSS JOIN LATERAL (
        SELECT ready.queue, ready.name, ready.rank, ready.run_at, ready.id
        FROM countersign.ready
        WHERE (ready.queue, ready.name) > (step.queue, step.name)
        ORDER BY ready.queue, ready.name, ready.rank, ready.run_at, ready.id
        LIMIT 1
    ) AS next
)
SELECT step.queue, step.name, step.rank, (step.run_at AT TIME ZONE 'UTC')::text, step.id
FROM step
WHERE step.queue <> ALL (ARRAY(SELECT queues.name FROM countersign.queues))
LIMIT %(most)s
"""


def heads(conn: psycopg.Connection[object]) -> list[Head]:
    """Return the lanes with the place of their first job, but for those of paused queues."""
    found = fetch(conn, HEADS, {"most": MOST_LANES}, tuple_row)
    return [Head(Lane(*row[:2]), Place(*row[2:])) for row in found]


BEHIND_PLACES: Final[LiteralString] = """
SELECT lane.queue, lane.name, behind.id
FROM unnest(%(queues)s::text[], %(names)s::text[], %(ranks)s::integer[], %(dues)s::text[],
    %(ids)s::uuid[]) AS lane (queue, name, rank, due, id)
CROSS JOIN LATERAL (
    SELECT ready.id
    FROM countersign.ready
    WHERE ready.queue = lane.queue AND ready.name = lane.name
        AND (ready.rank, ready.run_at, ready.id)
            < (lane.rank, lane.due::timestamp AT TIME ZONE 'UTC', lane.id)
    ORDER BY ready.rank, ready.run_at, ready.id
    LIMIT %(most)s
) AS behind
"""


def behind(
    conn: psycopg.Connection[object], places: Mapping[Lane, Place]
) -> dict[Lane, list[UUID]]:
    """Return the first jobs, at most 100 a lane, that stand before these places."""
    found: dict[Lane, list[UUID]] = {}
    parameters = place_columns(places) | {"most": TOLD}
    for queue, name, job in fetch(conn, BEHIND_PLACES, parameters, tuple_row):
        found.setdefault(Lane(queue, name), []).append(job)
    return found


def place_columns(places: Mapping[Lane, Place]) -> dict[str, object]:
    """Return lanes and their places column by column, for a statement's parameters."""
    return {
        "queues": [lane.queue for lane in places],
        "names": [lane.name for lane in places],
        "ranks": [place.rank for place in places.values()],
        "dues": [place.due for place in places.values()],
        "ids": [place.id for place in places.values()],
    }
