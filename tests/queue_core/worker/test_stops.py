"""Runs that are asked to stop: their handlers hear it soon, and decide."""

import signal
from collections.abc import Mapping
from typing import Any
from uuid import UUID

import pytest

from queue_core import cancel
from queue_core.worker.heartbeat import HEAR_SECONDS
from queue_core.worker.intake import POLL_SECONDS
from tests.queue_core.worker.conftest import is_alive, wait_for

NO_BEAT_HELPS: Mapping[str, Any] = {"stale_after": 1_200.0}
"""A beat every hundred seconds: what is heard within the tests' patience was heard between."""


def ask(jobs, made: UUID, kill_after: int | None = None) -> None:
    (outcome,) = cancel(jobs.conn, [made], by="ops:alice", reason="too_slow", kill_after=kill_after)
    assert outcome.act == "cancel_requested"


def test_a_request_to_stop_is_looked_for_as_often_as_jobs_are() -> None:
    assert HEAR_SECONDS <= POLL_SECONDS


@pytest.mark.parametrize("processes", [1, 2])
def test_case_64_a_cancel_is_heard_by_the_run_on_a_full_worker_and_an_idle_one(
    start_worker, jobs, processes: int
) -> None:
    """Nobody is notified here: the run hears it since its worker looks."""
    path = jobs.path()
    start_worker(processes=processes, **NO_BEAT_HELPS)
    made = jobs.add("sample.heed", {"path": str(path)})
    jobs.begun(path)
    ask(jobs, made)
    assert jobs.ended(made, "completed", 10).state == "completed"  # its result stands
    assert jobs.result(made) == ["cancelled"]


def test_a_run_that_stops_for_a_cancel_ends_its_job_cancelled(start_worker, jobs) -> None:
    path = jobs.path()
    start_worker(**NO_BEAT_HELPS)
    made = jobs.add("sample.obey", {"path": str(path)}, attempts=3)
    jobs.begun(path)
    ask(jobs, made)
    facts = jobs.ended(made, "cancelled")
    assert (facts.attempt, facts.uncertain, facts.error) == (
        1,
        False,
        "Stopped: asked by cancelled",
    )
    assert jobs.runs(made) == [(1, "stopped")]


def test_case_67_a_run_that_stops_for_a_shutdown_goes_back_and_costs_no_attempt(
    start_worker, jobs
) -> None:
    path = jobs.path()
    worker = start_worker()
    made = jobs.add("sample.obey", {"path": str(path)})
    jobs.begun(path)
    assert worker.end() == 0
    facts = jobs.facts(made)
    assert (facts.state, facts.attempt, facts.attempts_allowed) == ("ready", 1, 2)
    assert jobs.runs(made) == [(1, "returned")]


def test_a_run_hears_that_its_worker_shuts_down(start_worker, jobs) -> None:
    path = jobs.path()
    worker = start_worker()
    made = jobs.add("sample.heed", {"path": str(path)})
    jobs.begun(path)
    assert worker.end() == 0
    assert (jobs.facts(made).state, jobs.result(made)) == ("completed", ["shutdown"])


def test_a_worker_that_drains_still_hears_that_a_job_was_cancelled(start_worker, jobs) -> None:
    path = jobs.path()
    worker = start_worker(grace=40, **NO_BEAT_HELPS)
    made = jobs.add("sample.heed", {"path": str(path), "only": "cancelled"})
    jobs.begun(path)
    worker.send(signal.SIGTERM)
    wait_for(path.with_name(f"{path.name}.shutdown").exists)
    ask(jobs, made)
    assert worker.ended() == 0
    assert (jobs.facts(made).state, jobs.result(made)) == ("completed", ["shutdown", "cancelled"])


def test_a_cancelled_run_that_has_not_begun_never_begins(start_worker, jobs) -> None:
    path, other = jobs.path(), jobs.path()
    head = jobs.add("sample.safe", {"seconds": 60, "path": str(path)}, priority=9)
    behind = jobs.add("sample.safe", {"path": str(other)})
    start_worker(constants={"lead.LONGEST_SECONDS": 120.0}, **NO_BEAT_HELPS)
    jobs.begun(path)
    jobs.ended(behind, "running")
    ask(jobs, behind)
    jobs.ended(behind, "cancelled")
    assert (jobs.facts(head).state, jobs.runs(behind)) == ("running", [(1, "returned")])
    assert not other.exists()


@pytest.mark.parametrize("name", ["sample.sleep", "sample.stubborn"])
def test_a_run_that_does_not_stop_in_its_seconds_is_killed_and_its_job_cancelled(
    start_worker, jobs, name: str
) -> None:
    """With a TERM first, which a handler may use to tidy up, or not heed at all."""
    path, tidied, beside = jobs.path(), jobs.path(), jobs.path()
    start_worker(processes=2, constants={"force.STOP_SECONDS": 0.5}, **NO_BEAT_HELPS)
    more = {"seconds": 60, "tidied": str(tidied)} if name == "sample.sleep" else {}
    made = jobs.add(name, {"path": str(path)} | more, attempts=3)
    other = jobs.add("sample.heed", {"path": str(beside)})
    jobs.begun(beside)
    child = jobs.begun(path)
    ask(jobs, made, kill_after=1)
    facts = jobs.ended(made, "cancelled")
    assert (facts.uncertain, facts.error) == (True, "killed 1s after it was asked to stop")
    assert jobs.runs(made) == [(1, "stopped")]
    assert tidied.exists() == (name == "sample.sleep")
    assert not is_alive(child)
    assert jobs.facts(other).state == "running"  # its neighbour goes on


def test_a_run_that_was_asked_and_goes_on_is_killed_once_a_second_request_says_so(
    start_worker, jobs
) -> None:
    path, heard = jobs.path(), jobs.path()
    start_worker(processes=2, constants={"force.STOP_SECONDS": 0.5}, **NO_BEAT_HELPS)
    made = jobs.add("sample.stubborn", {"path": str(path)}, attempts=3)
    beside = jobs.add("sample.heed", {"path": str(heard)})
    child = jobs.begun(path)
    jobs.begun(heard)
    ask(jobs, made)
    ask(jobs, beside)  # once this one has heard, so has the other
    jobs.ended(beside, "completed")
    ask(jobs, made, kill_after=1)
    facts = jobs.ended(made, "cancelled")
    assert (facts.uncertain, facts.error) == (True, "killed 1s after it was asked to stop")
    assert not is_alive(child)


def test_a_run_that_ends_in_its_seconds_is_not_killed(start_worker, jobs) -> None:
    path, after = jobs.path(), jobs.path()
    worker = start_worker(**NO_BEAT_HELPS)
    made = jobs.add("sample.heed", {"path": str(path)})
    child = jobs.begun(path)
    ask(jobs, made, kill_after=1)
    jobs.ended(made, "completed")
    assert jobs.result(made) == ["cancelled"]
    jobs.add("sample.sleep", {"seconds": 1.5, "path": str(after)})
    assert jobs.begun(after) == child
    assert worker.end() == 0  # and the next run of the child is left alone, too
    assert [row["state"] for row in jobs.conn.execute(STATES)] == ["completed", "completed"]


STATES = "SELECT state FROM countersign.job_states"
