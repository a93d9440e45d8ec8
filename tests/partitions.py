"""Fewer weeks: each plan, new connection and copy of a database pays for every partition."""

from typing import Any, Final

LATER: Final = """
SELECT pg_class.oid::regclass AS part
FROM pg_inherits
JOIN pg_class ON pg_class.oid = pg_inherits.inhrelid
WHERE pg_inherits.inhparent IN ('countersign.jobs'::regclass, 'countersign.ended'::regclass)
    AND right(pg_class.relname, 7) NOT IN (
        SELECT to_char(now() AT TIME ZONE 'UTC' + weeks * interval '7 days', 'IYYY"w"IW')
        FROM generate_series(-1, %s) AS weeks)
"""


def keep_weeks(owner: Any, ahead: int) -> None:
    """Drop the empty partitions of all weeks but the last one, this one and so many ahead."""
    for row in owner.execute(LATER, [ahead]).fetchall():
        part = row["part"] if isinstance(row, dict) else row[0]
        owner.execute(f"DROP TABLE {part}")
