"""The statement of a claim: from lanes chosen, the best jobs become runs of a worker."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, LiteralString, NamedTuple
from uuid import UUID

import psycopg
from psycopg.rows import args_row

from queue_core.database import fetch
from queue_core.lanes import Choice, Head, Lane, Place, quotas
from queue_core.transitions.claim.values import Claimable, Claimed

LANES: Final[LiteralString] = """
WITH handled AS (
    SELECT handled.name, handled.attempts, handled.on_lost, handled.time_limit,
        handled.safe_to_repeat
    FROM unnest(%(names)s::text[], %(attempts)s::integer[], %(on_losts)s::text[],
        %(time_limits)s::double precision[], %(safes)s::boolean[])
        AS handled (name, attempts, on_lost, time_limit, safe_to_repeat)
),
lane AS MATERIALIZED (
    SELECT lane.queue, lane.name, lane.rank, lane.due::timestamp AT TIME ZONE 'UTC' AS run_at,
        lane.id, lane.quota, lane.name_room, lane.queue_room
    FROM unnest(%(lane_queues)s::text[], %(lane_names)s::text[], %(ranks)s::integer[],
        %(dues)s::text[], %(lane_ids)s::uuid[], %(quotas)s::integer[], %(name_rooms)s::integer[],
        %(queue_rooms)s::integer[])
        AS lane (queue, name, rank, due, id, quota, name_room, queue_room)
    WHERE lane.queue <> ALL (ARRAY(SELECT queues.name FROM countersign.queues))
),
"""
# Each lane's best rows without locks, and one more: there the lane goes on next time. The inner
# LIMIT is a constant, for the planner knows nothing of one that differs from lane to lane.
HEADS: Final[LiteralString] = """
head AS MATERIALIZED (
    SELECT head.spot, head.id, lane.queue, lane.name, head.rank, head.run_at,
        head.nth > lane.quota AS is_past_quota
    FROM lane
    CROSS JOIN LATERAL (
        SELECT first.spot, first.id, first.rank, first.run_at, row_number() OVER () AS nth
        FROM (
            SELECT ready.ctid AS spot, ready.id, ready.rank, ready.run_at
            FROM countersign.ready
            WHERE ready.queue = lane.queue AND ready.name = lane.name
                AND (ready.rank, ready.run_at, ready.id) >= (lane.rank, lane.run_at, lane.id)
            ORDER BY ready.rank, ready.run_at, ready.id
            LIMIT %(count)s + 1
"""
BEHIND: Final[LiteralString] = """
        ) AS first
        LIMIT LEAST(lane.quota, lane.name_room, lane.queue_room) + 1
    ) AS head
),
behind AS MATERIALIZED (
    SELECT ready.ctid AS spot, ready.id, ready.queue, ready.name, ready.rank, ready.run_at
    FROM countersign.ready
    WHERE ready.id = ANY(%(behind)s::uuid[])
"""
# Past whatever another claimer holds. Locks one row more of each lane than it may take, until
# the commit, which is why it is only the second try.
UNLOCKED: Final[LiteralString] = """
            FOR UPDATE SKIP LOCKED
"""
# Of a lane that has more than its quota only what comes before that can be compared; and of the
# jobs behind, those whose lane did not begin anew before them.
POOL: Final[LiteralString] = """
),
bound AS MATERIALIZED (
    SELECT least.rank, least.run_at, least.id
    FROM (
        SELECT head.rank, head.run_at, head.id
        FROM head
        WHERE head.is_past_quota
        UNION ALL
        SELECT %(until_rank)s::integer, %(until_due)s::timestamp AT TIME ZONE 'UTC',
            %(until_id)s::uuid
    ) AS least
    ORDER BY least.rank, least.run_at, least.id
    LIMIT 1
),
pool AS (
    SELECT every.spot, every.id, every.queue, every.name, every.rank, every.run_at
    FROM bound
    JOIN (
        SELECT head.spot, head.id, head.queue, head.name, head.rank, head.run_at
        FROM head
        UNION ALL
        SELECT behind.spot, behind.id, behind.queue, behind.name, behind.rank, behind.run_at
        FROM behind
        JOIN lane ON lane.queue = behind.queue AND lane.name = behind.name
        WHERE (behind.rank, behind.run_at, behind.id) < (lane.rank, lane.run_at, lane.id)
    ) AS every ON (every.rank, every.run_at, every.id) < (bound.rank, bound.run_at, bound.id)
),
"""
BEST: Final[LiteralString] = """
best AS MATERIALIZED (
    SELECT pool.spot, pool.id
    FROM pool
    ORDER BY pool.rank, pool.run_at, pool.id
    LIMIT %(count)s
),
"""
# The same where names or queues have less room than there is in all.
CAPPED: Final[LiteralString] = """
best AS MATERIALIZED (
    SELECT fitting.spot, fitting.id
    FROM (
        SELECT named.*, row_number() OVER (
            PARTITION BY named.queue ORDER BY named.rank, named.run_at, named.id) AS of_queue
        FROM (
            SELECT pool.*, lane.name_room, lane.queue_room, row_number() OVER (
                PARTITION BY pool.name ORDER BY pool.rank, pool.run_at, pool.id) AS of_name
            FROM pool
            JOIN lane ON lane.queue = pool.queue AND lane.name = pool.name
        ) AS named
        WHERE named.of_name <= named.name_room
    ) AS fitting
    WHERE fitting.of_queue <= fitting.queue_room
    ORDER BY fitting.rank, fitting.run_at, fitting.id
    LIMIT %(count)s
),
"""
# Locked in their order. By ctid, so that no plan can turn to a hash join; safe, since rows of
# ready are never updated. Arguments leave as text, body by body: one that Python cannot read
# stops no batch. The LIMIT keeps the join an index look-up for each job. The first column is
# there even when nothing could be taken; rows of attempt 0 say where a lane goes on.
RUN: Final[LiteralString] = """
taken AS (
    DELETE FROM countersign.ready
    WHERE ready.ctid = ANY(ARRAY(
        SELECT ready.ctid
        FROM countersign.ready
        WHERE ready.ctid = ANY(ARRAY(SELECT best.spot FROM best))
        ORDER BY ready.rank, ready.run_at, ready.id
        FOR UPDATE SKIP LOCKED
    ))
    RETURNING ready.id, ready.queue, ready.name, ready.rank, ready.run_at, ready.attempt,
        ready.attempts_allowed
),
claimed AS (
    INSERT INTO countersign.running (id, attempt, worker, queue, name, rank, run_at,
        attempts_allowed, on_lost, safe_to_repeat)
    SELECT taken.id, taken.attempt + 1, %(worker)s, taken.queue, taken.name, taken.rank,
        taken.run_at, COALESCE(taken.attempts_allowed, handled.attempts), handled.on_lost,
        handled.safe_to_repeat
    FROM taken
    JOIN handled ON handled.name = taken.name
    RETURNING running.id, running.attempt, running.name, running.queue, running.rank,
        running.run_at, running.attempts_allowed, running.on_lost, running.claimed_at
),
following AS (
    SELECT DISTINCT ON (head.queue, head.name) head.id, head.name, head.queue, head.rank,
        head.run_at
    FROM head
    WHERE head.id NOT IN (SELECT best.id FROM best)
    ORDER BY head.queue, head.name, head.rank, head.run_at, head.id
),
told AS (
    SELECT claimed.id, claimed.attempt, claimed.name, claimed.queue, body.args,
        COALESCE(body.time_limit, handled.time_limit) AS time_limit, claimed.attempts_allowed,
        claimed.on_lost, claimed.claimed_at, claimed.rank, claimed.run_at
    FROM claimed
    JOIN handled ON handled.name = claimed.name
    LEFT JOIN LATERAL (
        SELECT jobs.args::text AS args, jobs.time_limit
        FROM countersign.jobs
        WHERE jobs.id = claimed.id
        LIMIT 1
    ) AS body ON true
    UNION ALL
    SELECT following.id, 0, following.name, following.queue, NULL, NULL, NULL, NULL, NULL,
        following.rank, following.run_at
    FROM following
)
SELECT seen.candidates, told.id, told.attempt, told.name, told.queue, told.args, told.time_limit,
    told.attempts_allowed, told.on_lost, told.claimed_at, told.rank,
    (told.run_at AT TIME ZONE 'UTC')::text AS due
