"""A client with connections of its own, for callers that have no transaction to join."""

import os
import threading
import weakref
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from datetime import datetime
from types import TracebackType
from typing import Final, Self

import psycopg

from queue_core.database import LOST_STATES, connect
from queue_core.errors import DatabaseAwayError
from queue_core.jobs import Enqueued, NewJob
from queue_core.transitions.enqueue import enqueue, enqueue_many


class Client:
    """Enqueues on a connection of its own, each call its own commit.

    Opened at the first call and shared by the threads of the process, one call at a time;
    a forked process opens its own. A job enqueued so can outlive the caller's rollback.
    """

    def __init__(self, url: str) -> None:
        """Remember where the database is; nothing is opened yet."""
        self._url = url
        self._lock = threading.Lock()
        self._conn: psycopg.Connection[object] | None = None
        self._inherited: psycopg.Connection[object] | None = None
        _CLIENTS.add(self)

    def enqueue(
        self,
        job: str | Callable[..., object],
        args: Mapping[str, object] | None = None,
        *,
        queue: str | None = None,
        priority: int = 0,
        delay: float | None = None,
        run_at: datetime | None = None,
        attempts: int | None = None,
        time_limit: float | None = None,
    ) -> Enqueued:
        """Ask for one job and commit. Parameters and errors as for `queue_core.enqueue`.

        Raises DatabaseAwayError too; the job may then exist or not.
        """
        with self._connection() as conn:
            return enqueue(
                conn,
                job,
                args,
                queue=queue,
                priority=priority,
                delay=delay,
                run_at=run_at,
                attempts=attempts,
                time_limit=time_limit,
            )

    def enqueue_many(self, jobs: Iterable[NewJob]) -> list[Enqueued]:
        """Ask for many jobs, all or none, in one commit."""
        with self._connection() as conn:
            return enqueue_many(conn, jobs)

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
    def _connection(self) -> Generator[psycopg.Connection[object]]:
        with self._lock:
            conn = self._open()
            try:
                yield conn
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
