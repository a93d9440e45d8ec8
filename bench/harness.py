"""What the benchmarks share: a server of their own, jobs in bulk, and figures as JSON lines."""

import json
import math
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, LiteralString
from uuid import UUID

import psycopg
from psycopg import conninfo, sql
from psycopg.rows import DictRow, dict_row

from queue_core import embedded, fleet, migrate
from queue_core.embedded.binaries import BIN, installed
from queue_core.worker.link import BUSY

SETTINGS: Final = {
    "shared_buffers": "1GB",
    "max_wal_size": "4GB",
    "fsync": "on",
    "synchronous_commit": "on",
}
BULK: Final = 100_000
"""Rows loaded in one transaction."""

Connection = psycopg.Connection[dict[str, Any]]


@dataclass(frozen=True)
class Bench:
    """A migrated database on a server that nobody else uses."""

    url: str
    owner_url: str
    folder: Path
    _stack: ExitStack

    def connect(self, options: str = BUSY, *, autocommit: bool = True) -> Connection:
        """Open a connection as a worker's clerk does."""
        conn = psycopg.Connection[DictRow].connect(
            self.url, autocommit=autocommit, row_factory=dict_row, options=options
        )
        return self._stack.enter_context(conn)

    def owner(self) -> Connection:
        """Open a connection of the superuser."""
        conn = psycopg.Connection[DictRow].connect(
            self.owner_url, autocommit=True, row_factory=dict_row
        )
        return self._stack.enter_context(conn)


@contextmanager
def server() -> Iterator[embedded.Server]:
    """Start an embedded server in a temporary folder, with the settings of the comparison."""
    folder = Path(tempfile.mkdtemp(prefix="cs-bench-"))
    folder.chmod(0o755)  # as root the server drops its rights and must still get here
    try:
        started = embedded.start(folder)
        with psycopg.connect(started.owner_url, autocommit=True) as owner:
            for name, setting in SETTINGS.items():
                owner.execute(
                    sql.SQL("ALTER SYSTEM SET {} = {}").format(sql.Identifier(name), setting)
                )
        embedded.stop()
        yield embedded.start(folder)
    finally:
        embedded.stop()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def database(at: embedded.Server, name: str, *, migrated: bool = True) -> Iterator[Bench]:
    """Make a database, migrate it if asked, and drop it at the end whoever is connected."""
    folder = Path(str(conninfo.conninfo_to_dict(at.url)["host"]))
    stack = ExitStack()
    with psycopg.connect(at.owner_url, autocommit=True) as admin:
        admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        owner_url = conninfo.make_conninfo(at.owner_url, dbname=name)
        try:
            if migrated:
                with psycopg.connect(owner_url, autocommit=True) as owner:
                    migrate.migrate(owner)
            yield Bench(conninfo.make_conninfo(at.url, dbname=name), owner_url, folder, stack)
        finally:
            stack.close()
            drop = sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name))
            admin.execute(drop)


def program(name: str) -> Path:
    """Return one of Postgres' own programs, from the wheel."""
    return installed()[0] / BIN / name


def worker(conn: Connection) -> UUID:
    """Register a worker and return its id."""
    identity = fleet.Identity("bench", os.getpid(), "boot", "pid:[1]", "0", [], 1)
    return fleet.register(conn, identity)


JOBS: Final[LiteralString] = """
WITH body AS (
    INSERT INTO countersign.jobs (id, name, queue, args, priority)
    SELECT countersign.new_id(), each.name, each.queue, '{"n": 1}', -each.rank
    FROM (
        SELECT (%(names)s::text[])[1 + floor(random() * %(named)s)::integer] AS name,
            (%(queues)s::text[])[1 + floor(random() * %(queued)s)::integer] AS queue,
            %(rank)s::integer AS rank
        FROM generate_series(1, %(count)s)
    ) AS each
    RETURNING jobs.id, jobs.name, jobs.queue, jobs.priority
)
"""
READY: Final[LiteralString] = (
    JOBS
    + """
INSERT INTO countersign.ready (id, queue, name, rank, run_at)
SELECT body.id, body.queue, body.name, -body.priority, clock_timestamp() FROM body
"""
)
WAITING: Final[LiteralString] = (
    JOBS
    + """
INSERT INTO countersign.waiting (id, queue, name, rank, run_at)
SELECT body.id, body.queue, body.name, -body.priority, clock_timestamp() + interval '1 day'
FROM body
"""
)


def load(
    conn: Connection,
    count: int,
    *,
    names: Sequence[str] = ("bench.noop",),
    queues: Sequence[str] = ("default",),
    rank: int = 0,
    place: LiteralString = READY,
) -> None:
    """Add jobs with their bodies, names and queues at random, as the owner and in bulk."""
    known = {"names": list(names), "named": len(names), "queues": list(queues)}
    known |= {"queued": len(queues), "rank": rank}
    for start in range(0, count, BULK):
        conn.execute(place, known | {"count": min(BULK, count - start)})


def settle(conn: Connection) -> None:
    """Vacuum, analyze and write everything out, so that a measurement starts from rest."""
    conn.execute("VACUUM (ANALYZE)")
    conn.execute("CHECKPOINT")


def percentile(values: Sequence[float], part: float) -> float:
    """Return the value below which `part` (0 to 1) of them lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, math.ceil(part * len(ordered)) - 1))]


def report(
    bench: str, case: str, value: float, unit: str, *, ratio: float | None = None, to: str = ""
) -> None:
    """Print one figure as a JSON line; `ratio` is to the case named in `to`."""
    line = {"bench": bench, "case": case, "value": round(value, 4), "unit": unit}
    line |= {"ratio": None if ratio is None else round(ratio, 3), "to": to or None}
    print(json.dumps(line), flush=True)
