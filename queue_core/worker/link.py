"""A worker's connection to the database, which comes back after it was lost."""

import random
import time
from contextlib import suppress
from typing import Final

import psycopg
from psycopg import conninfo

from queue_core.database import LOCK_STATES, connect
from queue_core.errors import ContendedError, DatabaseAwayError

APPLICATION: Final = "countersign worker"
BUSY: Final = (
    "-c plan_cache_mode=force_custom_plan "
    "-c idle_in_transaction_session_timeout=5s -c lock_timeout=200ms"
)
"""Plans are made anew each time, since those of empty tables are wrong for full ones; and the
worker's patience with locks ends before a deadlock is looked for, so that operators win."""
FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 10.0
_NOTICE_DEAD_PEERS: Final = {
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "15000",
}
_GONE: Final = frozenset({"25006", "57P01", "57P02", "57P03", "57P05", "25P03"})
"""The session ended or turned read-only (a failover): another connection may find better."""
_BAD_VALUE: Final = frozenset({"22", "23", "54"})

LOCKED: Final = (*LOCK_STATES, ContendedError)
"""Others hold what the statement needs: nothing was written, and it is worth another try."""


class Link:
    """One connection: opened when it is needed, dropped when it is lost, with growing pauses.

    For one thread. `longest_pause` is in seconds, as everything here.
    """

    def __init__(self, url: str, options: str, *, longest_pause: float = LONGEST_PAUSE) -> None:
        given = conninfo.conninfo_to_dict(url)
        self._url = conninfo.make_conninfo(
            url, **{key: value for key, value in _NOTICE_DEAD_PEERS.items() if key not in given}
        )
        self._options = options
        self._longest = longest_pause
        self._pause = 0.0
        self._not_before = 0.0
        self._conn: psycopg.Connection[dict[str, object]] | None = None

    def open(self) -> psycopg.Connection[dict[str, object]]:
        """Return the connection, opening it if there is none. Raises DatabaseAwayError.

        While a pause lasts it raises at once, without knocking.
        """
        if self._conn is not None:
            return self._conn
        if time.monotonic() < self._not_before:
            raise DatabaseAwayError("the database is away")
        try:
            self._conn = connect(self._url, name=APPLICATION, options=self._options)
        except DatabaseAwayError:
            self._back_off()
            raise
        return self._conn

    def worked(self) -> None:
        """Note that the database did what it was asked: the next pause is a short one again."""
        self._pause = 0.0

    def is_lost(self, error: BaseException) -> bool:
        """Say whether the connection was lost with this error."""
        if self._conn is None:
            return False
        return _is_gone(error) or self._conn.broken or self._conn.closed

    def failed(self, error: BaseException) -> bool:
        """Note an error of a statement; True where the connection was lost with it."""
        if not self.is_lost(error):
            return False
        self.close()
        self._back_off()
        return True

    def close(self) -> None:
        """Close the connection; the next use opens another."""
        if self._conn is not None:
            with suppress(psycopg.Error):
                self._conn.close()
        self._conn = None

    def wait_seconds(self) -> float:
        """Return how long the pause still lasts."""
        return max(0.0, self._not_before - time.monotonic())

    def _back_off(self) -> None:
        self._pause = min(max(self._pause * 2, FIRST_PAUSE), self._longest)
        spread = random.uniform(0.5, 1.0)  # noqa: S311 - parts a crowd, guards nothing
        self._not_before = time.monotonic() + self._pause * spread


def is_bad_value(error: BaseException) -> bool:
    """Say whether a statement failed because of a value in it, so that it always will."""
    if isinstance(error, UnicodeError):
        return True
    if not isinstance(error, psycopg.Error):
        return False
    if error.sqlstate is None:  # refused by the driver before it was sent
        return isinstance(error, psycopg.DataError)
    return error.sqlstate[:2] in _BAD_VALUE


def _is_gone(error: BaseException) -> bool:
    if not isinstance(error, psycopg.Error):
        return False
    return error.sqlstate in _GONE or (error.sqlstate or "").startswith("08")
