"""Whether every job stands in exactly one place, and every run belongs to a worker."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final
from uuid import UUID

import psycopg

from queue_core.check.problem import MOST_PROBLEMS, Problem
from queue_core.database import rows

NEWEST_IDS: Final = 10_000
RECENT_DAYS: Final = 14
ALL_DAYS: Final = 400_000
UNOWNED_AFTER_SECONDS: Final = 600


def problems(conn: psycopg.Connection[object], *, full: bool) -> list[Problem]:
    """Return a problem for each job in two places or none, without body, or run by nobody.

    At most 100 a kind.

    The quick form looks at the newest ids, `full` at all; runs are always looked at.
    """
    return [
        *_two_places(conn, full=full),
        *_no_place(conn, full=full),
        *_no_body(conn, full=full),
        *_unowned(conn),
    ]


@dataclass(frozen=True, slots=True)
class _Doubled:
    id: UUID
    places: list[str]


# One statement, so one snapshot: read table by table, an honest job on the move shows in two.
TWO_PLACES = """
WITH live AS (
    (SELECT ready.id FROM countersign.ready ORDER BY ready.id DESC LIMIT %(most)s)
    UNION
    (SELECT waiting.id FROM countersign.waiting ORDER BY waiting.id DESC LIMIT %(most)s)
    UNION
    (SELECT blocked.id FROM countersign.blocked ORDER BY blocked.id DESC LIMIT %(most)s)
    UNION
    (SELECT running.id FROM countersign.running ORDER BY running.id DESC LIMIT %(most)s)
    UNION
    (SELECT review.id FROM countersign.review ORDER BY review.id DESC LIMIT %(most)s)
)
SELECT live.id, array_agg(place.name ORDER BY place.name) AS places
FROM live
CROSS JOIN LATERAL (
    SELECT 'ready' AS name FROM countersign.ready WHERE ready.id = live.id
    UNION ALL
    SELECT 'waiting' FROM countersign.waiting WHERE waiting.id = live.id
    UNION ALL
    SELECT 'blocked' FROM countersign.blocked WHERE blocked.id = live.id
    UNION ALL
    SELECT 'running' FROM countersign.running WHERE running.id = live.id
    UNION ALL
    SELECT 'review' FROM countersign.review WHERE review.id = live.id
    UNION ALL
    SELECT 'ended' FROM countersign.ended WHERE ended.id = live.id
) AS place
GROUP BY live.id
HAVING count(*) > 1
LIMIT %(problems)s
"""


def _two_places(conn: psycopg.Connection[object], *, full: bool) -> list[Problem]:
    limits = {"most": None if full else NEWEST_IDS, "problems": MOST_PROBLEMS}
    return [
        Problem(
            "job.two_places",
            f"job {doubled.id} stands in {' and '.join(doubled.places)}",
            "delete, as the owner, the row that its runs and acts do not explain, and find out "
            "what wrote it: no statement of ours leaves both",
        )
        for doubled in rows(conn, TWO_PLACES, dict[str, object](limits), _Doubled)
    ]


@dataclass(frozen=True, slots=True)
class _Job:
    id: UUID
    name: str


NO_PLACE = """
WITH asked AS (
    SELECT jobs.id, jobs.name
    FROM countersign.jobs
    WHERE jobs.id >= countersign.lowest_id(
        GREATEST(to_timestamp(0), now() - make_interval(days => %(days)s::integer))
    )
    ORDER BY jobs.id DESC
    LIMIT %(most)s
)
SELECT asked.id, asked.name
FROM asked
WHERE NOT EXISTS (SELECT FROM countersign.ended WHERE ended.id = asked.id)
    AND NOT EXISTS (SELECT FROM countersign.ready WHERE ready.id = asked.id)
    AND NOT EXISTS (SELECT FROM countersign.waiting WHERE waiting.id = asked.id)
    AND NOT EXISTS (SELECT FROM countersign.blocked WHERE blocked.id = asked.id)
    AND NOT EXISTS (SELECT FROM countersign.running WHERE running.id = asked.id)
    AND NOT EXISTS (SELECT FROM countersign.review WHERE review.id = asked.id)
