"""Connections to Postgres: how they are opened, and what their failures are called."""

import re
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import Final, LiteralString, TypeVar

import psycopg
from psycopg import conninfo, pq
from psycopg.rows import BaseRowFactory, class_row, dict_row, scalar_row

from queue_core.errors import ContendedError, DatabaseAwayError
from queue_core.poolers import SettledConnection, allow_for_pooler, refuses_options, settled

Row = TypeVar("Row")
AnyConnection = psycopg.Connection[object]
"""A caller's connection: any row factory, autocommit or not."""

CONNECT_SECONDS: Final = 10
_PORTS: Final = re.compile(r"[0-9, ]*")
DRIVER_STATES: Final = (psycopg.Error,)
TIMED_OUT_STATES: Final = (psycopg.errors.QueryCanceled,)
LOST_STATES: Final = (psycopg.OperationalError, psycopg.InterfaceError)
"""Those of locks and time-outs are among them, on a connection that lives: look for them first."""
LOCK_STATES: Final = (
    psycopg.errors.LockNotAvailable,
    psycopg.errors.DeadlockDetected,
    psycopg.errors.SerializationFailure,
)


def connect(url: str, *, name: str, options: str = "") -> SettledConnection:
    """Open an autocommit connection whose rows are dicts; `name` is its application name.

    `options` are server settings such as `-c lock_timeout=200ms`; through a pooler they hold in
    each transaction, and no statement is prepared. Raises DatabaseAwayError with a text that
    holds neither password nor arguments.
    """
    try:
        try:
            conn = _connect(url, name, options)
        except psycopg.OperationalError as error:
            if not (options and refuses_options(error)):
                raise
            conn = _connect(url, name, "")
        if allow_for_pooler(conn):
            conn.settle(options)
    except psycopg.ProgrammingError:
        # The parser's own text repeats the URL, password and all.
        message = (
            "the database's URL cannot be read: write postgresql://user@host/database, "
            "and @ and / in a password as %40 and %2F"
        )
        raise DatabaseAwayError(message) from None
    except psycopg.Error as error:
        message = f"cannot reach {describe(url)}: {first_line(error)}"
        raise DatabaseAwayError(message) from None
    return conn


def _connect(url: str, name: str, options: str) -> SettledConnection:
    return SettledConnection.connect(
        conninfo.make_conninfo(url, **_extras(url, options)),
        autocommit=True,
        row_factory=dict_row,
        application_name=name,
        connect_timeout=CONNECT_SECONDS,
        client_encoding="UTF8",  # whatever PGCLIENTENCODING says: errors hold any character
    )


def describe(url: str) -> str:
    """Name the database, host and port of `url` for a person, never its password."""
    try:
        parts = _parts(url)
    except psycopg.Error:
        return "the database (its URL cannot be read)"
    host = parts.get("host") or parts.get("hostaddr") or "the local socket"
    port = str(parts.get("port") or "").strip(",")
    said = f"{host}, port {port}" if port else host
    return f"database {parts.get('dbname') or '(default)'} on {said}"


def first_line(error: BaseException) -> str:
    """Return the first line of the driver's error: the later ones can repeat values."""
    lines = str(error).strip().splitlines()
    return lines[0].strip() if lines else type(error).__name__


def rows(
    conn: psycopg.Connection[object],
    statement: LiteralString,
    parameters: Mapping[str, object],
    shape: type[Row],
    *,
    prepare: bool | None = None,
) -> list[Row]:
    """Run `statement` and return its rows as `shape`, whatever the connection's row factory.

    `prepare=False` has it planned anew each time, for these parameters.

    On a connection without autocommit this opens the caller's transaction, as any
    statement does, and never commits it.
    """
    return fetch(conn, statement, parameters, class_row(shape), prepare=prepare)


def fetch(
    conn: psycopg.Connection[object],
    statement: LiteralString,
    parameters: Mapping[str, object],
    factory: BaseRowFactory[Row],
    *,
    prepare: bool | None = None,
) -> list[Row]:
    """Run `statement` and return its rows as `factory` makes them."""
    with _told_in_a_line(), settled(conn), psycopg.Cursor(conn, row_factory=factory) as cursor:
        return cursor.execute(statement, parameters, prepare=prepare).fetchall()


