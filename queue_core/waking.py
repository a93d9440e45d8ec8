"""Waking the workers that sleep, by whoever makes a job ready, in its own transaction."""

from typing import Final, LiteralString

import psycopg

from queue_core.database import value

SLEEP: Final[LiteralString] = "32488805071086962"
"""The advisory lock of a worker that sleeps: `sleeper` in bytes."""

TOLD: Final[LiteralString] = (
    """
    -- Held only for the moment: who sleeps has it exclusively, and then nobody here gets it.
    SELECT CASE
        WHEN pg_try_advisory_lock_shared("""
    + SLEEP
    + """)
            THEN pg_advisory_unlock_shared("""
    + SLEEP
    + """)
        ELSE pg_notify('countersign', '') IS NULL
    END AS told
"""
)
"""Wakes the workers that sleep, when the transaction commits."""


def wake(conn: psycopg.Connection[object]) -> None:
    """Wake the workers that sleep, when the caller's transaction commits."""
    value(conn, TOLD, {})
