"""A worker's sleep: whoever enqueues a job for now wakes it, and only while it sleeps.

Commits that notify queue up behind one lock of the server's, so nobody is told while all work.
"""

from typing import Final

from queue_core.clauses import SLEEP
from queue_core.database import execute, try_lock, unlock
from queue_core.poolers import is_pooled
from queue_core.worker.requests import Connection

KEY: Final = int(SLEEP)
LISTEN: Final = "LISTEN countersign"


WAKE = (
    """
SELECT CASE
    WHEN pg_try_advisory_lock_shared("""
    + SLEEP
    + """)
        THEN pg_advisory_unlock_shared("""
    + SLEEP
    + """)
    ELSE pg_notify('countersign', '') IS NULL
END
"""
)


def wake(conn: Connection) -> None:
    """Wake the workers that sleep, for jobs that are ready now and were not enqueued so."""
    execute(conn, WAKE, {})


class Sleep:
    """For the clerk's thread. Of several that sleep one holds the lock, and all are woken.

    Behind a pooler nobody can listen, and a lock would stay with somebody else's session.
    """

    def __init__(self) -> None:
        self._conn: Connection | None = None
        self._is_pooled = False
        self._is_shown = False
        self._is_over = False

    def fall(self, conn: Connection) -> None:
        """Have ourselves woken from now on; who has not yet seen that we sleep wakes nobody."""
        self._is_over = False
        if conn is not self._conn:
            self._is_shown = False
            self._is_pooled = is_pooled(conn)
            if not self._is_pooled:
                execute(conn, LISTEN, {})
            self._conn = conn
        if not (self._is_shown or self._is_pooled):
            self._is_shown = try_lock(conn, KEY)

    def end(self) -> None:
        """Note that there is work; others are told with the next `heard`."""
        self._is_over = True

    def heard(self) -> bool:
        """Say whether somebody woke us since the last time. Raises where the connection is lost."""
        conn = self._conn
        if conn is None or conn.closed:
            self._conn = None
            return False
        if self._is_over and self._is_shown:
            unlock(conn, KEY)
            self._is_shown = False
        return not self._is_pooled and len([*conn.notifies(timeout=0)]) > 0

    def is_heard(self) -> bool:
        """Say whether we listen, so that we hear of jobs that are enqueued for now."""
        return self._conn is not None and not self._is_pooled and not self._conn.closed

    def line(self) -> int | None:
        """Return the file that can be read when we are woken."""
        return None if self._conn is None or self._conn.closed else self._conn.fileno()