LIMIT %(problems)s
"""


def _no_place(conn: psycopg.Connection[object], *, full: bool) -> list[Problem]:
    limits = {
        "most": None if full else NEWEST_IDS,
        "days": ALL_DAYS if full else RECENT_DAYS,
        "problems": MOST_PROBLEMS,
    }
    return [
        Problem(
            "job.no_place",
            f"job {job.id} ({job.name!r}) stands nowhere: it will never run and never end",
            "see its runs and acts for how far it came; enqueue the work again if it is still "
            "wanted, and find out what deleted its row",
        )
        for job in rows(conn, NO_PLACE, dict[str, object](limits), _Job)
    ]


@dataclass(frozen=True, slots=True)
class _Bodiless:
    id: UUID
    place: str


NO_BODY = """
WITH placed AS (
    (SELECT ready.id, 'ready' AS place FROM countersign.ready
    ORDER BY ready.id DESC LIMIT %(most)s)
    UNION ALL
    (SELECT waiting.id, 'waiting' FROM countersign.waiting
    ORDER BY waiting.id DESC LIMIT %(most)s)
    UNION ALL
    (SELECT blocked.id, 'blocked' FROM countersign.blocked
    ORDER BY blocked.id DESC LIMIT %(most)s)
    UNION ALL
    (SELECT running.id, 'running' FROM countersign.running
    ORDER BY running.id DESC LIMIT %(most)s)
    UNION ALL
    (SELECT review.id, 'review' FROM countersign.review
    ORDER BY review.id DESC LIMIT %(most)s)
    UNION ALL
    (SELECT ended.id, 'ended' FROM countersign.ended
    ORDER BY ended.id DESC LIMIT %(most)s)
)
SELECT placed.id, placed.place
FROM placed
WHERE NOT EXISTS (SELECT FROM countersign.jobs WHERE jobs.id = placed.id)
LIMIT %(problems)s
"""
MENDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "running": "its worker sends it to review when its run ends",
        "review": "confirm it if it did run, and close it if not (`flask queue confirm|close`)",
        "ended": "it cannot be retried; enqueue the work again if it is still wanted",
    }
)
CANCEL: Final = "cancel it (`flask queue cancel`), and enqueue the work again if it is still wanted"


def _no_body(conn: psycopg.Connection[object], *, full: bool) -> list[Problem]:
    limits = {"most": None if full else NEWEST_IDS, "problems": MOST_PROBLEMS}
    return [
        Problem(
            "job.no_body",
            f"job {job.id} stands in {job.place}, and what was asked for is gone from "
            "countersign.jobs",
            f"{MENDS.get(job.place, CANCEL)}; find out what deleted the row",
        )
        for job in rows(conn, NO_BODY, dict[str, object](limits), _Bodiless)
    ]


@dataclass(frozen=True, slots=True)
class _Run:
    id: UUID
    attempt: int
    worker: UUID
    known: bool


# Recovery resolves these at every sweep; ten minutes on, nobody sweeps.
UNOWNED = """
SELECT running.id, running.attempt, running.worker, workers.id IS NOT NULL AS known
FROM countersign.running
LEFT JOIN countersign.workers ON workers.id = running.worker
WHERE workers.id IS NULL
    OR LEAST(workers.stopped_at, workers.lost_at) < now() - make_interval(secs => %(seconds)s)
ORDER BY running.id
LIMIT %(problems)s
"""


def _unowned(conn: psycopg.Connection[object]) -> list[Problem]:
    limits = {"seconds": UNOWNED_AFTER_SECONDS, "problems": MOST_PROBLEMS}
    return [
        Problem(
            "run.unowned",
            f"run {run.attempt} of job {run.id} belongs to worker {run.worker}, which "
            + ("ended over ten minutes ago" if run.known else "nobody knows"),
            "start a worker (`flask queue work`): it recovers such runs within seconds",
        )
        for run in rows(conn, UNOWNED, dict[str, object](limits), _Run)
    ]
