"""Proves that schema and ledger are sound and that every job stands in exactly one place."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

import psycopg
from psycopg import pq
from psycopg.rows import dict_row

from queue_core.check import (
    chain,
    ledger,
    migrations,
    partitions,
    places,
    schema,
    sealed,
    shape,
    tallies,
    unsealed,
)
from queue_core.check.problem import Problem
from queue_core.database import execute, fetch, rows
from queue_core.errors import SchemaError
from queue_core.queries.seals import Head

__all__ = ["Problem", "check", "is_foreign", "require_schema", "require_sound", "warnings"]

BARE: Final = Problem(
    "schema.missing",
    "this database has no schema countersign",
    "run `flask queue migrate`",
)


def check(
    conn: psycopg.Connection[object], *, full: bool = False, heads: Sequence[Head] = ()
) -> list[Problem]:
    """Return all that is wrong with this database, reading only; nothing is the good answer.

    The quick form looks at the newest 10,000 ids of each live place, at the newest 10,000
    jobs of the last two weeks and at the newest 20 seals, `full` at all of history. `heads`
    are seals as they were kept outside. Where a table or a right is missing jobs and seals
    are not looked at. An autocommit connection reads in one REPEATABLE READ snapshot; otherwise the
    caller's transaction decides, and a stricter one is better.
    """
    with _snapshot(conn, held=True):
        found = _access(conn)
        if found:
            return found
        gaps = schema.tables(conn)
        functions = schema.functions(conn)
        shaped = shape.problems(conn, ledger_alone=False)
        found = [*migrations.problems(conn), *gaps, *functions, *shaped]
        gaps += [problem for problem in shaped if problem.code == "schema.missing"]
        found += [*schema.indexes(conn), *ledger.problems(conn), *partitions.problems(conn)]
        if not gaps:
            found += places.problems(conn, full=full)
        if full and not gaps:
            found += tallies.problems(conn)
        if not gaps and not functions:
            found += [*_ledger(conn, full=full), *chain.heads(conn, heads)]
        return found


def _ledger(conn: psycopg.Connection[object], *, full: bool) -> list[Problem]:
    """Return what is wrong with seals and acts; while seals are, no act is judged by them."""
    seen = chain.window(conn, full=full)
    if seen is None:
        return sealed.disordered(conn, [], full=full)
    differing = sealed.differing(conn, seen)
    found = [*chain.problems(conn, seen), *differing.values()]
    known = list(differing)
    if len(found) == len(known):
        found += [*sealed.strays(conn, seen, full=full), *sealed.misdated(conn, seen, known)]
    return [*found, *sealed.disordered(conn, known, full=full)]


def warnings(conn: psycopg.Connection[object]) -> list[Problem]:
    """Return what is not wrong yet, such as few partitions ahead, or acts that nobody seals."""
    with _snapshot(conn):
        if _access(conn):
            return []
        found = [*partitions.warnings(conn), *ledger.warnings(conn)]
        return found if schema.tables(conn) else [*found, *unsealed.warnings(conn)]


def require_sound(conn: psycopg.Connection[object]) -> None:
    """Raise SchemaError, naming every problem and how to mend it, unless this code can run here.

    For the start of web and worker: migrations, tables, columns, functions and the ledger's
    triggers. Jobs, indexes and partitions are left to `check`: they are no reason to stay down.
    """
    with _snapshot(conn):
        found = _unfit(conn)
    _refuse(found)


def _unfit(conn: psycopg.Connection[object]) -> list[Problem]:
    return _access(conn) or [
        *migrations.problems(conn),
        *schema.tables(conn),
        *schema.functions(conn),
        *shape.problems(conn, ledger_alone=True),
        *ledger.problems(conn),
    ]


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


INHERIT_IS_GRANTED: Final = 160_000
"""The first server on which inheriting is of a membership, no longer of a role."""


@dataclass(frozen=True, slots=True)
class _Access:
    role: str
    present: bool
    may_use: bool
    is_member: bool


ACCESS = """
SELECT CURRENT_USER::text AS role,
    to_regnamespace('countersign') IS NOT NULL AS present,
    COALESCE(has_schema_privilege(to_regnamespace('countersign')::oid, 'USAGE'), false) AS may_use,
    COALESCE(pg_has_role(to_regrole('countersign_runtime')::oid, 'MEMBER'), false) AS is_member
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
                f"run `{_grant(conn, access)}` as a superuser, or as who migrated first and so "
                "made the role countersign_runtime",
            )
        ]
    return []


def _grant(conn: psycopg.Connection[object], access: _Access) -> str:
    """Return what gives a role its rights: to a member that does not inherit them, the option."""
    if not access.is_member:
        return f'GRANT countersign_runtime TO "{access.role}"'
    if conn.info.server_version < INHERIT_IS_GRANTED:
        return f'ALTER ROLE "{access.role}" INHERIT'
    return f'GRANT countersign_runtime TO "{access.role}" WITH INHERIT TRUE'


@contextmanager
def _snapshot(conn: psycopg.Connection[object], *, held: bool = False) -> Generator[None]:
    """One snapshot for all statements, on a connection whose settings come back as they were.

    With `held` no week is emptied meanwhile.
    """
    idle = conn.info.transaction_status == pq.TransactionStatus.IDLE
    if not (conn.autocommit and idle):  # in a block of the caller's too, such as a page's reading
        with _plain(conn):
            yield
        return
    isolation, read_only = conn.isolation_level, conn.read_only
    conn.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    conn.read_only = True
    try:
        with conn.transaction():
            if held:
                _hold(conn)
            with _plain(conn):
                yield
    finally:
        conn.isolation_level, conn.read_only = isolation, read_only


HOLD = """
LOCK TABLE countersign.jobs, countersign.ended IN ACCESS SHARE MODE
"""


def _hold(conn: psycopg.Connection[object]) -> None:
    """Keep retention from emptying tables, which shows in older snapshots too.

    Before the first query: a lock takes no snapshot. Where a table is missing, or its lock
    cannot be had, the look goes on without.
    """
    with suppress(psycopg.Error), conn.transaction():
        execute(conn, HOLD, {})


SETTINGS = """
SELECT pg_catalog.current_setting('search_path') AS search_path,
    pg_catalog.current_setting('IntervalStyle') AS interval_style,
    pg_catalog.current_setting('quote_all_identifiers') AS quote_all
"""
SET = """
SELECT pg_catalog.set_config('search_path', %(search_path)s, true),
    pg_catalog.set_config('IntervalStyle', %(interval_style)s, true),
    pg_catalog.set_config('quote_all_identifiers', %(quote_all)s, true)
"""
PLAIN: Final = {
    "search_path": "pg_catalog, pg_temp",
    "interval_style": "postgres",
    "quote_all": "off",
}


@contextmanager
def _plain(conn: psycopg.Connection[object]) -> Generator[None]:
    """Take functions and operators from Postgres itself, whatever the role's search path holds.

    Definitions are printed alike, too. After an error the rollback takes it back.
    """
    (before,) = fetch(conn, SETTINGS, {}, dict_row)
    execute(conn, SET, dict[str, object](PLAIN))
    try:
        yield
    finally:
        if conn.info.transaction_status == pq.TransactionStatus.INTRANS:
            execute(conn, SET, before)
