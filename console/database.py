"""The console's connections: one for each request, out of a pool that each process opens itself."""

import os
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final, LiteralString, NamedTuple

import psycopg
from flask import Flask, current_app, g
from psycopg import IsolationLevel
from psycopg.rows import DictRow, dict_row
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from queue_core import check, database, embedded, poolers
from queue_core.errors import CountersignError, DatabaseAwayError, TookTooLongError
from queue_core.settings import Settings

Connection = psycopg.Connection[DictRow]

MOST_CONNECTIONS: Final = 16
"""No more than the threads of a gunicorn worker: a request takes one."""
PATIENCE_SECONDS: Final = 3.0
_KEY: Final = "countersign_connections"
_INHERITED: Final[list[object]] = []


class CommitUnansweredError(DatabaseAwayError):
    """The connection went while a change was being committed: it may stand or not."""


class NotWrittenError(CountersignError):
    """The database refused a change, or its act, as a whole; nothing was written."""


class Connections:
    """A pool for each process, opened by its first request and only once the schema is sound.

    A pool's threads and sockets do not survive a fork, so each process has to open its own.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._pool: ConnectionPool[Connection] | None = None
        self._pid = 0

    def take(self) -> "Loan":
        """Lend a connection in autocommit.

        Raises DatabaseAwayError, EmbeddedError, and SchemaError while the schema is unsound.
        """
        pool = self._opened()
        try:
            return Loan(pool, pool.getconn())
        except (PoolTimeout, PoolClosed):
            # Thrown away: its pause between tries has grown with the outage.
            self.forget(pool)
            message = f"{database.describe(self._url())} does not answer"
            raise DatabaseAwayError(message) from None

    def close(self) -> None:
        """Close the pool; the next request opens another."""
        if self._pool is not None and self._pid == os.getpid():
            self._pool.close()
            self._pool = None

    def forget(self, pool: ConnectionPool[Connection]) -> None:
        """Close a pool whose connections are of no use; the next request opens another."""
        with self._lock:
            if self._pool is pool:
                self._pool = None
        pool.close(timeout=0)

    def _opened(self) -> ConnectionPool[Connection]:
        with self._lock:
            if self._pool is not None and self._pid != os.getpid():
                _INHERITED.append(self._pool)  # collected, it would stop threads that are not here
                self._pool = None
            if self._pool is None:
                self._require_sound()
                self._pool = self._open()
                self._pid = os.getpid()
            return self._pool

    def _open(self) -> ConnectionPool[Connection]:
        kwargs = {
            "autocommit": True,
            "row_factory": dict_row,
            "application_name": "countersign console",
            "connect_timeout": 3,
            "client_encoding": "UTF8",
        }
        return ConnectionPool(
            self._url(),
            connection_class=Connection,
            kwargs=kwargs,
            min_size=1,
            max_size=MOST_CONNECTIONS,
            timeout=PATIENCE_SECONDS,
            configure=_allow_for_pooler,
            check=_require_answer,
            name="console",
            open=True,
        )

    def _require_sound(self) -> None:
        with database.connect(self._url(), name="countersign console") as conn:
            check.require_sound(conn)

    def _url(self) -> str:
        return self._settings.database_url or embedded.start(self._settings.data).url


def _allow_for_pooler(conn: Connection) -> None:
    poolers.allow_for_pooler(conn)


def _require_answer(conn: Connection) -> None:
    conn.execute("")


class Loan(NamedTuple):
    """A connection and the pool that it goes back to."""

    pool: ConnectionPool[Connection]
    conn: Connection


def init_app(app: Flask, settings: Settings) -> None:
    """Give `app` its connections, and take a request's back when it ends."""
    app.extensions[_KEY] = Connections(settings)
    app.teardown_appcontext(_give_back)


def connections(app: Flask) -> Connections:
    """Return the connections of `app`."""
    return app.extensions[_KEY]


@contextmanager
def session() -> Generator[Connection]:
    """Lend the request's connection in autocommit, for what keeps itself whole.

    Raises DatabaseAwayError where the database went away.
    """
    try:
        yield _connection()
    except psycopg.errors.ReadOnlySqlTransaction:
        raise _only_reads() from None
    except database.LOST_STATES as error:
        raise DatabaseAwayError(f"the database went away: {type(error).__name__}") from None


SNAPSHOT: Final[LiteralString] = """
SELECT set_config('statement_timeout', '3s', true)
"""


@contextmanager
def reading() -> Generator[Connection]:
    """Lend a snapshot that cannot be written to: all that a page shows is of one moment.

    Each statement has 3 seconds. Raises TookTooLongError, DatabaseAwayError.
    """
    conn = _connection()
    conn.isolation_level = IsolationLevel.REPEATABLE_READ
    conn.read_only = True
    try:
        with conn.transaction():
            conn.execute(SNAPSHOT)
            yield conn
    except psycopg.errors.QueryCanceled:
        raise TookTooLongError("reading took longer than 3 seconds") from None
    except database.LOST_STATES as error:
        raise DatabaseAwayError(f"the database went away: {type(error).__name__}") from None
    finally:
        _reset(conn)


@contextmanager
def part(conn: Connection) -> Generator[None]:
    """Let a part of a page fail alone: the snapshot outlives what took too long in it.

    Raises TookTooLongError.
    """
    try:
        with conn.transaction():
            yield
    except psycopg.errors.QueryCanceled:
        raise TookTooLongError("reading took longer than 3 seconds") from None


@contextmanager
def acting() -> Generator[Connection]:
    """Lend a transaction for one change with its act, committed at the end of the block.

    Raises NotWrittenError and DatabaseAwayError, after both of which nothing was written,
    and CommitUnansweredError, after which nobody knows.
    """
    conn = _connection()
    committing = False
    try:
        with conn.transaction():
            database.limit_waits(conn)
            yield conn
            committing = True
    except psycopg.errors.ReadOnlySqlTransaction:
        raise _only_reads() from None
    except psycopg.Error as error:
        what = f"{type(error).__name__} ({error.sqlstate or 'no state'})"
        if conn.broken and committing:
            raise CommitUnansweredError(f"the database went away during a commit: {what}") from None
        if conn.broken:
            raise DatabaseAwayError(f"the database went away: {what}") from None
        raise NotWrittenError(f"the database refused a change with its act: {what}") from None


def _connection() -> Connection:
    if "loan" not in g:
        g.loan = connections(current_app).take()
    return g.loan.conn


def _only_reads() -> DatabaseAwayError:
    """Leave the connections of a server that only reads by now: after a failover another writes."""
    loan: Loan = g.loan
    connections(current_app).forget(loan.pool)
    return DatabaseAwayError("this server only reads by now; the next request looks for another")


def _give_back(_: BaseException | None) -> None:
    loan: Loan | None = g.pop("loan", None)
    if loan is not None:
        loan.pool.putconn(loan.conn)


def _reset(conn: Connection) -> None:
    if not conn.broken:
        conn.isolation_level = None
        conn.read_only = None
