"""How fast queues are worked off, from a bounded look at what ended last."""

from dataclasses import dataclass
from typing import Final

import psycopg

from queue_core.database import rows

MINUTES: Final = 5
MOST_ENDED: Final = 1_000
"""So many of the jobs that ended last are looked at."""
SHORTEST_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Rates:
    """Jobs a minute that completed or failed, by queue, over the last `seconds`.

    That is five minutes, or less where so many ended that only the newest were looked at.
    """

    by_queue: dict[str, float]
    seconds: float


@dataclass(frozen=True, slots=True)
class _Ended:
    """A row of ENDED: how many jobs of a queue ended, and for how long it was looked back."""

    queue: str
    ended: int
    looked: int
    seconds: float


# Tallies are by name, and a name may stand in several queues. Of each state the newest first, by
# its index; the bodies are looked up by id.
ENDED = """
WITH newest AS MATERIALIZED (
    (SELECT ended.id, ended.ended_at
    FROM countersign.ended
    WHERE ended.state = 'completed'
        AND ended.ended_at > now() - make_interval(mins => %(minutes)s)
    ORDER BY ended.ended_at DESC, ended.id DESC
    LIMIT %(most)s)
    UNION ALL
    (SELECT ended.id, ended.ended_at
    FROM countersign.ended
    WHERE ended.state = 'failed'
        AND ended.ended_at > now() - make_interval(mins => %(minutes)s)
    ORDER BY ended.ended_at DESC, ended.id DESC
    LIMIT %(most)s)
),
looked AS MATERIALIZED (
    SELECT newest.id, newest.ended_at
    FROM newest
    ORDER BY newest.ended_at DESC, newest.id DESC
    LIMIT %(most)s
)
SELECT COALESCE(body.queue, '') AS queue, count(*) AS ended,
    (SELECT count(*) FROM looked) AS looked,
    (SELECT EXTRACT(EPOCH FROM now() - min(looked.ended_at)) FROM looked)::double precision
        AS seconds
FROM looked
LEFT JOIN LATERAL (
    SELECT jobs.queue FROM countersign.jobs WHERE jobs.id = looked.id LIMIT 1
) AS body ON true
GROUP BY COALESCE(body.queue, '')
"""


def rates(conn: psycopg.Connection[object]) -> Rates:
    """Return how fast each queue was worked off in the last minutes; none is not in it."""
    found = rows(conn, ENDED, {"minutes": MINUTES, "most": MOST_ENDED}, _Ended, prepare=False)
    seconds = MINUTES * 60.0
    if found and found[0].looked == MOST_ENDED:
        seconds = max(found[0].seconds, SHORTEST_SECONDS)
    return Rates({each.queue: each.ended * 60 / seconds for each in found}, seconds)
