"""Poolers such as PgBouncer, behind which each transaction may get another session of the server.

What a session keeps from one transaction to the next is not there: prepared statements, settings,
locks that outlive a transaction.
"""

import re
from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Final

import psycopg
from psycopg import pq
from psycopg.rows import DictRow, scalar_row

_OPTION: Final = re.compile(r"-c\s*(\S+?)=(\S+)")
_REFUSED: Final = "unsupported startup parameter"

SESSION = """
SELECT pg_backend_pid()
"""


def is_pooled(conn: psycopg.Connection[object]) -> bool:
    """Say whether a pooler stands between: the session is another one than was promised."""
    with psycopg.Cursor(conn, row_factory=scalar_row) as cursor:
        return cursor.execute(SESSION).fetchone() != conn.info.backend_pid


def allow_for_pooler(conn: psycopg.Connection[object]) -> bool:
    """Prepare no statements where a pooler stands between; returns whether one does."""
    pooled = is_pooled(conn)
    if pooled:
        conn.prepare_threshold = None
    return pooled


def refuses_options(error: psycopg.Error) -> bool:
    """Say whether it was a pooler that would not pass on the settings of a session."""
    return _REFUSED in str(error)


SET = """
SELECT set_config(given.name, given.value, true)
FROM unnest(%(names)s::text[], %(values)s::text[]) AS given (name, value)
"""


class SettledConnection(psycopg.Connection[DictRow]):
    """A connection whose settings hold in each of its transactions, whichever session it gets."""

    _settings: Mapping[str, object] | None = None

    def settle(self, options: str) -> None:
        """Set `options`, such as `-c lock_timeout=200ms`, anew in each transaction."""
        found = _OPTION.findall(options)
        if found:
            names, values = zip(*found, strict=True)
            self._settings = {"names": [*names], "values": [*values]}

    @contextmanager
    def transaction(
        self,
        savepoint_name: str | None = None,
        force_rollback: bool = False,  # noqa: FBT001, FBT002 - psycopg's own
    ) -> Generator[psycopg.Transaction]:
        """Open a transaction or savepoint, as psycopg does."""
        begins = self._is_idle()
        with super().transaction(savepoint_name, force_rollback) as opened:
            if begins and self._settings is not None:
                with psycopg.Cursor(self) as cursor:
                    cursor.execute(SET, self._settings)
            yield opened

    def settled(self) -> AbstractContextManager[object]:
        """Return what a statement is to be run in, for the settings to hold."""
        if self._settings is None or not self.autocommit or not self._is_idle():
            return nullcontext()
        return self.transaction()

    def _is_idle(self) -> bool:
        return self.info.transaction_status == pq.TransactionStatus.IDLE


def settled(conn: psycopg.Connection[object]) -> AbstractContextManager[object]:
    """Return what a statement on any connection is to be run in."""
    return conn.settled() if isinstance(conn, SettledConnection) else nullcontext()
