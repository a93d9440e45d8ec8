"""What happens when a supervisor dies, stands still, or is given up: rules 1 and 2 of promise 5."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict

import pytest

from queue_core import fleet, retry
from queue_core.worker import WorkerOptions, processes
from tests.queue_core.worker.conftest import is_alive, stat, wait_for


@pytest.mark.parametrize("name", ["sample.sleep", "sample.gil"])
def test_no_child_outlives_a_killed_supervisor_and_the_next_worker_recovers(
    start_worker, jobs, name
):
    path = jobs.path()
    worker = start_worker(processes=2)
    made = jobs.add(name, {"seconds": 60, "path": str(path)}, attempts=2)
    child = jobs.begun(path)
    guard = worker.guard()
    worker.send(signal.SIGKILL)  # and not waited for: a zombie is as gone as any
    wait_for(lambda: not is_alive(child) and not worker.children(), 1)
    path.unlink()
    again = start_worker()
    again.id()
    wait_for(lambda: jobs.runs(made) == [(1, "lost")], 2)
    jobs.begun(path)
    assert jobs.facts(made).attempt == 2
    wait_for(lambda: not is_alive(guard))
    lost = jobs.conn.execute("SELECT lost_rule FROM countersign.workers WHERE lost_at IS NOT NULL")
    assert lost.fetchall() == [{"lost_rule": "same_host"}]


def test_what_a_handler_started_dies_with_the_supervisor_too(start_worker, jobs):
    path = jobs.path()
    worker = start_worker()
    jobs.add("sample.parent", {"path": str(path)})
    jobs.begun(path)
    left = jobs.begun(path.with_name(path.name + ".child"))
    worker.send(signal.SIGKILL)
    wait_for(lambda: not is_alive(left), 1)


@pytest.mark.parametrize("name", ["sample.sleep", "sample.gil"])
def test_a_stopped_supervisor_loses_its_children_before_the_job_runs_elsewhere(
    start_worker, jobs, name
):
    path = jobs.path()
    stopped = start_worker(stale_after=2.5)
    made = jobs.add(name, {"seconds": 60, "path": str(path)}, attempts=2)
    child = jobs.begun(path)
    other = start_worker(stale_after=2.5)
    other.id()
    time.sleep(0.2)  # a beat or two
    stopped.send(signal.SIGSTOP)
    path.unlink()
    second = jobs.begun(path)
    assert stat(child) is None
    assert second != child
    before = jobs.runs(made)
    assert before == [(1, "lost")]

    stopped.send(signal.SIGCONT)
    facts = jobs.ended(made, "needs_review")
    assert facts.why == "disputed"
    assert stopped.ended() == 5
    wait_for(lambda: not is_alive(second))
    told = [(1, "late_failed"), (1, "lost"), (2, "late_failed"), (2, "lost")]
    wait_for(lambda: sorted(jobs.runs(made)) == told)
    assert jobs.facts(made).state == "needs_review"
    assert is_alive(other.pid)


def test_a16_a_result_that_comes_too_late_sends_its_job_to_review(start_worker, jobs):
    path = jobs.path()
    stopped = start_worker(stale_after=2.5)
    made = jobs.add("sample.sleep", {"seconds": 0.5, "path": str(path)}, attempts=1)
    jobs.begun(path)
    stopped.send(signal.SIGSTOP)  # the run ends meanwhile, and its report lies unread
    other = start_worker(stale_after=2.5)
    jobs.ended(made, "failed")
    assert jobs.facts(made).error == "abandoned by its worker"
    stopped.send(signal.SIGCONT)
    assert jobs.ended(made, "needs_review").why == "disputed"
    assert stopped.ended() == 5
    assert sorted(jobs.runs(made)) == [(1, "late_completed"), (1, "lost")]
    assert is_alive(other.pid)


def test_a_late_report_leaves_a_job_alone_that_has_completed_elsewhere(start_worker, jobs):
    path = jobs.path()
    stopped = start_worker(stale_after=2.5)
    args = {"seconds": 0.5, "path": str(path)}
    made = jobs.add("sample.sleep", args, attempts=2)
    jobs.begun(path)
    stopped.send(signal.SIGSTOP)
    start_worker(stale_after=2.5)
    jobs.ended(made, "completed")
    stopped.send(signal.SIGCONT)
    assert stopped.ended() == 5
    assert (jobs.facts(made).state, jobs.facts(made).attempt) == ("completed", 2)
    assert sorted(jobs.runs(made)) == [(1, "late_completed"), (1, "lost")]


def test_a_worker_that_was_declared_lost_stops_its_runs_and_exits(start_worker, jobs, database):
    path = jobs.path()
    worker = start_worker(stale_after=90)  # long before it would notice by the clock
    made = jobs.add("sample.sleep", {"seconds": 60, "path": str(path)})
    child = jobs.begun(path)
    fleet.bury_dead(jobs.conn, worker.id(), [worker.id()])
    assert worker.ended() == 5
    assert not is_alive(child)
    assert jobs.facts(made).state == "needs_review"
    assert sorted(jobs.runs(made)) == [(1, "late_failed"), (1, "lost")]


def test_a_run_whose_claim_was_taken_is_stopped_and_its_job_disputed(start_worker, jobs):
    path = jobs.path()
    worker = start_worker(stale_after=2)
    made = jobs.add("sample.sleep", {"seconds": 60, "path": str(path)}, queue="odd")
    child = jobs.begun(path)
    jobs.conn.execute(
        "WITH gone AS (DELETE FROM countersign.running WHERE id = %s RETURNING *)"
        " INSERT INTO countersign.ended (id, state, attempt, error)"
        " SELECT id, 'failed', attempt, 'abandoned by its worker' FROM gone",
        [made],
    )
    assert jobs.ended(made, "needs_review").why == "disputed"
    assert not is_alive(child)
    assert is_alive(worker.pid)
    after = jobs.add("sample.echo", {"value": 1})
    jobs.ended(after, "completed")
    retried = jobs.add("sample.raise", attempts=1)
    jobs.ended(retried, "failed")
    assert retry(jobs.conn, [retried], by="ops:alice", reason="looked_at_it")[0].applied


def test_a_dead_guard_is_replaced_and_knows_everything(start_worker, jobs):
    path = jobs.path()
    worker = start_worker(stale_after=2)
    jobs.add("sample.gil", {"seconds": 60, "path": str(path)})
    child = jobs.begun(path)
    first = worker.guard()
    os.kill(first, signal.SIGKILL)
    wait_for(lambda: worker.lines("the guard died"))
    assert worker.guard() != first
    worker.send(signal.SIGSTOP)
    wait_for(lambda: not is_alive(child), 2.5)


def test_a14_a_silent_worker_is_declared_lost_only_after_a_whole_stale_time(start_worker, jobs):
    """A worker elsewhere, silent for hours: the judge first has to prove its own ear."""
    elsewhere = fleet.Identity("pay-9", 7, "another boot", "pid:[2]", "0.1.0", [], 1)
    silent = fleet.register(jobs.conn, elsewhere)
    jobs.conn.execute(
        "UPDATE countersign.workers SET beat_at = now() - interval '3 hours' WHERE id = %s",
        [silent],
    )
    worker = start_worker(stale_after=2)
    worker.id()
    started = time.monotonic()
    row = "SELECT lost_rule, lost_by FROM countersign.workers WHERE id = %s AND lost_at IS NOT NULL"
    found = wait_for(lambda: jobs.conn.execute(row, [silent]).fetchone())
    assert found == {"lost_rule": "stale", "lost_by": worker.id()}
    assert time.monotonic() - started > 1.5


def test_a_worker_of_an_earlier_life_with_our_own_pid_is_gone(start_worker, jobs):
    worker = start_worker()
    ours = jobs.conn.execute(
        "SELECT host, boot_id, pid_namespace FROM countersign.workers WHERE id = %s", [worker.id()]
    ).fetchone()
    assert ours
    earlier = fleet.Identity(pid=worker.pid, version="0.1.0", queues=[], slots=1, **ours)
    dead = fleet.register(jobs.conn, earlier)
    lost = "SELECT lost_rule FROM countersign.workers WHERE id = %s AND lost_at IS NOT NULL"
    found = wait_for(lambda: jobs.conn.execute(lost, [dead]).fetchone())
    assert found == {"lost_rule": "same_host"}


def test_a_worker_buries_at_its_start_whoever_it_can_prove_dead_and_nobody_else(start_worker, jobs):
    """The others are in other containers, on other machines, or from before the last boot."""
    us = processes.identity(WorkerOptions("host=nowhere", "module"), 1)
    ours = {**asdict(us), "pid": os.getpid()}
    live = fleet.register(jobs.conn, fleet.Identity(**ours))
    number_reused = {**ours, "process_start": f"1 {(us.process_start or '').partition(' ')[2]}"}
    gone = {**ours, "pid": _free_pid()}
    dead = [fleet.register(jobs.conn, fleet.Identity(**each)) for each in (number_reused, gone)]
    elsewhere = [
        fleet.register(jobs.conn, fleet.Identity(**{**gone, **other}))
        for other in ({"pid_namespace": "pid:[1]"}, {"boot_id": "before"}, {"host": "pay-9"})
    ]
    worker = start_worker()
    worker.id()
    rules = {
        row["id"]: row["lost_rule"]
        for row in jobs.conn.execute("SELECT id, lost_rule FROM countersign.workers")
    }
    assert [rules[each] for each in dead] == ["same_host"] * 2
    assert [rules[each] for each in (live, *elsewhere, worker.id())] == [None] * 5


def _free_pid() -> int:
    """Return a number that no process has: of one that has just ended, since they go round."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_the_first_claim_of_a_restarted_worker_finds_what_the_last_one_left(start_worker, jobs):
    """With default settings, and in its old place: before what came since."""
    path = jobs.path()
    worker = start_worker(stale_after=60.0)
    made = jobs.add("sample.sleep", {"seconds": 60, "path": str(path)}, attempts=2)
    jobs.begun(path)
    worker.send(signal.SIGKILL)
    worker.ended()
    path.unlink()
    jobs.add("sample.sleep", {"seconds": 60})
    start_worker(stale_after=60.0, constants={"maintenance.EVERY_SECONDS": 600.0}).id()
    jobs.begun(path)
    assert (jobs.facts(made).attempt, jobs.runs(made)) == (2, [(1, "lost")])
