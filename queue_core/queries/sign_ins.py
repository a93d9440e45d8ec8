"""Sign-ins that failed of late: of which operator's code, and from where."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

import psycopg

from queue_core.database import rows

MOST: Final = 100
LATELY_SECONDS: Final = 86_400
"""Kept no longer than that: a later sign-in tidies up."""


@dataclass(frozen=True, slots=True)
class FailureRow:
    """Failures that a place counts: of one code, or of all together.

    `code` is an operator's, and None for what belongs to nobody, of which nothing is kept that
    could be read: people type passwords into the wrong field. `together` marks the row of all
    codes that were tried there, those that were right not counted.
    """

    code: str | None
    together: bool
    address: str
    failures: int
    last_at: datetime


FAILED_LATELY = """
WITH lately AS (
    SELECT sign_in_failures.code, sign_in_failures.address, sign_in_failures.failures,
        sign_in_failures.last_at
    FROM countersign.sign_in_failures
    WHERE sign_in_failures.last_at > now() - make_interval(secs => %(lately)s)
        AND sign_in_failures.failures > 0
    ORDER BY sign_in_failures.last_at DESC
    LIMIT %(most)s
)
SELECT operators.code, lately.code = '' AS together, lately.address, lately.failures,
    lately.last_at
FROM lately
LEFT JOIN countersign.operators
    ON encode(sha256(convert_to(operators.code, 'UTF8')), 'hex') = lately.code
ORDER BY lately.last_at DESC, lately.code DESC
"""


def failed_lately(conn: psycopg.Connection[object], most: int = MOST) -> list[FailureRow]:
    """Return the failures of the last day, those of the last place first."""
    return rows(conn, FAILED_LATELY, {"lately": LATELY_SECONDS, "most": most}, FailureRow)
