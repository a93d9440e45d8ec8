"""Seals: acts that are settled, hashed and chained, so that a later change to one shows."""

import psycopg

from queue_core.crossings import require_read_committed
from queue_core.database import value

SEAL = """
INSERT INTO countersign.seals DEFAULT VALUES
RETURNING seals.count
"""


def seal(conn: psycopg.Connection[object]) -> int:
    """Seal the next acts whose transactions are over; returns how many. Never commits.

    Call it until it returns 0. That also says that nothing can be sealed yet, since an
    older transaction still goes on, or that another sealer is at work. On a database that
    was restored from a dump or copied, the first seal is a rebase: it takes all that is
    unsealed, and raises psycopg's LockNotAvailable while somebody is adding acts. Raises
    ContendedError in transactions stricter than READ COMMITTED.
    """
    require_read_committed(conn)
    return int(str(value(conn, SEAL, {}) or 0))
