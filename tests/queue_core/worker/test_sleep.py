"""Sleep: a worker without jobs is woken by whoever enqueues one, and by nobody else."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from queue_core import NewJob, enqueue, enqueue_many, release, retry
from queue_core.waking import SLEEP
from queue_core.worker import intake
from queue_core.worker.requests import Claims
from tests.queue_core.worker.conftest import wait_for

NO_POLL = {"intake.POLL_SECONDS": 3_600.0, "intake.ASLEEP_SECONDS": 3_600.0}
ASLEEP = f"""
SELECT pid FROM pg_locks
WHERE locktype = 'advisory' AND database = (
        SELECT oid FROM pg_database WHERE datname = current_database()
    )
    AND (classid::bigint << 32 | objid::bigint) = {SLEEP}
"""
QUIET = """
SELECT pid FROM pg_stat_activity
WHERE pid = %s AND state = 'idle' AND state_change < clock_timestamp() - interval '1 s'
"""


@pytest.fixture
def asleep(jobs) -> Callable[[], Any]:
    """Give a function that returns the connections that are shown to sleep."""
    return lambda: [row["pid"] for row in jobs.conn.execute(ASLEEP)]


@pytest.fixture
def heard(database) -> Callable[[], int]:
    """Give a function that says how often somebody was woken since the last time."""
    conn = database.connect()
    conn.execute("LISTEN countersign")
    return lambda: len([*conn.notifies(timeout=0.2)])


@pytest.fixture
def sleeper(database):
    """Give a connection that is shown to sleep."""
    conn = database.connect()
    conn.execute(f"SELECT pg_advisory_lock({SLEEP})")
    return conn


def test_a_worker_that_sleeps_is_woken_for_a_job(jobs, start_worker, asleep):
    start_worker(constants=NO_POLL)
    wait_for(asleep)
    jobs.ended(jobs.add("sample.echo"), "completed")


def test_it_sleeps_again_when_there_is_no_more(jobs, start_worker, asleep):
    start_worker(constants=NO_POLL)
    for _ in range(3):
        wait_for(asleep)
        jobs.ended(jobs.add("sample.echo"), "completed")


def test_a_worker_that_sleeps_is_woken_for_a_job_that_falls_due(jobs, start_worker, asleep):
    start_worker(constants=NO_POLL)
    wait_for(asleep)
    later = jobs.add("sample.echo", delay=1.0)
    jobs.ended(later, "completed")


def test_who_is_told_of_jobs_polls_seldom_and_who_is_not_as_before():
    assert intake.pause_after(Claims(is_heard=True)) > 2 * intake.POLL_SECONDS
    assert intake.pause_after(Claims()) < 2 * intake.POLL_SECONDS


def test_while_a_run_goes_on_nobody_is_told(jobs, start_worker, asleep, heard):
    start_worker(constants=NO_POLL)
    wait_for(asleep)
    path = jobs.path()
    jobs.add("sample.sleep", {"seconds": 60, "path": str(path)})
    jobs.begun(path)
    wait_for(lambda: not asleep())
    heard()
    jobs.add("sample.echo")
    assert heard() == 0


def test_of_two_that_sleep_both_are_woken(jobs, start_worker, asleep):
    workers = [start_worker(constants=NO_POLL) for _ in range(2)]
    wait_for(asleep)
    for worker in workers:
        worker.id()
    paths = [jobs.path(), jobs.path()]
    for path in paths:
        jobs.add("sample.sleep", {"seconds": 60, "path": str(path)})
    assert {jobs.begun(path) for path in paths}


def test_case_69_who_lost_its_connection_asks_at_once_and_sleeps_anew(jobs, start_worker, asleep):
    start_worker(constants=NO_POLL)
    (pid,) = wait_for(asleep)
    wait_for(lambda: jobs.conn.execute(QUIET, [pid]).fetchone())
    jobs.conn.execute("SELECT pg_terminate_backend(%s)", [pid])
    (other,) = wait_for(lambda: [each for each in asleep() if each != pid])
    assert other != pid
    jobs.ended(jobs.add("sample.echo"), "completed")


def test_without_notify_it_is_not_shown_to_sleep_and_finds_jobs_all_the_same(
    jobs, start_worker, asleep, heard
):
    start_worker(notify=False)
    jobs.ended(jobs.add("sample.echo"), "completed")
    assert not asleep()
    jobs.ended(jobs.add("sample.echo"), "completed")
    assert not asleep()
    assert heard() == 0


def test_who_is_woken_for_others_over_and_over_holds_nobody_up(jobs, start_worker, asleep):
    start_worker(queues={"quiet": None}, constants=NO_POLL | {"sleep.NAP_SECONDS": 3_600.0})
    wait_for(asleep)
    for _ in range(20):
        jobs.add("sample.echo", queue="busy")
        time.sleep(0.05)
    wait_for(lambda: not asleep())


def test_after_a_nap_it_is_woken_again_and_finds_what_came_meanwhile(jobs, start_worker, asleep):
    start_worker(queues={"quiet": None}, constants=NO_POLL)
    wait_for(asleep)
    for _ in range(20):
        jobs.add("sample.echo", queue="busy")
        time.sleep(0.02)
    wanted = jobs.add("sample.echo", queue="quiet")
    jobs.add("sample.echo", queue="busy")
    jobs.ended(wanted, "completed")
    wait_for(asleep)
    jobs.ended(jobs.add("sample.echo", queue="quiet"), "completed")


def test_a_retry_and_a_release_wake_whoever_sleeps(database, registry, job_in, sleeper, heard):
    conn = database.connect()
    failed, lost = job_in(conn, "failed"), job_in(conn, "needs_review")
    heard()
    retry(conn, [failed.id], by="ops:alice", reason="fixed_upstream")
    assert heard() == 1
    release(conn, [lost.id], by="ops:alice", reason="fixed_upstream")
    assert heard() == 1
    retry(conn, [failed.id], by="ops:alice", reason="fixed_upstream")
    assert heard() == 0


def test_a_job_for_now_wakes_whoever_sleeps_and_one_for_later_nobody(
    database, registry, sleeper, heard
):
    conn = database.connect()
    enqueue(conn, "mail.send", delay=60)
    enqueue_many(conn, [NewJob("mail.send", delay=60)] * 1_001)
    assert heard() == 0
    enqueue(conn, "mail.send")
    assert heard() == 1
    enqueue_many(conn, [NewJob("mail.send")] * 1_001)
    assert heard() == 1


def test_while_nobody_sleeps_nobody_is_told(database, registry, heard):
    conn = database.connect()
    enqueue(conn, "mail.send")
    assert heard() == 0
    assert not conn.execute(ASLEEP).fetchall()


def test_they_are_told_with_the_commit_and_not_of_a_rollback(database, registry, sleeper, heard):
    conn = database.connect(autocommit=False)
    enqueue(conn, "mail.send")
    assert heard() == 0
    conn.rollback()
    assert heard() == 0
    enqueue(conn, "mail.send")
    conn.commit()
    assert heard() == 1
