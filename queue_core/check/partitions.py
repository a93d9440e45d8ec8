"""Whether the weekly partitions of jobs and ended are there, this week's and those to come."""

from dataclasses import dataclass
from typing import Final

import psycopg

from queue_core.check.problem import Problem
from queue_core.database import rows
from queue_core.queries.weeks import weeks_over

NEEDED_WEEKS: Final = 1
"""This week's partition and so many more: without them nothing can be enqueued."""
COMFORTABLE_WEEKS: Final = 4
LONG_OVER_WEEKS: Final = 3
"""Retention drops an empty week a week after its end, unless nobody who may is at it."""


@dataclass(frozen=True, slots=True)
class _Gap:
    parent: str
    part: str
    exists: bool


# In hours, since a week of days is 167 or 169 of them where the session's zone changes its clocks.
GAPS = """
SELECT parent.name AS parent, part.name AS part, pg_class.oid IS NOT NULL AS exists
FROM unnest(ARRAY['jobs', 'ended']) AS parent (name)
CROSS JOIN generate_series(%(first)s::integer, %(last)s::integer) AS week (number)
CROSS JOIN LATERAL (
    SELECT parent.name || to_char(
        (date_trunc('week', now(), 'UTC') + make_interval(hours => 168 * week.number))
            AT TIME ZONE 'UTC',
        '_IYYY"w"IW'
    ) AS name
) AS part
LEFT JOIN pg_catalog.pg_class ON pg_class.relname = part.name
    AND pg_class.relnamespace = to_regnamespace('countersign')
WHERE NOT EXISTS (
    SELECT FROM pg_catalog.pg_inherits
    WHERE pg_inherits.inhrelid = pg_class.oid
        AND pg_inherits.inhparent = to_regclass('countersign.' || parent.name)
        AND NOT pg_inherits.inhdetachpending
)
ORDER BY week.number, parent.name
"""


def problems(conn: psycopg.Connection[object]) -> list[Problem]:
    """Return a problem for each partition that this week or the next cannot do without."""
    found = rows(conn, GAPS, {"first": 0, "last": NEEDED_WEEKS}, _Gap)
    return [_problem(gap) for gap in found]


def warnings(conn: psycopg.Connection[object]) -> list[Problem]:
    """Return warnings where fewer than four weeks are prepared, or empty ones of long ago stand."""
    return [*_too_few(conn), *_kept(conn)]


def _too_few(conn: psycopg.Connection[object]) -> list[Problem]:
    weeks = {"first": NEEDED_WEEKS + 1, "last": COMFORTABLE_WEEKS}
    found = rows(conn, GAPS, dict[str, object](weeks), _Gap)
    if not found:
        return []
    return [
        Problem(
            "partition.missing",
            f"fewer than {COMFORTABLE_WEEKS} weeks of partitions are prepared "
            f"({found[0].part} is the next that is not)",
            "run `flask queue migrate`, or start the console or a worker, which make them too",
        )
    ]


def _kept(conn: psycopg.Connection[object]) -> list[Problem]:
    found = weeks_over(conn, ago=LONG_OVER_WEEKS, empty=True)
    if not found:
        return []
    return [
        Problem(
            "partition.kept",
            f"{len(found)} weeks that are over and hold nothing have their tables still",
            "start a worker, with QUEUE_OWNER_URL where DATABASE_URL's role does not own them",
        )
    ]


def _problem(gap: _Gap) -> Problem:
    if gap.exists:
        return Problem(
            "partition.missing",
            f"countersign.{gap.part} is not attached to countersign.{gap.parent}",
            "attach it as the owner (`ALTER TABLE … ATTACH PARTITION`), or rename it and run "
            "`flask queue migrate` for a new one",
        )
    return Problem(
        "partition.missing",
        f"countersign.{gap.parent} has no partition {gap.part}",
        "run `flask queue migrate`",
    )
