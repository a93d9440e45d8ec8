"""Worker sessions, living and gone."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final, Literal, LiteralString
from uuid import UUID

import psycopg

from queue_core.database import rows
from queue_core.queries.counts import CAP
from queue_core.queries.jobs import Cursor

Fate = Literal["live", "lost", "stopped"]
Standing = Literal["live", "draining", "silent", "lost", "stopped"]

PAGE: Final = 50
SILENCE: Final = timedelta(seconds=60)
"""A live worker beats at least so often, unless its stale time is over twelve minutes."""


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """One worker session; live while it has neither stopped nor been declared lost.

    `queues` are those it takes jobs from, none named: from all. `handles` are the names that its
    code handles; since `draining_at` it takes no more.
    """

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
    handles: list[str]
    draining_at: datetime | None

    def standing(self, now: datetime) -> Standing:
        """Say how it stands at `now`, on the database's clock; one that is silent may be gone."""
        if self.lost_at:
            return "lost"
        if self.stopped_at:
            return "stopped"
        if now - self.beat_at > SILENCE:
            return "silent"
        return "draining" if self.draining_at else "live"


COLUMNS: Final[LiteralString] = """
SELECT workers.id, workers.name, workers.host, workers.pid, workers.version, workers.queues,
    workers.slots, workers.started_at, workers.beat_at, workers.stopped_at, workers.lost_at,
    workers.lost_by, workers.lost_rule, workers.handles, workers.draining_at
FROM countersign.workers
"""
WORKER = COLUMNS + "WHERE workers.id = %(id)s"


def worker(conn: psycopg.Connection[object], worker_id: UUID) -> WorkerRow | None:
    """Return a worker session, or None where there never was one of this id."""
    found = rows(conn, WORKER, {"id": worker_id}, WorkerRow)
    return found[0] if found else None


WORKERS = COLUMNS + "WHERE workers.id = ANY(%(ids)s)"


def workers_of(conn: psycopg.Connection[object], ids: Iterable[UUID]) -> dict[UUID, WorkerRow]:
    """Return those worker sessions of `ids` that there are, by their ids."""
    asked = sorted(set(ids))
    return {row.id: row for row in rows(conn, WORKERS, {"ids": asked}, WorkerRow)} if asked else {}


IS_LIVE: Final[LiteralString] = "WHERE workers.stopped_at IS NULL AND workers.lost_at IS NULL\n"
LIVE = COLUMNS + IS_LIVE + "ORDER BY workers.started_at, workers.id"


def live(conn: psycopg.Connection[object]) -> list[WorkerRow]:
    """Return the workers that have neither stopped nor been declared lost, oldest first."""
    return rows(conn, LIVE, {}, WorkerRow)


@dataclass(frozen=True, slots=True)
class WorkerPage:
    """One page of workers, in its order; a cursor is None where there is no more that way."""

    rows: list[WorkerRow]
    previous: Cursor | None
    next: Cursor | None


OF: Final[Mapping[Fate, LiteralString]] = MappingProxyType(
    {
        "live": IS_LIVE,
        "lost": "WHERE workers.lost_at IS NOT NULL\n",
        "stopped": "WHERE workers.stopped_at IS NOT NULL\n",
    }
)
AT: Final[Mapping[Fate, LiteralString]] = MappingProxyType(
    {"live": "workers.started_at", "lost": "workers.lost_at", "stopped": "workers.stopped_at"}
)


def list_workers(
    conn: psycopg.Connection[object],
    fate: Fate,
    *,
    cursor: Cursor | None = None,
    direction: Literal["next", "previous"] = "next",
    size: int = PAGE,
) -> WorkerPage:
    """Return the page of workers of one fate after `cursor`, or with `direction` before it.

    Live ones come oldest first, lost and stopped ones as they went, the last first.
    """
    backward = direction == "previous" and cursor is not None
    falling = (fate != "live") != backward
    parameters: dict[str, object] = {"limit": size + 1}
    if cursor:
        parameters |= {"at": cursor.at, "id": cursor.id}
    statement = COLUMNS + OF[fate] + _slice(AT[fate], cursor, falling=falling)
    found = rows(conn, statement, parameters, WorkerRow)
    return _page(found, fate, size, backward=backward, began=cursor is None)


def _slice(at: LiteralString, cursor: Cursor | None, *, falling: bool) -> LiteralString:
    place, way = "(" + at + ", workers.id)", " DESC" if falling else ""
    beyond = "    AND " + place + (" < " if falling else " > ") + "(%(at)s, %(id)s)\n"
    order = "ORDER BY " + at + way + ", workers.id" + way + "\nLIMIT %(limit)s"
    return order if cursor is None else beyond + order


def _page(
    found: list[WorkerRow], fate: Fate, size: int, *, backward: bool, began: bool
) -> WorkerPage:
    more, kept = len(found) > size, found[:size]
    if backward:
        kept.reverse()
    if not kept:
        return WorkerPage([], None, None)
    first, last = _cursor(kept[0], fate), _cursor(kept[-1], fate)
    has_previous = more if backward else not began
    return WorkerPage(kept, first if has_previous else None, last if more or backward else None)


def _cursor(row: WorkerRow, fate: Fate) -> Cursor:
    at = {"live": row.started_at, "lost": row.lost_at, "stopped": row.stopped_at}[fate]
    return Cursor(at or row.started_at, row.id)


@dataclass(frozen=True, slots=True)
class _Counted:
    """The row of COUNTED."""

    live: int
    lost: int
    stopped: int


COUNTED = (
    """
SELECT (SELECT count(*) FROM (
        SELECT FROM countersign.workers
"""
    + IS_LIVE
    + """
        LIMIT %(limit)s
    ) AS capped) AS live,
    (SELECT count(*) FROM (
        SELECT FROM countersign.workers WHERE workers.lost_at IS NOT NULL LIMIT %(limit)s
    ) AS capped) AS lost,
    (SELECT count(*) FROM (
        SELECT FROM countersign.workers WHERE workers.stopped_at IS NOT NULL LIMIT %(limit)s
    ) AS capped) AS stopped
"""
)


def count_workers(conn: psycopg.Connection[object], *, cap: int = CAP) -> dict[Fate, int]:
    """Count workers by their fate, each up to a cap; `cap + 1` means more."""
    (found,) = rows(conn, COUNTED, {"limit": cap + 1}, _Counted)
    return {"live": found.live, "lost": found.lost, "stopped": found.stopped}
