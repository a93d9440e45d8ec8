"""Runs claimed ahead: they wait in a child behind others, and nothing happens to them there."""

import os
import signal
import time
from types import SimpleNamespace
from typing import Any

import pytest

from queue_core import NewJob, cancel, enqueue_many, fleet
from queue_core.worker.children import Child
from queue_core.worker.lead import (
    FIRST,
    LEAD_SECONDS,
    LONGEST_SECONDS,
    MOST,
    PORTION,
    Lead,
)
from tests.queue_core.worker.conftest import is_alive, wait_for

FOR_LONG = {"lead.LONGEST_SECONDS": 60.0}
"""Leads that last, for tests that look at runs while they wait."""


def running(jobs) -> int:
    row = jobs.conn.execute("SELECT count(*) AS n FROM countersign.running").fetchone()
    return row["n"]


def completed(jobs) -> int:
    row = jobs.conn.execute("SELECT count(*) AS n FROM countersign.ended").fetchone()
    return row["n"]


def test_runs_that_are_safe_to_repeat_are_claimed_ahead_and_others_never(start_worker, jobs):
    path = jobs.path()
    head = jobs.add("sample.safe", {"seconds": 3, "path": str(path)}, priority=9)
    careful = [jobs.add("sample.echo", priority=5) for _ in range(3)]
    safe = [jobs.add("sample.safe") for _ in range(FIRST + 2)]
    start_worker(constants=FOR_LONG)
    jobs.begun(path)
    assert [jobs.facts(made).state for made in (*careful, *safe)] == (
        ["ready"] * 3 + ["running"] * (FIRST - 1) + ["ready"] * 3
    )
    for made in (head, *careful, *safe):
        assert jobs.ended(made, "completed").attempt == 1


def test_nothing_is_claimed_ahead_behind_a_run_that_is_not_safe_to_repeat(start_worker, jobs):
    path = jobs.path()
    jobs.add("sample.sleep", {"seconds": 1, "path": str(path)}, priority=9)
    safe = jobs.add("sample.safe")
    start_worker()
    jobs.begun(path)
    assert jobs.facts(safe).state == "ready"
    jobs.ended(safe, "completed")


def test_runs_claimed_ahead_count_towards_the_limit_of_their_name(start_worker, jobs):
    path = jobs.path()
    jobs.add("sample.safe_two", {"seconds": 2, "path": str(path)}, priority=9)
    made = [jobs.add("sample.safe_two") for _ in range(3)]
    start_worker(constants=FOR_LONG)
    jobs.begun(path)
    states = [jobs.facts(each).state for each in made]
    assert states == ["running", "ready", "ready"]
    for each in made:
        assert jobs.ended(each, "completed").attempt == 1


def test_a_crash_is_the_fault_of_the_run_that_went_on_and_the_others_are_given_back(
    start_worker, jobs
):
    before = jobs.add("sample.safe", priority=9)
    dying = jobs.add("sample.safe_die", priority=5)
    behind = [jobs.add("sample.safe") for _ in range(2)]
    start_worker(constants=FOR_LONG)
    for made in behind:
        assert jobs.ended(made, "completed").attempt == 2
        assert jobs.runs(made) == [(1, "returned")]
    assert (jobs.facts(before).state, jobs.runs(before)) == ("completed", [])
    assert jobs.facts(dying).error == "crashed: signal 9"
    assert jobs.runs(dying) == [(1, "crashed")]


def test_a_limit_counts_from_when_a_run_begins_and_so_does_its_beginning(start_worker, jobs):
    made = [jobs.add("sample.safe", {"seconds": 0.9}, time_limit=2) for _ in range(3)]
    start_worker(constants=FOR_LONG)
    facts = [jobs.ended(each, "completed") for each in made]
    assert [each.attempt for each in facts] == [1, 1, 1]
    assert (
        facts[2].started_at - facts[0].started_at >= (facts[1].ended_at - facts[0].ended_at) / 2
    )  # and not when it was handed over
    assert (facts[2].started_at - facts[0].started_at).total_seconds() > 1.7


