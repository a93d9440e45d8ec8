"""How many connections a worker opens, whatever it is told to do at once."""

import psycopg

from tests.queue_core.worker.conftest import wait_for

MOST = 4
OPEN = """
SELECT count(*) AS open
FROM pg_stat_activity
WHERE pg_stat_activity.application_name = 'countersign worker'
    AND pg_stat_activity.datname = current_database()
"""


def test_a25_a_worker_has_at_most_four_connections_whatever_its_slots(
    start_worker, jobs, database
) -> None:
    paths = [jobs.path() for _ in range(6)]
    made = [jobs.add("sample.sleep", {"seconds": 1, "path": str(path)}) for path in paths]
    start_worker(processes=6)
    owner = database.owner()
    seen = []

    def all_ended() -> bool:
        seen.append(opened(owner))
        return all(jobs.facts(job).state == "completed" for job in made)

    wait_for(all_ended, 90)
    assert 1 <= max(seen) <= MOST


def opened(owner: psycopg.Connection[dict[str, int]]) -> int:
    (row,) = owner.execute(OPEN).fetchall()
    return row["open"]
