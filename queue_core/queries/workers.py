"""Worker sessions, living and gone."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final, LiteralString
from uuid import UUID

import psycopg

from queue_core.database import rows


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """One worker session; live while it has neither stopped nor been declared lost."""

    id: UUID
    name: str | None
    host: str
    pid: int
    version: str
    queues: list[str]
    slots: int
    started_at: datetime
    beat_at: datetime
    stopped_at: datetime | None
    lost_at: datetime | None
    lost_by: UUID | None
    lost_rule: str | None


COLUMNS: Final[LiteralString] = """
SELECT workers.id, workers.name, workers.host, workers.pid, workers.version, workers.queues,
    workers.slots, workers.started_at, workers.beat_at, workers.stopped_at, workers.lost_at,
    workers.lost_by, workers.lost_rule
FROM countersign.workers
"""
WORKER = COLUMNS + "WHERE workers.id = %(id)s"


def worker(conn: psycopg.Connection[object], worker_id: UUID) -> WorkerRow | None:
    """Return a worker session, or None where there never was one of this id."""
    found = rows(conn, WORKER, {"id": worker_id}, WorkerRow)
    return found[0] if found else None


LIVE = (
    COLUMNS
    + """
WHERE workers.stopped_at IS NULL AND workers.lost_at IS NULL
ORDER BY workers.started_at, workers.id
"""
)


def live(conn: psycopg.Connection[object]) -> list[WorkerRow]:
    """Return the workers that have neither stopped nor been declared lost, oldest first."""
    return rows(conn, LIVE, {}, WorkerRow)
