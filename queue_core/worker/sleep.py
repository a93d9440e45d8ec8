"""A worker's sleep: whoever enqueues a job for now wakes it, and only while it sleeps.

Commits that notify queue up behind one lock of the server's, so nobody is told while all work.
"""

import time
from typing import Final

from queue_core.database import execute, try_lock, unlock
from queue_core.poolers import is_pooled
from queue_core.waking import SLEEP
from queue_core.worker.requests import Connection

KEY: Final = int(SLEEP)
LISTEN: Final = "LISTEN countersign"
NAP_SECONDS: Final = 0.1
"""How long who was woken in vain over and over is not shown to sleep: so long nobody is held up."""
IN_VAIN: Final = 3
"""Times woken for jobs that were for others, each within a second of the last, before a nap."""


class Sleep:
    """For the clerk's thread. Of several that sleep one holds the lock, and all are woken.

    Behind a pooler nobody can listen, and a lock would stay with somebody else's session.
    """

    def __init__(self) -> None:
        self._conn: Connection | None = None
        self._is_pooled = False
        self._is_shown = False
        self._is_over = False
        self._woken = 0
        self._woken_at = 0.0
        self._nap_until = 0.0

    def fall(self, conn: Connection) -> None:
        """Have ourselves woken from now on; who has not yet seen that we sleep wakes nobody."""
        self._is_over = False
        if conn is not self._conn:
            self._is_shown = False
            self._is_pooled = is_pooled(conn)
            if not self._is_pooled:
                execute(conn, LISTEN, {})
            self._conn = conn
        naps = time.monotonic() < self._nap_until
        if not (self._is_shown or self._is_pooled or naps):
            self._is_shown = try_lock(conn, KEY)

    def end(self) -> None:
        """Note that there is work; others are told with the next `heard`."""
        self._is_over = True
        self._woken = 0

    def nap_if_disturbed(self) -> bool:
        """Stop being shown for a moment if we are woken over and over for the jobs of others.

        Each commit that wakes us waits for all others that do. Says whether it is so.
        """
        now = time.monotonic()
        is_new = self._woken_at > self._nap_until
        if self._woken < IN_VAIN or not is_new or now > self._woken_at + 1:
            return False
        self._nap_until = now + NAP_SECONDS
        self._is_over = True
        return True

    def heard(self) -> bool:
        """Say whether somebody woke us since the last time. Raises where the connection is lost."""
        conn = self._conn
        if conn is None or conn.closed:
            self._conn = None
            return False
        if self._is_over and self._is_shown:
            unlock(conn, KEY)
            self._is_shown = False
        if self._is_pooled or not [*conn.notifies(timeout=0)]:
            return False
        now = time.monotonic()
        self._woken = self._woken + 1 if now < self._woken_at + 1 else 1
        self._woken_at = now
        return True

    def is_heard(self) -> bool:
        """Say whether we listen, so that we hear of jobs that are enqueued for now."""
        return self._conn is not None and not self._is_pooled and not self._conn.closed

    def line(self) -> int | None:
        """Return the file that can be read when we are woken."""
        return None if self._conn is None or self._conn.closed else self._conn.fileno()
