"""Workers tick the schedules of their children's code, however many there are and whoever dies."""

import signal
import time
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from queue_core import list_schedules
from queue_core.worker import maintenance
from tests.conftest import Database
from tests.queue_core.worker.conftest import Worker, wait_for

SCHEDULED = "tests.queue_core.worker.scheduled"
Start = Callable[..., Worker]

# A job's second, counted from the schedule's first due time: each due time has its own.
SLOTS = """
SELECT floor(EXTRACT(EPOCH FROM jobs.created_at - schedules.created_at)) AS slot
FROM countersign.jobs
JOIN countersign.schedules ON schedules.name = jobs.schedule
WHERE jobs.schedule = %s
"""


def slots(conn: psycopg.Connection[Any], schedule: str = "often") -> list[int]:
    return [int(row["slot"]) for row in conn.execute(SLOTS, [schedule]).fetchall()]


def completed(conn: psycopg.Connection[Any]) -> int:
    query = "SELECT count(*) AS n FROM countersign.ended WHERE state = 'completed'"
    (row,) = conn.execute(query).fetchall()
    return row["n"]


@pytest.mark.slow
def test_several_workers_give_each_due_time_one_job_though_some_are_killed(
    database: Database, start_worker: Start
) -> None:
    conn = database.connect()
    workers = [start_worker(jobs=SCHEDULED) for _ in range(3)]
    wait_for(lambda: completed(conn) >= 3)
    workers[0].kill_all()
    seen = completed(conn)
    wait_for(lambda: completed(conn) >= seen + 3)
    for worker in workers[1:]:
        assert worker.end() == 0
    found = slots(conn)
    assert len(set(found)) == len(found)
    (often,) = [each for each in list_schedules(conn) if each.name == "often"]
    assert often.last_job


UNIQUE = """
CREATE FUNCTION public.unique_key() RETURNS trigger LANGUAGE plpgsql
AS $$ BEGIN RAISE unique_violation USING MESSAGE = 'key taken'; END $$;
CREATE TRIGGER unique_key BEFORE INSERT ON countersign.ready
    FOR EACH ROW WHEN (NEW.queue = 'locked') EXECUTE FUNCTION public.unique_key();
"""


def test_case_51_a_schedule_whose_job_cannot_be_inserted_stops_no_worker_and_no_other(
    database: Database, start_worker: Start
) -> None:
    owner, conn = database.owner(), database.connect()
    owner.execute(UNIQUE)
    worker = start_worker(jobs=SCHEDULED)
    wait_for(lambda: completed(conn) >= 2)
    assert slots(conn, "locked") == []
    assert len(worker.lines("a chore failed")) == 1
    owner.execute("DROP FUNCTION public.unique_key CASCADE")
    wait_for(lambda: slots(conn, "locked"))
    assert worker.end() == 0


def test_case_53_a_chore_that_fails_at_first_is_tried_again_each_round(
    database: Database, start_worker: Start
) -> None:
    owner, conn = database.owner(), database.connect()
    owner.execute("REVOKE INSERT ON countersign.schedules FROM countersign_runtime")
    worker = start_worker(jobs=SCHEDULED)
    wait_for(lambda: worker.lines("a chore failed"))
    assert list_schedules(conn) == []
    owner.execute("GRANT INSERT ON countersign.schedules TO countersign_runtime")
    wait_for(lambda: completed(conn))
    assert worker.end() == 0


def test_a_schedule_without_a_worker_that_has_it_is_archived_by_any(
    database: Database, start_worker: Start
) -> None:
    conn = database.connect()
    first = start_worker(jobs=SCHEDULED)
    wait_for(lambda: len(list_schedules(conn)) == 2)
    assert first.end(signal.SIGTERM) == 0
    conn.execute("UPDATE countersign.schedules SET seen_at = seen_at - interval '2 hours'")
    other = start_worker()
    wait_for(lambda: all(each.archived_at for each in list_schedules(conn)))
    again = start_worker(jobs=SCHEDULED)
    wait_for(lambda: not any(each.archived_at for each in list_schedules(conn)))
    assert other.lines("schedules archived")
    assert (other.end(), again.end()) == (0, 0)


def test_a_worker_whose_schedule_does_not_fit_its_job_does_not_start(start_worker: Start) -> None:
    worker = start_worker(jobs="tests.queue_core.worker.misfit")
    assert worker.ended() == 2
    assert worker.lines("the arguments of 'misfit.note' do not fit: text")


def test_case_44_a_wait_is_never_none_at_all() -> None:
    now = time.monotonic()
    assert maintenance.pause(now + 60, now - 60) == maintenance.SHORTEST_PAUSE
    assert maintenance.pause(now - 60, now + 60) == maintenance.SHORTEST_PAUSE
    assert 29 < maintenance.pause(now + 60, now + 30) <= 30
    assert 29 < maintenance.pause(now + 30, float("inf")) <= 30