def value(
    conn: psycopg.Connection[object], statement: LiteralString, parameters: Mapping[str, object]
) -> object:
    """Run `statement` and return the first column of its first row, or None without a row."""
    with _told_in_a_line(), settled(conn), psycopg.Cursor(conn, row_factory=scalar_row) as cursor:
        return cursor.execute(statement, parameters).fetchone()


def execute(
    conn: psycopg.Connection[object], statement: LiteralString, parameters: Mapping[str, object]
) -> int:
    """Run `statement` and return how many rows it touched."""
    with _told_in_a_line(), settled(conn), psycopg.Cursor(conn) as cursor:
        return cursor.execute(statement, parameters).rowcount


def copy_in(
    conn: psycopg.Connection[object], statement: LiteralString, texts: Iterable[str]
) -> None:
    """Run a COPY from standard input, of rows as text."""
    with (
        _told_in_a_line(),
        settled(conn),
        psycopg.Cursor(conn) as cursor,
        cursor.copy(statement) as copy,
    ):
        for text in texts:
            copy.write(text)


TRY_LOCK = """
SELECT pg_try_advisory_lock(%(key)s) AS got
"""


def try_lock(conn: psycopg.Connection[object], key: int) -> bool:
    """Take the session's advisory lock of that number, unless somebody else has it."""
    return bool(value(conn, TRY_LOCK, {"key": key}))


UNLOCK = """
SELECT pg_advisory_unlock(%(key)s)
"""


def unlock(conn: psycopg.Connection[object], key: int) -> None:
    """Let go of it; a connection that is gone has."""
    if not conn.closed:
        execute(conn, UNLOCK, {"key": key})


@contextmanager
def _told_in_a_line() -> Generator[None]:
    """Let the driver's errors pass with the first line of their text alone.

    The server's details and context can repeat rows and parameters, arguments among them.
    """
    try:
        yield
    except psycopg.Error as error:
        error.args = (first_line(error),)
        raise


@contextmanager
def transaction(conn: psycopg.Connection[object]) -> Generator[None]:
    """Make the block all or nothing without ever committing the caller's transaction.

    In autocommit it is a transaction of its own; otherwise a savepoint inside the
    caller's, which is opened first: psycopg would commit one that it had to open itself.
    """
    if not conn.autocommit and conn.info.transaction_status == pq.TransactionStatus.IDLE:
        with psycopg.Cursor(conn) as cursor:
            cursor.execute("SELECT")
    with conn.transaction():
        yield


LIMITS = """
SELECT set_config('lock_timeout', '400ms', true), set_config('statement_timeout', '20s', true)
"""


def limit_waits(conn: psycopg.Connection[object]) -> None:
    """Let a person's transaction wait 0.4 s for what others hold, 20 s for each statement."""
    execute(conn, LIMITS, {})


@contextmanager
def contention() -> Generator[None]:
    """Turn lock time-outs, deadlocks and serialization failures into ContendedError."""
    try:
        yield
    except LOCK_STATES:
        message = "others are changing the same jobs; nothing was written, so try again"
        raise ContendedError(message) from None


def _parts(url: str) -> Mapping[str, object]:
    """Take a URL apart. Raises psycopg.ProgrammingError where it cannot be read.

    A slash in a password tears it: what follows would be taken for the database's name. A
    password whose host was forgotten stands where a port would, and libpq would repeat it.
    """
    parts = conninfo.conninfo_to_dict(url)
    if not _PORTS.fullmatch(str(parts.get("port") or "")):
        raise psycopg.ProgrammingError
    if "://" in url and any("@" in str(parts.get(part)) for part in ("host", "dbname")):
        raise psycopg.ProgrammingError
    return parts


def _extras(url: str, options: str) -> dict[str, str]:
    given = str(_parts(url).get("options") or "")
    both = f"{given} {options}".strip()
    return {"options": both} if both else {}
