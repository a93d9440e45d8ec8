"""Retention's thread: it may take its time, so that promotion and recovery need not wait for it."""

import threading
import time
from typing import Final

from queue_core.errors import DatabaseAwayError
from queue_core.poolers import is_pooled
from queue_core.retention import Keep, drop_weeks, may_drop, trim
from queue_core.worker import logs
from queue_core.worker.link import LOCKED, Link
from queue_core.worker.requests import Connection

PATIENT: Final = (
    "-c lock_timeout=500ms -c plan_cache_mode=force_custom_plan "
    "-c idle_in_transaction_session_timeout=5s"
)
TRIM_SECONDS: Final = 60.0
MORE_SECONDS: Final = 0.2
"""Between rounds while there is more to trim."""
WEEKS_SECONDS: Final = 3_600.0


class Retention(threading.Thread):
    """Trims once a minute and drops weeks once an hour, on a connection opened for each round."""

    def __init__(self, link: Link, keep: Keep) -> None:
        """Prepare the thread; `link` is the owner's where the worker has been given one."""
        super().__init__(name="countersign-retention", daemon=True)
        self._link = link
        self._keep = keep
        self._over = threading.Event()
        self._weeks_at = 0.0
        self._is_troubled = False
        self._told = False

    def run(self) -> None:
        """Go on until told to stop."""
        pause = 0.0
        while not self._over.wait(pause):
            pause = MORE_SECONDS if self._round() else TRIM_SECONDS
        self._link.close()

    def stop(self) -> None:
        """Begin no further round."""
        self._over.set()

    def _round(self) -> bool:
        """Do what is due; True where something went, since there may be more."""
        try:
            conn = self._link.open()
            if time.monotonic() >= self._weeks_at:
                self._drop_weeks(conn)
                self._weeks_at = time.monotonic() + WEEKS_SECONDS
            went = trim(conn, self._keep)
            self._link.worked()
            self._is_troubled = False
        except LOCKED:
            return False  # others are at it
        except DatabaseAwayError:
            return False
        except Exception as error:  # noqa: BLE001 - nothing depends on it; it is tried again
            self._link.failed(error)
            if not self._is_troubled:
                logs.warning("a chore failed", chore="retention", cause=logs.cause(error))
            self._is_troubled = True
            return False
        if not went:
            self._link.close()
        return went > 0

    def _drop_weeks(self, conn: Connection) -> None:
        pooled = is_pooled(conn)
        if may_drop(conn) and not pooled:
            for name in drop_weeks(conn, self._keep):
                logs.info("a week's table was dropped", table=name)
        elif not self._told:
            logs.warning(
                "weeks that are over keep their tables",
                why="a pooler is in the way" if pooled else "this worker's role does not own them",
                mend="give workers QUEUE_OWNER_URL, straight to Postgres",
            )
            self._told = True