FROM (SELECT count(*) AS candidates FROM best) AS seen
LEFT JOIN told ON true
ORDER BY told.attempt = 0, told.rank, told.run_at, told.id
"""
FIRST_LOOK: Final[LiteralString] = HEADS + BEHIND
LOOK_PAST_WHAT_IS_HELD: Final[LiteralString] = HEADS + UNLOCKED + BEHIND + UNLOCKED


class _Told(NamedTuple):
    """A row of the statement: a run, or with attempt 0 the job at which a lane goes on."""

    candidates: int
    id: UUID
    attempt: int
    name: str
    queue: str
    args: str | None
    time_limit: float | None
    attempts_allowed: int
    on_lost: str
    claimed_at: datetime
    rank: int
    due: str


class Room(NamedTuple):
    """How many more may be taken of a lane's name, and from its queue."""

    of_name: int
    of_queue: int


@dataclass(frozen=True, slots=True)
class Taken:
    """What one statement took, where the last of each lane stood, and where lanes go on.

    `candidates` is how many jobs it saw that it could have taken.
    """

    candidates: int
    runs: Sequence[Claimed]
    stood: Sequence[Head]
    following: Sequence[Head]


def take(
    conn: psycopg.Connection[object],
    look: LiteralString,
    *,
    worker: UUID,
    names: Sequence[Claimable],
    choice: Choice,
    rooms: Sequence[Room],
    count: int,
) -> Taken:
    """Take up to `count` of the best jobs that `look` finds in these lanes, within their rooms.

    `names` says what is in force for the names of the lanes; `rooms` are in the lanes' order.
    """
    is_capped = any(min(room) < count for room in rooms)
    statement = LANES + look + POOL + (CAPPED if is_capped else BEST) + RUN
    parameters = _handled(names) | _starts(choice, rooms, count) | {"worker": worker}
    told = fetch(conn, statement, parameters, args_row(_Told))
    taken = [each for each in told if each.attempt]
    following = [each for each in told if each.attempt == 0]
    runs = [Claimed(*each[1:10]) for each in taken]
    last = {(each.queue, each.name): each for each in taken}
    return Taken(told[0].candidates, runs, _heads(last.values()), _heads(following))


def _heads(told: Iterable[_Told]) -> list[Head]:
    return [Head(Lane(each.queue, each.name), Place(each.rank, each.due, each.id)) for each in told]


def _handled(names: Sequence[Claimable]) -> dict[str, object]:
    known = {each.name: each for each in names}.values()
    return {
        "names": [each.name for each in known],
        "attempts": [each.attempts for each in known],
        "on_losts": [each.on_lost for each in known],
        "time_limits": [each.time_limit for each in known],
        "safes": [each.safe_to_repeat for each in known],
    }


def _starts(choice: Choice, rooms: Sequence[Room], count: int) -> dict[str, object]:
    return {
        "lane_queues": [lane.queue for lane in choice.starts],
        "lane_names": [lane.name for lane in choice.starts],
        "ranks": [place.rank for place in choice.starts.values()],
        "dues": [place.due for place in choice.starts.values()],
        "lane_ids": [place.id for place in choice.starts.values()],
        "quotas": quotas(len(rooms), count),
        "name_rooms": [room.of_name for room in rooms],
        "queue_rooms": [room.of_queue for room in rooms],
        "count": count,
        "until_rank": choice.until.rank,
        "until_due": choice.until.due,
        "until_id": choice.until.id,
        "behind": list(choice.behind),
    }
