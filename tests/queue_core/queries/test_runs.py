"""Runs: what is told of those that did not complete their job, and whose record one is."""

import uuid
from datetime import timedelta

import pytest

from queue_core.outcomes import Completed, Deferred, Failed
from queue_core.queries.runs import own_record, runs_of
from queue_core.transitions.complete import complete
from queue_core.transitions.defer import defer
from queue_core.transitions.dispute import dispute
from queue_core.transitions.fail import fail
from queue_core.transitions.give_back import give_back
from queue_core.transitions.recover import recover
from tests.conftest import CANARY


def test_a_run_is_told_with_all_that_is_known_of_it(conn, job_in) -> None:
    made = job_in(conn, "running")
    failed = Failed(CANARY, error_type="ValueError", error_place="mail:send", traceback=CANARY)
    fail(conn, made.worker, [made.report(failed, seconds=3.0, child_pid=77)])
    (run,) = runs_of(conn, made.id)
    assert (run.attempt, run.outcome, run.worker, run.child_pid) == (1, "failed", made.worker, 77)
    assert (run.signal, run.error, run.error_type) == (None, CANARY, "ValueError")
    assert (run.error_place, run.traceback) == ("mail:send", CANARY)
    assert run.started_at
    assert run.claimed_at
    assert run.ended_at - run.started_at == timedelta(seconds=3)
    assert CANARY not in repr(run)


def test_a_job_that_only_completed_or_never_ran_has_no_such_run(conn, job_in) -> None:
    for place in ("completed", "ready", "running"):
        assert runs_of(conn, job_in(conn, place).id) == []
    assert runs_of(conn, uuid.uuid4()) == []


def test_runs_come_oldest_first(conn, job_in) -> None:
    made = job_in(conn, "running")
    for attempt in (12, 2, 7, 11):
        conn.execute(
            "INSERT INTO countersign.runs (job_id, attempt, outcome) VALUES (%s, %s, 'failed')",
            [made.id, attempt],
        )
    assert [run.attempt for run in runs_of(conn, made.id)] == [2, 7, 11, 12]


def test_an_end_that_a_worker_recorded_itself_is_its_own(conn, job_in) -> None:
    made = {
        way: job_in(conn, "running", attempts=2) for way in ("complete", "fail", "defer", "return")
    }
    complete(conn, made["complete"].worker, [made["complete"].report(Completed())])
    fail(conn, made["fail"].worker, [made["fail"].report(Failed("x"))])
    defer(conn, made["defer"].worker, [made["defer"].report(Deferred(1))])
    give_back(conn, made["return"].worker, [(made["return"].id, 1)])
    for each in made.values():
        assert own_record(conn, each.worker, [(each.id, 1)]) == {(each.id, 1)}
        assert own_record(conn, each.worker, [(each.id, 2), (uuid.uuid4(), 1)]) == set()
        assert own_record(conn, uuid.uuid4(), [(each.id, 1)]) == set()


@pytest.mark.parametrize("ending", [Completed(), Failed("x")])
def test_what_others_recorded_or_came_late_is_not_its_own(conn, job_in, ending) -> None:
    made = job_in(conn, "running", attempts=2)
    conn.execute("UPDATE countersign.workers SET stopped_at = now() WHERE id = %s", [made.worker])
    recover(conn)
    assert own_record(conn, made.worker, [(made.id, 1)]) == set()
    dispute(conn, made.worker, [made.report(ending)])
    assert {run.outcome for run in runs_of(conn, made.id)} > {"lost"}
    assert own_record(conn, made.worker, [(made.id, 1)]) == set()


def test_a_person_ending_the_job_is_no_record_of_the_run(conn, job_in) -> None:
    made = job_in(conn, "running")
    assert own_record(conn, made.worker, [(made.id, 1)]) == set()
    cancelled = job_in(conn, "cancelled")
    assert own_record(conn, cancelled.worker, [(cancelled.id, 0)]) == set()
    assert own_record(conn, made.worker, []) == set()
