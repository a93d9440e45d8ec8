"""Where jobs stand."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import psycopg

from queue_core.database import rows
from queue_core.states import State


@dataclass(frozen=True, slots=True)
class Place:
    """The one place where a job stands; a due `waiting` row counts as ready."""

    id: UUID
    state: State
    attempt: int
    stop_requested_at: datetime | None
    has_body: bool
    kill_after: int | None = None


# One statement, so one snapshot: read table after table, a moving job is seen twice or never. The
# LIMIT keeps the look for a body an index look-up; EXISTS turns into a hash of all bodies.
LOCATE = """
SELECT place.*, body.found IS NOT NULL AS has_body
FROM (
SELECT ready.id, 'ready' AS state, ready.attempt, NULL::timestamptz AS stop_requested_at,
    NULL::integer AS kill_after
FROM countersign.ready WHERE ready.id = ANY(%(ids)s)
UNION ALL
SELECT waiting.id, CASE WHEN waiting.run_at <= now() THEN 'ready' ELSE 'waiting' END,
    waiting.attempt, NULL, NULL
FROM countersign.waiting WHERE waiting.id = ANY(%(ids)s)
UNION ALL
SELECT blocked.id, 'blocked', blocked.attempt, NULL, NULL
FROM countersign.blocked WHERE blocked.id = ANY(%(ids)s)
UNION ALL
SELECT running.id, 'running', running.attempt, running.stop_requested_at,
    running.kill_after
FROM countersign.running WHERE running.id = ANY(%(ids)s)
UNION ALL
SELECT review.id, 'needs_review', review.attempt, NULL, NULL
FROM countersign.review WHERE review.id = ANY(%(ids)s)
UNION ALL
SELECT ended.id, ended.state, ended.attempt, NULL, NULL
FROM countersign.ended WHERE ended.id = ANY(%(ids)s)
) AS place
LEFT JOIN LATERAL (
    SELECT true AS found FROM countersign.jobs WHERE jobs.id = place.id LIMIT 1
) AS body ON true
"""


def locate(conn: psycopg.Connection[object], ids: Sequence[UUID]) -> dict[UUID, Place]:
    """Return the place of each job of `ids` that there is."""
    return {place.id: place for place in rows(conn, LOCATE, {"ids": list(ids)}, Place)}
