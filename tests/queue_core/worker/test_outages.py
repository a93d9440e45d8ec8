"""The database away, slow, or its answers lost: no run is lost, and none is done twice."""

import time
from uuid import UUID

from queue_core import cancel
from tests.queue_core.worker.conftest import is_alive, wait_for


def test_case_23_a_run_that_ends_while_the_database_is_away_is_stored_when_it_is_back(
    start_worker, jobs, proxy
):
    path = jobs.path()
    worker = start_worker(url=proxy.url)
    made = jobs.add("sample.sleep", {"seconds": 0.3, "path": str(path)})
    jobs.begun(path)
    proxy.cut()
    time.sleep(1.5)
    assert jobs.facts(made).state == "running"
    proxy.restore()
    facts = jobs.ended(made, "completed")
    assert (facts.attempt, jobs.runs(made)) == (1, [])
    assert 0 < (facts.ended_at - facts.started_at).total_seconds() < 10
    assert worker.end() == 0


def test_a_limit_holds_while_the_database_is_away(start_worker, jobs, proxy):
    path = jobs.path()
    start_worker(url=proxy.url)
    made = jobs.add("sample.sleep", {"seconds": 60, "path": str(path)}, time_limit=1)
    child = jobs.begun(path)
    proxy.cut()
    wait_for(lambda: not is_alive(child), 2)
    proxy.restore()
    assert jobs.ended(made, "failed").error == "timed out after 1s"


def test_a_run_that_was_stored_without_an_answer_is_not_stored_or_disputed_again(
    start_worker, jobs, proxy
):
    path = jobs.path()
    worker = start_worker(url=proxy.url)
    made = jobs.add("sample.sleep", {"seconds": 0.3, "path": str(path)})
    jobs.begun(path)
    proxy.hold_commit_of("completed")
    jobs.ended(made, "completed")
    proxy.cut()
    proxy.restore()
    wait_for(lambda: [line for line in worker.lines(str(made)) if "as recorded" in line])
    assert jobs.facts(made).state == "completed"
    assert jobs.runs(made) == []
    assert worker.end() == 0


def test_a_failure_that_was_stored_without_an_answer_is_not_disputed_either(
    start_worker, jobs, proxy
):
    path = jobs.path()
    worker = start_worker(url=proxy.url)
    made = jobs.add("sample.sleep", {"seconds": 60, "path": str(path)}, time_limit=1.5, attempts=2)
    jobs.begun(path)
    proxy.hold_at("waiting")
    jobs.ended(made, "waiting")
    proxy.cut()
    proxy.restore()
    wait_for(lambda: [line for line in worker.lines(str(made)) if "as recorded" in line])
    assert (jobs.facts(made).state, jobs.runs(made)) == ("waiting", [(1, "timed_out")])


def test_a_claim_without_an_answer_is_given_back_and_claimed_again(start_worker, jobs, proxy):
    worker = start_worker(url=proxy.url, stale_after=30)
    worker.id()
    path = jobs.path()
    proxy.hold_at(str(path))
    made = jobs.add("sample.sleep", {"seconds": 0, "path": str(path)})
    jobs.ended(made, "running")
    assert not path.exists()
    proxy.cut()
    proxy.restore()
    assert jobs.ended(made, "completed").attempt == 2
    assert jobs.runs(made) == [(1, "returned")]


def test_case_12_a_worker_that_cannot_beat_stops_its_runs_and_keeps_its_results(
    start_worker, jobs, proxy
):
    done, cut = jobs.path(), jobs.path()
    worker = start_worker(url=proxy.url, stale_after=2.5, processes=2)
    finished = jobs.add("sample.sleep", {"seconds": 0.4, "path": str(done)})
    running = jobs.add("sample.sleep", {"seconds": 60, "path": str(cut)})
    children = [jobs.begun(done), jobs.begun(cut)]
    proxy.hold()  # it hangs rather than fails: nothing tells the worker but the clock
    wait_for(lambda: not any(is_alive(child) for child in children), 2.5)
    time.sleep(1)
    assert is_alive(worker.pid)
    proxy.cut()
    proxy.restore()
    assert worker.ended() == 5
    assert "left as a process should" in worker.text()
    assert jobs.facts(finished).state == "completed"
    assert jobs.facts(finished).attempt == 1
    assert jobs.facts(running).state == "failed"
    assert jobs.facts(running).uncertain
    assert jobs.runs(running) == [(1, "lost")]
    row = "SELECT lost_rule FROM countersign.workers WHERE lost_at IS NOT NULL"
    assert jobs.conn.execute(row).fetchall() == [{"lost_rule": "gave_up"}]


TERMINATE = """
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE application_name = 'countersign worker' AND datname = current_database()
"""


def test_with_its_backends_killed_over_and_over_every_job_runs_once(start_worker, jobs, database):
    owner = database.owner()
    ledger = jobs.path()
    worker = start_worker(processes=2)
    worker.id()
    made = [jobs.add("sample.count", {"path": str(ledger)}) for _ in range(30)]
    give_up = time.monotonic() + 60
    while any(jobs.facts(each).state != "completed" for each in made):
        owner.execute(TERMINATE)
        time.sleep(0.1)
        assert time.monotonic() < give_up
    counted = ledger.read_text().split()
    assert sorted(counted) == sorted(str(each) for each in made)
    assert {outcome for each in made for _, outcome in jobs.runs(each)} <= {"returned"}
    assert worker.end() == 0


def test_a_lock_on_one_job_delays_no_other_and_no_beat(start_worker, jobs, database):
    path = jobs.path()
    worker = start_worker(processes=2, stale_after=2.5)
    made = jobs.add("sample.sleep", {"seconds": 0.2, "path": str(path)})
    jobs.begun(path)
    other = database.connect(autocommit=False)
    cancel(other, [made], by="ops:alice", reason="no_longer_needed")  # and does not commit
    for _ in range(4):
        jobs.ended(jobs.add("sample.sleep", {"seconds": 0.5}), "completed")
    assert jobs.facts(made).state == "running"
    other.commit()
    assert jobs.ended(made, "completed").worker == worker.id()
    assert is_alive(worker.pid)


def test_a_lock_on_a_run_whose_beginning_is_to_be_written_does_not_end_the_worker(
    start_worker, jobs, database
):
    path = jobs.path()
    worker = start_worker(stale_after=2.5)
    blocker = database.connect(autocommit=False)
    made = jobs.add("sample.sleep", {"seconds": 3, "path": str(path)})
    wait_for(lambda: _lock(blocker, made))
    time.sleep(2)
    blocker.rollback()
    assert jobs.ended(made, "completed").attempt == 1
    assert is_alive(worker.pid)


def _lock(blocker, made: UUID):
    row = "SELECT started_at FROM countersign.running WHERE id = %s FOR UPDATE"
    found = blocker.execute(row, [made]).fetchone()
    if not found:
        blocker.rollback()
    return found