@pytest.mark.parametrize("name", ["sample.safe", "sample.safe_stubborn"])
def test_behind_a_run_that_is_stopped_at_its_limit_nothing_is_timed_out(start_worker, jobs, name):
    path = jobs.path()
    args = {"path": str(path)} | ({"seconds": 60} if name == "sample.safe" else {})
    slow = jobs.add(name, args, priority=9, time_limit=1.5)
    behind = [jobs.add("sample.safe", time_limit=1) for _ in range(2)]
    start_worker(constants=FOR_LONG | {"force.STOP_SECONDS": 0.3})
    for made in behind:
        assert jobs.ended(made, "completed").attempt == 2
        assert jobs.runs(made) == [(1, "returned")]
    assert jobs.facts(slow).error == "timed out after 1.5s"


def test_what_has_not_begun_is_given_back_when_the_worker_drains(start_worker, jobs):
    path, other = jobs.path(), jobs.path()
    head = jobs.add("sample.safe", {"seconds": 2, "path": str(path)}, priority=9)
    behind = jobs.add("sample.safe", {"path": str(other)})
    worker = start_worker(constants=FOR_LONG)
    jobs.begun(path)
    assert jobs.facts(behind).state == "running"
    assert worker.end() == 0
    assert jobs.facts(head).state == "completed"
    facts = jobs.facts(behind)
    assert (facts.state, facts.attempt, facts.attempts_allowed) == ("ready", 1, 2)
    assert jobs.runs(behind) == [(1, "returned")]
    assert not other.exists()


def test_what_has_not_begun_is_given_back_when_the_grace_ends(start_worker, jobs):
    """The child holds on to the GIL, so that it cannot be asked."""
    path = jobs.path()
    head = jobs.add("sample.safe_stubborn", {"path": str(path)}, priority=9)
    behind = jobs.add("sample.safe")
    worker = start_worker(grace=0.5, constants=FOR_LONG)
    child = jobs.begun(path)
    os.kill(child, signal.SIGSTOP)
    assert worker.end() == 4
    assert jobs.runs(head) == [(1, "lost")]
    assert (jobs.facts(behind).state, jobs.runs(behind)) == ("ready", [(1, "returned")])


def test_what_waits_too_long_behind_a_slow_run_is_given_back(start_worker, jobs):
    path = jobs.path()
    head = jobs.add("sample.safe", {"seconds": 40, "path": str(path)}, priority=9)
    behind = jobs.add("sample.safe")
    start_worker()
    jobs.begun(path)
    jobs.ended(behind, "ready")
    start_worker()
    assert jobs.ended(behind, "completed").attempt == 2
    assert jobs.facts(head).state == "running"
    assert jobs.runs(behind) == [(1, "returned")]


def test_a_job_cancelled_while_its_run_waits_is_cancelled_when_it_is_given_back(start_worker, jobs):
    path, other = jobs.path(), jobs.path()
    jobs.add("sample.safe", {"seconds": 4, "path": str(path)}, priority=9)
    behind = jobs.add("sample.safe", {"path": str(other)})
    start_worker(constants={"lead.LONGEST_SECONDS": 2.0})
    jobs.begun(path)
    cancel(jobs.conn, [behind], by="ops:alice", reason="not_needed")
    jobs.ended(behind, "cancelled")
    assert not other.exists()


def test_a_waiting_run_whose_claim_was_taken_never_begins(start_worker, jobs):
    path, other = jobs.path(), jobs.path()
    head = jobs.add("sample.safe", {"seconds": 4, "path": str(path)}, priority=9)
    behind = jobs.add("sample.safe", {"path": str(other)})
    worker = start_worker(stale_after=2, constants=FOR_LONG)
    child = jobs.begun(path)
    jobs.conn.execute("DELETE FROM countersign.running WHERE id = %s", [behind])
    jobs.ended(head, "completed")
    assert jobs.ended(jobs.add("sample.safe"), "completed").attempt == 1
    assert not other.exists()
    assert is_alive(child)
    assert is_alive(worker.pid)
    assert jobs.runs(behind) == []


def test_a_worker_that_was_declared_lost_leaves_no_run_that_waits(start_worker, jobs):
    path, other = jobs.path(), jobs.path()
    jobs.add("sample.safe", {"seconds": 60, "path": str(path)}, priority=9)
    behind = jobs.add("sample.safe", {"path": str(other)}, attempts=2)
    worker = start_worker(constants=FOR_LONG, stale_after=12)
    jobs.begun(path)
    fleet.bury_dead(jobs.conn, worker.id(), [worker.id()])
    assert worker.ended() == 5
    assert jobs.facts(behind).state == "ready"
    assert not other.exists()
    assert running(jobs) == 0


