"""Commits that were done and whose answers never came, and connections that end all the time."""

import time

import pytest

from tests.chaos.conftest import IS_LONG
from tests.chaos.load import Load
from tests.queue_core.worker.conftest import wait_for

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1_800)]

TIMES = 25 if IS_LONG else 2
SECONDS, JOBS = (60.0, 200) if IS_LONG else (4.0, 40)
GIVEN_UP = """
SELECT count(*) AS found FROM countersign.runs
WHERE runs.outcome IN ('lost', 'late_completed', 'late_failed')
"""


def settle(conn, books, staff):
    """Wait until all is done, send everybody home, and prove that no run was given up."""
    books.await_rest(conn, 300)
    assert set(staff.dismiss()) == {0}
    books.prove(conn)
    assert conn.execute(GIVEN_UP).fetchone() == {"found": 0}


@pytest.mark.xdist_group("chaos-line")
def test_commits_whose_answer_is_lost_are_done_once(database, books, staff, network, dice):
    conn = database.connect()
    load = Load(database.url, books, dice)
    # Runs that nobody holds are found by the beats, a twelfth of the stale time apart.
    staff.hire(network.url, stale_after=20.0, processes=2)
    staff.await_ready()
    for verb in ("claim", "give_back", "finish", "fail", "defer", "beat"):
        for number in range(1, TIMES + 1):
            if verb == "give_back":
                network.lose("claim")  # what was claimed so is given back
            network.lose(verb)
            load.ask_until_answered(JOBS)
            wait_for(lambda verb=verb, number=number: network.lost[verb] >= number)
    settle(conn, books, staff)
    load.close()


TERMINATE_ONE = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
ORDER BY random()
LIMIT 1
"""


@pytest.mark.xdist_group("chaos-server")  # the shorter of the two groups
def test_ten_connections_a_second_are_ended_and_every_job_is_done(database, books, staff, dice):
    owner = database.owner()
    load = Load(database.url, books, dice)
    for _ in range(2):
        staff.hire(stale_after=60.0)
    staff.await_ready()
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        load.ask(JOBS // 10)
        owner.execute(TERMINATE_ONE)
        time.sleep(0.1)
    load.close()
    settle(database.connect(), books, staff)
