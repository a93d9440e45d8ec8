"""The database's clock, which everything across machines is timed by."""

from datetime import datetime
from typing import cast

import psycopg

from queue_core.database import value

NOW = """
SELECT clock_timestamp()
"""


def now(conn: psycopg.Connection[object]) -> datetime:
    """Return the time on the database's clock, at this moment and not as the transaction began."""
    return cast("datetime", value(conn, NOW, {}))
