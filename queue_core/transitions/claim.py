"""ready -> running: a worker takes jobs, highest priority first, then oldest."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal, LiteralString
from uuid import UUID

import psycopg
from psycopg.rows import tuple_row

from queue_core.database import fetch


@dataclass(frozen=True, slots=True)
class Claimable:
    """A name that a worker handles, with the defaults in force for jobs that set none."""

    name: str
    attempts: int = 1
    on_lost: Literal["attempts", "review"] = "attempts"
    time_limit: float | None = None


@dataclass(frozen=True, slots=True)
class Claimed:
    """A run that now belongs to a worker.

    `args` is JSON text as the database keeps it, None where the job's body is gone;
    `time_limit` is in seconds.
    """

    id: UUID
    attempt: int
    name: str
    queue: str
    args: str | None = field(repr=False)
    time_limit: float | None
    attempts_allowed: int
    on_lost: str
    claimed_at: datetime


# The lanes that hold rows, found by jumping from one (queue, name) to the next in the index.
LANES: Final[LiteralString] = """
WITH RECURSIVE step AS (
    (
        SELECT ready.queue, ready.name
        FROM countersign.ready
        ORDER BY ready.queue, ready.name
        LIMIT 1
    )
    UNION ALL
    SELECT next.queue, next.name
    FROM step
    CROSS JOIN LATERAL (
        SELECT ready.queue, ready.name
        FROM countersign.ready
        WHERE (ready.queue, ready.name) > (step.queue, step.name)
        ORDER BY ready.queue, ready.name
        LIMIT 1
    ) AS next
),
handled AS (
    SELECT handled.name, handled.attempts, handled.on_lost, handled.time_limit
    FROM unnest(%(names)s::text[], %(attempts)s::integer[], %(on_losts)s::text[],
        %(time_limits)s::double precision[])
        AS handled (name, attempts, on_lost, time_limit)
),
lane AS (
    SELECT step.queue, step.name
    FROM step
    JOIN handled ON handled.name = step.name
    WHERE %(queues)s::text[] IS NULL OR step.queue = ANY(%(queues)s::text[])
),
"""
# Each lane's best rows without locks, then the best of all, locked in their order. By ctid, so
# that no plan can turn to a hash join; safe, since rows of ready are never updated.
BEST: Final[LiteralString] = """
best AS MATERIALIZED (
    SELECT head.id
    FROM lane
    CROSS JOIN LATERAL (
        SELECT ready.id, ready.rank, ready.run_at
        FROM countersign.ready
        WHERE ready.queue = lane.queue AND ready.name = lane.name
        ORDER BY ready.rank, ready.run_at, ready.id
        LIMIT %(count)s
    ) AS head
    ORDER BY head.rank, head.run_at, head.id
    LIMIT %(count)s
),
taken AS (
    DELETE FROM countersign.ready
    WHERE ready.ctid = ANY(ARRAY(
        SELECT ready.ctid
        FROM countersign.ready
        WHERE ready.id = ANY(ARRAY(SELECT best.id FROM best))
        ORDER BY ready.rank, ready.run_at, ready.id
        FOR UPDATE SKIP LOCKED
    ))
    RETURNING ready.id, ready.queue, ready.name, ready.rank, ready.run_at, ready.attempt,
        ready.attempts_allowed
),
seen AS (
    SELECT count(*) AS candidates FROM best
),
"""
# The same with the locks inside each lane, past whatever another claimer holds; it locks up to
# `count` rows a lane until the commit, which is why it is only the second try.
UNLOCKED: Final[LiteralString] = """
taken AS (
    DELETE FROM countersign.ready
    WHERE ready.ctid = ANY(ARRAY(
        SELECT head.ctid
        FROM lane
        CROSS JOIN LATERAL (
            SELECT ready.ctid, ready.rank, ready.run_at, ready.id
            FROM countersign.ready
            WHERE ready.queue = lane.queue AND ready.name = lane.name
            ORDER BY ready.rank, ready.run_at, ready.id
            FOR UPDATE SKIP LOCKED
            LIMIT %(count)s
        ) AS head
        ORDER BY head.rank, head.run_at, head.id
        LIMIT %(count)s
    ))
    RETURNING ready.id, ready.queue, ready.name, ready.rank, ready.run_at, ready.attempt,
        ready.attempts_allowed
),
seen AS (
    SELECT count(*) AS candidates FROM taken
),
"""
# Arguments leave as text, body by body: one that Python cannot read stops no batch. The LIMIT
# keeps the join an index look-up for each job. The first column is there even when nothing
# could be taken.
RUN: Final[LiteralString] = """
claimed AS (
    INSERT INTO countersign.running (id, attempt, worker, queue, name, rank, run_at,
        attempts_allowed, on_lost)
    SELECT taken.id, taken.attempt + 1, %(worker)s, taken.queue, taken.name, taken.rank,
        taken.run_at, COALESCE(taken.attempts_allowed, handled.attempts), handled.on_lost
    FROM taken
    JOIN handled ON handled.name = taken.name
    RETURNING running.id, running.attempt, running.name, running.queue, running.rank,
        running.run_at, running.attempts_allowed, running.on_lost, running.claimed_at
)
SELECT seen.candidates, claimed.id, claimed.attempt, claimed.name, claimed.queue, body.args,
    COALESCE(body.time_limit, handled.time_limit), claimed.attempts_allowed, claimed.on_lost,
    claimed.claimed_at
FROM seen
LEFT JOIN claimed ON true
LEFT JOIN handled ON handled.name = claimed.name
LEFT JOIN LATERAL (
    SELECT jobs.args::text AS args, jobs.time_limit
    FROM countersign.jobs
    WHERE jobs.id = claimed.id
    LIMIT 1
) AS body ON true
ORDER BY claimed.rank, claimed.run_at, claimed.id
"""
CLAIM = LANES + BEST + RUN
CLAIM_UNLOCKED = LANES + UNLOCKED + RUN


def claim(
    conn: psycopg.Connection[object],
    *,
    worker: UUID,
    names: Sequence[Claimable],
    queues: Sequence[str] | None = None,
    count: int,
) -> list[Claimed]:
    """Take up to `count` due jobs of these names and queues (None: all) for `worker`.

    Jobs that another claimer holds are passed over. Only names given are ever claimed.
    """
    if not names or count < 1:
        return []
    parameters = _parameters(worker, names, queues)
    candidates, claimed = _take(conn, CLAIM, parameters | {"count": count})
    if len(claimed) < candidates:
        # Another claimer holds some of the best: look past them.
        more = parameters | {"count": count - len(claimed)}
        claimed += _take(conn, CLAIM_UNLOCKED, more)[1]
    return claimed


def _take(
    conn: psycopg.Connection[object], statement: LiteralString, parameters: dict[str, object]
) -> tuple[int, list[Claimed]]:
    """Return how many jobs could be seen, and the runs that were taken."""
    found = fetch(conn, statement, parameters, tuple_row)
    taken = [Claimed(*row[1:]) for row in found if row[1] is not None]
    return (int(found[0][0]) if found else 0), taken


def _parameters(
    worker: UUID, names: Sequence[Claimable], queues: Sequence[str] | None
) -> dict[str, object]:
    return {
        "worker": worker,
        "queues": None if queues is None else list(queues),
        "names": [each.name for each in names],
        "attempts": [each.attempts for each in names],
        "on_losts": [each.on_lost for each in names],
        "time_limits": [each.time_limit for each in names],
    }
