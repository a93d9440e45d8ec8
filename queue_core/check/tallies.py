"""Whether the tallies, which counts are read from, agree with what stands in `ended`."""

from dataclasses import dataclass

import psycopg

from queue_core.check.problem import Problem
from queue_core.database import rows


@dataclass(frozen=True, slots=True)
class _Difference:
    state: str
    tallied: int
    standing: int


DIFFERENCES = """
WITH tallied AS (
    SELECT tallies.state, sum(tallies.entered - tallies.removed)::bigint AS jobs
    FROM countersign.tallies
    GROUP BY tallies.state
),
standing AS (
    SELECT ended.state, count(*) AS jobs
    FROM countersign.ended
    GROUP BY ended.state
)
SELECT state, COALESCE(tallied.jobs, 0) AS tallied, COALESCE(standing.jobs, 0) AS standing
FROM tallied
FULL JOIN standing USING (state)
WHERE COALESCE(tallied.jobs, 0) <> COALESCE(standing.jobs, 0)
ORDER BY state
"""


def problems(conn: psycopg.Connection[object]) -> list[Problem]:
    """Return a problem for each state whose tallies are out; reads all of history."""
    return [
        Problem(
            "counts.wrong",
            f"{each.tallied} {each.state} jobs are counted, and {each.standing} are there",
            "run `SELECT countersign.recount()` as the owner, and find out what wrote to "
            "countersign.ended or countersign.tallies: no statement of ours leaves them apart",
        )
        for each in rows(conn, DIFFERENCES, {}, _Difference)
    ]
