"""Two who each hold a job that the other waits for: whoever can begin anew gives way, unseen."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final, TypeVar

import psycopg

from queue_core.database import contention, transaction, value
from queue_core.errors import ContendedError

Made = TypeVar("Made")

TIMES: Final = 5
"""How often an act is begun before it counts as contended."""


class _CrossedError(Exception):
    """A job was waited for out of order, and for long enough."""


def whole(conn: psycopg.Connection[object], make: Callable[[], Made]) -> Made:
    """Make a change all or nothing, anew where somebody and it wait for each other.

    `make` locks jobs in the order of their ids, and those that slipped `out_of_order`. What it
    did is undone before it is called again, so that nobody is kept waiting meanwhile. Raises
    ContendedError, with nothing written, where it crosses others 5 times, for lock time-outs
    and in transactions stricter than READ COMMITTED.
    """
    with contention():
        for left in reversed(range(TIMES)):
            try:
                with transaction(conn):
                    require_read_committed(conn)
                    return make()
            except _CrossedError:
                continue
            except psycopg.errors.DeadlockDetected:
                if not left:
                    raise
    raise ContendedError("others and this act kept waiting for each other; nothing was written")


ISOLATION = """
SELECT current_setting('transaction_isolation')
"""


def require_read_committed(conn: psycopg.Connection[object]) -> None:
    """Raise ContendedError in a transaction that cannot see others' commits.

    Under REPEATABLE READ or SERIALIZABLE looking again shows the same old snapshot.
    """
    if value(conn, ISOLATION, {}) != "read committed":
        message = "acts need a READ COMMITTED transaction: a stricter one cannot look again"
        raise ContendedError(message)


# Longer than the 200 ms after which a worker gives way, much shorter than the second after which
# the database finds out that two wait for each other.
IMPATIENT = """
WITH before AS MATERIALIZED (
    SELECT current_setting('lock_timeout') AS patience
)
SELECT before.patience, set_config('lock_timeout', '300ms', true)
FROM before
"""
PATIENT = """
SELECT set_config('lock_timeout', %(patience)s, true)
"""


@contextmanager
def out_of_order(conn: psycopg.Connection[object]) -> Generator[None]:
    """Wait 300 ms at most in the block, inside `whole`: others may be waiting for what is held."""
    patience = value(conn, IMPATIENT, {})
    try:
        yield
    except psycopg.errors.LockNotAvailable:
        raise _CrossedError from None
    value(conn, PATIENT, {"patience": patience})
