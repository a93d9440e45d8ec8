"""Migrations: the files of `migrations/` applied once each, in order, one boot at a time."""

import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

import psycopg

from queue_core.database import first_line, try_lock, unlock, value
from queue_core.errors import SchemaError
from queue_core.poolers import is_pooled
from queue_core.queries.migrations import Migration, known, missing

POOLED: Final = (
    "migrations need a session of their own, and a pooler shares it with others: let "
    "QUEUE_OWNER_URL lead straight to Postgres"
)
LOCK_KEY: Final = 0x636F756E746572
"""The advisory lock of whoever migrates: `counter` in bytes."""
POLL_SECONDS: Final = 0.1
LONGEST_WAIT_SECONDS: Final = 120.0
LOCK_TRIES: Final = 10
OLDEST_SERVER: Final = 140_000


def migrate(conn: psycopg.Connection[object]) -> list[str]:
    """Apply what this database lacks and return the names applied; safe to repeat and to race.

    `conn` must be in autocommit and belong to the owner. One process migrates at a
    time; the others wait for it, at most two minutes. Raises SchemaError where an
    applied file was edited, the database is newer than this code, its server is older than
    Postgres 14 or its encoding another than UTF8, or the role may not.
    """
    if not conn.autocommit:
        message = "migrate needs a connection in autocommit: each file is a transaction"
        raise SchemaError(message)
    _require_fit(conn)
    try:
        with _alone(conn):
            pending = missing(conn)
            for migration in pending:
                _apply(conn, migration)
            make_partitions(conn)
    except psycopg.errors.InsufficientPrivilege as error:
        message = f"this role may not migrate ({first_line(error)}); {WHAT_IT_TAKES}"
        raise SchemaError(message) from None
    return [migration.name for migration in pending]


def _require_fit(conn: psycopg.Connection[object]) -> None:
    """Refuse a database that would take the schema and then not what is to be kept in it."""
    if conn.info.server_version < OLDEST_SERVER:
        raise SchemaError(
            f"this server is Postgres {conn.info.server_version // 10_000}: 14 is needed"
        )
    encoding = conn.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise SchemaError(
            f"this database keeps text as {encoding}: make one with ENCODING 'UTF8' and "
            "TEMPLATE template0"
        )


WHAT_IT_TAKES: Final = (
    "it needs CREATE on this database, and either CREATEROLE or the roles countersign_owner and "
    "countersign_runtime made beforehand, with countersign_owner granted to it"
)
# Whoever migrates or starts a console would rather go on than stand in a queue for a lock.
MAKE_PARTITIONS = """
WITH patience AS (
    SELECT set_config('lock_timeout', '5s', true)
)
SELECT countersign.make_partitions() AS made
FROM patience
"""


def make_partitions(conn: psycopg.Connection[object]) -> int:
    """Make the weekly partitions that are missing up to 16 weeks ahead; returns how many.

    Any service may. Raises SchemaError where this role may not, or others hold the tables
    for longer than 5 s.
    """
    try:
        return int(str(value(conn, MAKE_PARTITIONS, {})))
    except (psycopg.errors.InsufficientPrivilege, psycopg.errors.LockNotAvailable) as error:
        message = f"partitions for the weeks ahead could not be made: {first_line(error)}"
        raise SchemaError(message) from None


def as_sql() -> str:
    """Return all migrations as one psql script, each file a transaction that records itself."""
    return "\n".join(
        f"BEGIN;\n{migration.text.rstrip()}\n{_record(migration)}\nCOMMIT;\n"
        for migration in known()
    )


def _apply(conn: psycopg.Connection[object], migration: Migration) -> None:
    """Run one file, waiting out the locks of a busy queue: each try gives up after 5 s."""
    for tries_left in reversed(range(LOCK_TRIES)):
        try:
            with conn.transaction():
                conn.execute(migration.text.encode())
                conn.execute(_record(migration).encode())
        except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
            if not tries_left:
                message = f"migration {migration.name} could not get its locks; run it again"
                raise SchemaError(message) from None
            time.sleep(POLL_SECONDS)
        else:
            return


def _record(migration: Migration) -> str:
    return (
        "INSERT INTO countersign.migrations (number, name, sha256) "
        f"VALUES ({migration.number}, '{migration.name}', '{migration.sha256}');"
    )


@contextmanager
def _alone(conn: psycopg.Connection[object]) -> Generator[None]:
    if is_pooled(conn):
        raise SchemaError(POOLED)
    # By polling: a call that waits for the lock would hold a snapshot all the while, and an
    # index built concurrently by the one who has the lock waits for every snapshot.
    give_up = time.monotonic() + LONGEST_WAIT_SECONDS
    while not try_lock(conn, LOCK_KEY):
        if time.monotonic() > give_up:
            message = "another process has been migrating for two minutes; see what holds it up"
            raise SchemaError(message)
        time.sleep(POLL_SECONDS)
    try:
        yield
    finally:
        unlock(conn, LOCK_KEY)
