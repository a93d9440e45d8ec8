"""A client with connections of its own, for callers that have no transaction to join."""

import os
import threading
import weakref
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import wraps
from types import TracebackType
from typing import Concatenate, Final, ParamSpec, Self, TypeVar

import psycopg

from queue_core.database import LOST_STATES, TIMED_OUT_STATES, connect
from queue_core.errors import DatabaseAwayError, TookTooLongError
from queue_core.transitions.enqueue import enqueue, enqueue_many

Options = ParamSpec("Options")
Answer = TypeVar("Answer")


def _committed(
    verb: Callable[Concatenate[psycopg.Connection[object], Options], Answer],
) -> "Callable[Concatenate[Client, Options], Answer]":
    """Return `verb` as a method that runs it on the client's connection, and commits."""

    @wraps(verb)
    def method(self: "Client", *args: Options.args, **options: Options.kwargs) -> Answer:
        with self.connection() as conn:
            return verb(conn, *args, **options)

    return method


class Client:
    """Enqueues on a connection of its own, each call its own commit.

    Opened at the first call and shared by the threads of the process, one call at a time;
    a forked process opens its own. A job enqueued so can outlive the caller's rollback.
    `enqueue` and `enqueue_many` take what `queue_core.enqueue` and `enqueue_many` take after
    the connection, and raise the same errors; and TookTooLongError where the database's own
    limit ended the statement, and DatabaseAwayError, after which the job may exist or not.
    """

    enqueue = _committed(enqueue)
    enqueue_many = _committed(enqueue_many)

    def __init__(self, url: str) -> None:
        """Remember where the database is; nothing is opened yet."""
        self._url = url
        self._lock = threading.Lock()
        self._conn: psycopg.Connection[object] | None = None
        self._inherited: psycopg.Connection[object] | None = None
        _CLIENTS.add(self)

    def close(self) -> None:
        """Close the connection; the next call opens a new one."""
        with self._lock:
            self._close()

    def __enter__(self) -> Self:
        """Return the client, to be closed at the end of the block."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the connection."""
        self.close()

    @contextmanager
    def connection(self) -> Generator[psycopg.Connection[object]]:
        """Lend the connection, in autocommit, to one call at a time."""
        with self._lock:
            conn = self._open()
            try:
                yield conn
            except TIMED_OUT_STATES:
                message = (
                    "the database ended the statement: it took too long, and nothing was written"
                )
                raise TookTooLongError(message) from None
            except LOST_STATES:
                self._close()
                message = "the database went away; whether the job exists is not known"
                raise DatabaseAwayError(message) from None

    def begin_anew(self) -> None:
        """Leave the parent its connection: run by itself in a forked process."""
        # Kept, since its socket is shared: it is neither used nor closed here. A thread of the
        # parent may have held the lock, and does not exist here to let go of it.
        self._inherited, self._conn = self._conn, None
        self._lock = threading.Lock()

    def _open(self) -> psycopg.Connection[object]:
        if self._conn is None or self._conn.closed:
            self._conn = connect(self._url, name="countersign client")
        return self._conn

    def _close(self) -> None:
        if self._conn is not None:
            self._conn.close()
        self._conn = None


_CLIENTS: Final[weakref.WeakSet[Client]] = weakref.WeakSet()


def _after_fork() -> None:
    for client in list(_CLIENTS):
        client.begin_anew()


os.register_at_fork(after_in_child=_after_fork)