def test_killed_children_over_and_over_fail_no_run_that_waited(start_worker, jobs):
    worker = start_worker(processes=2)
    made = [jobs.add("sample.safe", {"seconds": 0.01}) for _ in range(300)]
    done = "SELECT count(*) AS n FROM countersign.ended"
    killed = 0
    for step in range(40, 281, 40):
        wait_for(lambda step=step: jobs.conn.execute(done).fetchone()["n"] >= step)
        children = worker.children()
        killed += len(children)
        for child in children:
            os.kill(child, signal.SIGKILL)
    for each in made:
        wait_for(lambda each=each: jobs.facts(each).state in {"completed", "failed"})
        outcomes = [outcome for _, outcome in jobs.runs(each)]
        assert outcomes.count("crashed") == (jobs.facts(each).state == "failed")
        assert set(outcomes) <= {"crashed", "returned"}
    failed = [each for each in made if jobs.facts(each).state == "failed"]
    assert len(failed) <= killed


def test_a_lead_grows_with_quick_runs_and_shrinks_with_slow_ones():
    lead = Lead()
    for _ in range(20):
        lead.took(lead.size, 0.001)
    assert lead.size == MOST
    lead.took(10, 1.0)
    assert lead.size == 10 * LEAD_SECONDS
    lead.took(1, 60.0)
    assert lead.size == 1
    lead.took(1, 0.001)
    assert lead.size == 2


class Stub:
    """A child as a lead sees it: so many runs ended since it was idle, so many wait."""

    def __init__(self, *, ended: int, waiting: int, began: float = 0.0) -> None:
        self.lead, self.ahead = ended, [None] * waiting
        self.lead_began = time.monotonic() - began
        self.takes_more = True
        self.run = SimpleNamespace(claimed=SimpleNamespace(name="safe"))


SAFE: Any = SimpleNamespace(is_safe=lambda name: name == "safe")


def portion(size: int, *children: Any) -> int:
    lead = Lead()
    lead.size = size
    return lead.portion(children, SAFE)


def test_a_long_lead_is_brought_in_portions_while_it_is_worked_on():
    assert portion(MOST, Stub(ended=0, waiting=PORTION)) == 0
    assert portion(MOST, Stub(ended=600, waiting=400)) == PORTION - 400
    assert portion(MOST, Stub(ended=600, waiting=400), Stub(ended=0, waiting=0)) > PORTION
    assert portion(1_500, Stub(ended=600, waiting=400)) == 1_500 - 600 - 400 - 1


def test_no_lead_is_made_longer_so_that_others_get_their_turn():
    assert portion(1_000, Stub(ended=600, waiting=400)) == 0
    assert portion(MOST, Stub(ended=MOST - 1, waiting=0)) == 0
    assert portion(MOST, Stub(ended=600, waiting=400, began=LONGEST_SECONDS)) == 0


def test_a_portion_that_comes_too_late_goes_on_with_the_lead_that_is_over():
    child: Any = object.__new__(Child)
    child._unsent, child.going, child.slots = bytearray(), {}, 1
    child.lead, child.lead_seconds, child.lead_began = 700, 0.01, 5.0
    run: Any = SimpleNamespace(claimed=SimpleNamespace(id=1), begin=lambda: None)
    child.give(run, b"", goes_on=True)
    assert (child.lead, child.lead_began) == (700, 5.0)
    child.going.clear()
    child.give(run, b"")
    assert (child.lead, child.lead_seconds) == (0, 0.0)


def test_many_quick_jobs_are_done_in_long_leads_and_the_others_have_their_turn(start_worker, jobs):
    many = [NewJob("sample.safe")] * 6_000
    enqueue_many(jobs.conn, many)
    careful = jobs.add("sample.echo", priority=-5)
    start_worker()
    jobs.ended(careful, "completed")
    wait_for(lambda: completed(jobs) == len(many) + 1)


def test_a_lead_does_not_grow_with_runs_that_came_one_by_one():
    lead = Lead()
    for _ in range(20):
        lead.took(1, 0.001)
    assert lead.size == FIRST
