"""The acts of one bulk: what one person did to many jobs, mostly in one commit."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

import psycopg

from queue_core.database import rows
from queue_core.queries.acts import ActRow

MOST: Final = 1_000


BULK = """
SELECT acts.id, acts.at, acts.by, acts.act, acts.subject_kind, acts.subject_id,
    acts.subject_name, acts.attempt, acts.reason, acts.note, acts.bulk_id, acts.via,
    acts.kill_after
FROM countersign.acts
WHERE acts.bulk_id = %(bulk_id)s AND acts.subject_kind = 'job'
ORDER BY acts.id
LIMIT %(limit)s
"""


def acts_of_bulk(
    conn: psycopg.Connection[object], bulk_id: UUID, *, limit: int = MOST
) -> list[ActRow]:
    """Return the acts on jobs under one bulk id, in their order, at most `limit`."""
    return rows(conn, BULK, {"bulk_id": bulk_id, "limit": limit}, ActRow)


@dataclass(frozen=True, slots=True)
class _Named:
    """A row of NAMES."""

    id: UUID
    name: str


NAMES = """
SELECT asked.id, body.name
FROM unnest(%(ids)s::uuid[]) AS asked (id)
CROSS JOIN LATERAL (
    SELECT jobs.name FROM countersign.jobs WHERE jobs.id = asked.id LIMIT 1
) AS body
"""


def names_of(conn: psycopg.Connection[object], ids: Sequence[UUID]) -> dict[UUID, str]:
    """Return the name of each job of `ids` whose body is there."""
    return {row.id: row.name for row in rows(conn, NAMES, {"ids": list(ids)}, _Named)}
