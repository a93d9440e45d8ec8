"""Proves that schema and ledger are sound and that every job stands in exactly one place."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import psycopg

from queue_core.check import ledger, migrations, partitions, places, schema
from queue_core.check.problem import Problem
from queue_core.database import rows
from queue_core.errors import SchemaError

__all__ = ["Problem", "check", "is_foreign", "require_schema", "require_sound", "warnings"]

BARE: Final = Problem(
    "schema.missing",
    "this database has no schema countersign",
    "run `flask queue migrate`",
)


def check(conn: psycopg.Connection[object], *, full: bool = False) -> list[Problem]:
    """Return all that is wrong with this database, reading only; nothing is the good answer.

    The quick form looks at the newest 10,000 ids of each live place and at the newest
    10,000 jobs of the last two weeks, `full` at all of history. Where a table is missing
    the jobs are not looked at. An autocommit connection reads in one REPEATABLE READ
    snapshot; otherwise the caller's transaction decides, and a stricter one is better.
    """
    with _snapshot(conn):
        found = _access(conn)
        if found:
            return found
        gaps = schema.tables(conn)
        found = [*migrations.problems(conn), *gaps, *schema.functions(conn)]
        found += [*schema.indexes(conn), *ledger.problems(conn), *partitions.problems(conn)]
        if not gaps:
            found += places.problems(conn, full=full)
        return found


def warnings(conn: psycopg.Connection[object]) -> list[Problem]:
    """Return what is not wrong yet: too few partitions ahead, one role for owner and services."""
    if _access(conn):
        return []
    return [*partitions.warnings(conn), *ledger.warnings(conn)]


def require_sound(conn: psycopg.Connection[object]) -> None:
    """Raise SchemaError, naming every problem and how to mend it, unless this code can run here.

    For the start of web and worker: migrations, tables, columns, functions and the ledger's
    triggers. Jobs, indexes and partitions are left to `check`: they are no reason to stay down.
    """
    found = _access(conn) or [
        *migrations.problems(conn),
        *schema.tables(conn),
        *schema.functions(conn),
        *ledger.problems(conn),
    ]
    _refuse(found)


def require_schema(conn: psycopg.Connection[object]) -> None:
    """Raise SchemaError unless the schema is there and is this code's; for those who only read."""
    _refuse(_access(conn) or migrations.problems(conn))


def is_foreign(conn: psycopg.Connection[object]) -> bool:
    """Say whether `check` cannot judge this database: no schema, no access, or one too new."""
    return bool(_access(conn)) or migrations.is_newer(conn)


def _refuse(found: list[Problem]) -> None:
    if found:
        listed = "\n".join(f"- {problem}" for problem in found)
        raise SchemaError(f"the database is not fit to run on:\n{listed}")


@dataclass(frozen=True, slots=True)
class _Access:
    role: str
    present: bool
    may_use: bool


ACCESS = """
SELECT CURRENT_USER::text AS role,
    to_regnamespace('countersign') IS NOT NULL AS present,
    COALESCE(has_schema_privilege(to_regnamespace('countersign')::oid, 'USAGE'), false) AS may_use
"""


def _access(conn: psycopg.Connection[object]) -> list[Problem]:
    (access,) = rows(conn, ACCESS, {}, _Access)
    if not access.present:
        return [BARE]
    if not access.may_use:
        return [
            Problem(
                "schema.missing",
                f"the role {access.role} may not use the schema countersign",
                f'run `GRANT countersign_runtime TO "{access.role}"` as a superuser, or as who '
                "migrated first and so made that role",
            )
        ]
    return []


@contextmanager
def _snapshot(conn: psycopg.Connection[object]) -> Generator[None]:
    """One snapshot for all statements, on a connection whose settings come back as they were."""
    if not conn.autocommit:
        yield
        return
    isolation, read_only = conn.isolation_level, conn.read_only
    conn.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    conn.read_only = True
    try:
        with conn.transaction():
            yield
    finally:
        conn.isolation_level, conn.read_only = isolation, read_only
