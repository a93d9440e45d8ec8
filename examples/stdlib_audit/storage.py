"""The example's own table, on a connection of its own that each run finds open."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from typing import Final
from uuid import UUID

import psycopg
from psycopg.rows import class_row

from examples.stdlib_audit.sources import Facts

_connection: Final[ContextVar[psycopg.Connection]] = ContextVar("stdlib_audit_connection")
_kept: list[psycopg.Connection] = []


@dataclass(frozen=True, slots=True)
class Sums:
    """How many files were audited by jobs that completed, and how many lines they have."""

    files: int
    lines: int


@contextmanager
def transaction() -> Generator[None]:
    """Give the run a transaction: what it writes stands once its handler has returned."""
    connection = _open()
    with connection.transaction():
        token = _connection.set(connection)
        try:
            yield
        finally:
            _connection.reset(token)


def _open() -> psycopg.Connection:
    """Keep one connection for all runs of this process, opened by the first."""
    if _kept and _kept[0].closed:
        _kept.clear()
    if not _kept:
        # The worker tells its children where the database is: with an embedded one, a child
        # that started it would keep it alive, and a killed child never lets go in order.
        url = os.environ["DATABASE_URL"]
        _kept.append(psycopg.connect(url, autocommit=True, application_name="stdlib_audit"))
    return _kept[0]


def connection() -> psycopg.Connection:
    """Return the connection of this run's transaction."""
    return _connection.get()


# An upsert: a job that runs twice, after a crash or a retry, leaves one row all the same.
SAVE = """
INSERT INTO stdlib_audit.files AS known (path, job_id, lines, bytes, functions, classes, imports,
    longest_function, longest_lines)
VALUES (%(path)s, %(job_id)s, %(lines)s, %(bytes)s, %(functions)s, %(classes)s, %(imports)s,
    %(longest_function)s, %(longest_lines)s)
ON CONFLICT (path) DO UPDATE
SET job_id = EXCLUDED.job_id,
    lines = EXCLUDED.lines,
    bytes = EXCLUDED.bytes,
    functions = EXCLUDED.functions,
    classes = EXCLUDED.classes,
    imports = EXCLUDED.imports,
    longest_function = EXCLUDED.longest_function,
    longest_lines = EXCLUDED.longest_lines,
    audited_at = now()
"""


def save(path: str, job_id: UUID, facts: Facts) -> None:
    """Write what is said of a file, in place of what was said before."""
    connection().execute(SAVE, {"path": path, "job_id": job_id, **asdict(facts)})


SUMS = """
SELECT count(*) AS files, COALESCE(sum(files.lines), 0)::bigint AS lines
FROM stdlib_audit.files
JOIN countersign.job_states ON job_states.id = files.job_id
WHERE job_states.state = 'completed'
"""


def sums() -> Sums:
    """Add up the files whose job completed."""
    with connection().cursor(row_factory=class_row(Sums)) as cursor:
        found = cursor.execute(SUMS).fetchone()
    assert found
    return found
