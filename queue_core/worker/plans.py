"""Which plans a clerk's statements get: a claim's are kept, as each would take milliseconds."""

from typing import Final, LiteralString

from queue_core.database import execute
from queue_core.poolers import is_pooled
from queue_core.worker.requests import Connection

KEEP: Final = """
SELECT set_config('plan_cache_mode', 'force_generic_plan', FALSE),
    set_config('enable_seqscan', 'off', FALSE), set_config('enable_bitmapscan', 'off', FALSE),
    set_config('enable_sort', 'off', FALSE)
"""
ANEW: Final = """
SELECT set_config('plan_cache_mode', 'force_custom_plan', FALSE),
    set_config('enable_seqscan', 'on', FALSE), set_config('enable_bitmapscan', 'on', FALSE),
    set_config('enable_sort', 'on', FALSE)
"""


class Plans:
    """For the clerk's thread. A connection begins with plans that are made anew (`link.BUSY`).

    The plan of a claim may have been made of empty tables: it walks the index all the same. That
    of a finish might compare each run with each report. Behind a pooler no plan is kept.
    """

    def __init__(self) -> None:
        self._conn: Connection | None = None
        self._are_kept: bool | None = False
        self._is_pooled = False

    def keep(self, conn: Connection) -> None:
        """Have the plans of what comes next kept."""
        self._choose(conn, KEEP, kept=True)

    def make_anew(self, conn: Connection) -> None:
        """Have what comes next planned for the rows that there are."""
        self._choose(conn, ANEW, kept=False)

    def forget(self) -> None:
        """Note that a rollback may have undone the choice."""
        self._are_kept = None

    def _choose(self, conn: Connection, statement: LiteralString, *, kept: bool) -> None:
        if conn is not self._conn:
            self._conn, self._are_kept = conn, False
            self._is_pooled = is_pooled(conn)
        if self._are_kept is not kept and not self._is_pooled:
            execute(conn, statement, {})
            self._are_kept = kept
