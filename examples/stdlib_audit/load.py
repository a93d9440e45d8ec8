"""Asks for the audit: one job for each file, and four that end in other ways."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import psycopg

from examples.stdlib_audit import handlers, sources
from queue_core import NewJob, enqueue_many
from queue_core.database import execute, transaction, value
from queue_core.jobs import LOWEST_PRIORITY

TABLE: Final = Path(__file__).with_name("table.sql")
FIRST: Final = 100

EMPTY = """
SELECT NOT EXISTS (SELECT FROM countersign.jobs)
"""
# Two starts at once: the second waits here, and then finds the jobs of the first.
ALONE = """
SELECT pg_advisory_xact_lock(hashtext('stdlib_audit.load'))
"""


def load(conn: psycopg.Connection[object]) -> int:
    """Make the example's table and enqueue its jobs, where there is no job at all yet.

    `conn` belongs to the owner, who may make a schema. Returns how many jobs were enqueued.
    """
    with transaction(conn):
        execute(conn, ALONE, {})
        with psycopg.Cursor(conn) as cursor:
            cursor.execute(TABLE.read_bytes())
        if not value(conn, EMPTY, {}):
            return 0
        return len(enqueue_many(conn, list(_asked())))


def _asked() -> Iterator[NewJob]:
    assert handlers.jobs.handlers, "enqueue looks the names up in what is declared"
    for name in (
        "audit.kill_own_process_for_review",
        "audit.kill_own_process",
        "audit.duplicates",
    ):
        yield NewJob(name, priority=FIRST)
    for path in sources.files():
        yield NewJob("audit.file", {"path": str(path)})
    yield NewJob("audit.summary", priority=LOWEST_PRIORITY)
