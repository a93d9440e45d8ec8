"""The weeks that jobs and ended are partitioned by, by the ids that belong to each."""

from dataclasses import dataclass
from typing import Final, LiteralString
from uuid import UUID

import psycopg

from queue_core.database import rows


@dataclass(frozen=True, slots=True)
class Week:
    """Ids from `low` to below `high`, and the attached tables that hold them."""

    low: UUID
    high: UUID
    jobs: str | None
    ended: str | None


_WEEKS: Final[LiteralString] = """
WITH part AS (
    SELECT parent.relname AS parent, pg_class.relname AS name,
        regexp_match(pg_get_expr(pg_class.relpartbound, pg_class.oid),
            'FROM \\(''([0-9a-f-]{36})''\\) TO \\(''([0-9a-f-]{36})''\\)')::uuid[] AS bounds
    FROM pg_catalog.pg_inherits
    JOIN pg_catalog.pg_class AS parent ON parent.oid = pg_inherits.inhparent
    JOIN pg_catalog.pg_class ON pg_class.oid = pg_inherits.inhrelid
    WHERE parent.oid IN (to_regclass('countersign.jobs'), to_regclass('countersign.ended'))
        AND NOT pg_inherits.inhdetachpending
),
week AS (
    SELECT part.bounds[1] AS low, part.bounds[2] AS high,
        max(part.name) FILTER (WHERE part.parent = 'jobs')::text AS jobs,
        max(part.name) FILTER (WHERE part.parent = 'ended')::text AS ended
    FROM part
    WHERE part.bounds[2] <= countersign.lowest_id(
        date_trunc('week', now(), 'UTC') - make_interval(hours => 168 * %(ago)s::integer)
    )
    GROUP BY part.bounds
)
SELECT week.low, week.high, week.jobs, week.ended
FROM week
"""
WEEKS = _WEEKS + "ORDER BY week.low"
EMPTY_WEEKS = (
    _WEEKS
    + """
WHERE NOT EXISTS (
        SELECT FROM countersign.jobs WHERE jobs.id >= week.low AND jobs.id < week.high
    )
    AND NOT EXISTS (
        SELECT FROM countersign.ended WHERE ended.id >= week.low AND ended.id < week.high
    )
ORDER BY week.low
"""
)


def weeks_over(
    conn: psycopg.Connection[object], *, ago: int = 1, empty: bool = False
) -> list[Week]:
    """Return the weeks that ended `ago` weeks before this one began or earlier, oldest first.

    With `empty` only those without a job. A partition that is being detached is none.
    """
    return rows(conn, EMPTY_WEEKS if empty else WEEKS, {"ago": ago}, Week)
