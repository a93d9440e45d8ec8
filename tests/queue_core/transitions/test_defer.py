"""Defer: the handler put its job back; that uses up no attempt."""

import uuid
from datetime import timedelta

from queue_core import cancel
from queue_core.outcomes import Deferred, RunReport
from queue_core.queries.runs import own_record, runs_of
from queue_core.transitions.claim import Claimable, claim
from queue_core.transitions.defer import defer
from queue_core.transitions.promote import promote

WAITING = "SELECT waiting.*, now() AS now FROM countersign.waiting WHERE waiting.id = %s"


def test_a_deferred_job_waits_as_long_as_it_asked_and_keeps_its_attempts(conn, job_in) -> None:
    made = job_in(conn, "running", attempts=2)
    (moved,) = defer(conn, made.worker, [made.report(Deferred(12.5), seconds=3.0, child_pid=77)])
    assert (moved.state, moved.attempt) == ("waiting", 1)
    waiting = conn.execute(WAITING, [made.id]).fetchone()
    assert waiting["run_at"] == waiting["now"] + timedelta(seconds=12.5)
    assert (waiting["attempt"], waiting["attempts_allowed"]) == (1, 3)
    (run,) = runs_of(conn, made.id)
    assert (run.outcome, run.worker, run.child_pid, run.error) == (
        "deferred",
        made.worker,
        77,
        None,
    )
    assert run.started_at == waiting["now"] - timedelta(seconds=3)


def test_a_job_with_one_attempt_may_defer_itself_for_ever(conn, job_in) -> None:
    made = job_in(conn, "running")
    for attempt in range(1, 6):
        defer(conn, made.worker, [RunReport(made.id, attempt, Deferred(0.0))])
        assert promote(conn) == 1
        names = [Claimable("mail.send")]
        (run,) = claim(conn, worker=made.worker, names=names, queues=[made.queue], count=1)
        assert (run.attempt, run.attempts_allowed - run.attempt) == (attempt + 1, 0)


def test_after_a_request_to_stop_the_job_is_cancelled_and_does_not_go_back(conn, job_in) -> None:
    made = job_in(conn, "running")
    cancel(conn, [made.id], by="ops:alice", reason="not_needed")
    (moved,) = defer(conn, made.worker, [made.report(Deferred(1.0))])
    assert moved.state == "cancelled"
    ended = conn.execute("SELECT * FROM countersign.ended WHERE id = %s", [made.id]).fetchone()
    assert (ended["state"], ended["uncertain"], ended["worker"]) == (
        "cancelled",
        False,
        made.worker,
    )
    assert [run.outcome for run in runs_of(conn, made.id)] == ["deferred"]
    assert conn.execute(WAITING, [made.id]).fetchall() == []


def test_a_wrong_attempt_or_worker_or_a_second_report_changes_nothing(
    conn, job_in, contents
) -> None:
    made = job_in(conn, "running")
    before = contents(conn)
    for attempt, worker in ((2, made.worker), (1, uuid.uuid4())):
        assert defer(conn, worker, [RunReport(made.id, attempt, Deferred(1.0))]) == []
    assert contents(conn) == before
    defer(conn, made.worker, [made.report(Deferred(1.0))])
    before = contents(conn)
    assert defer(conn, made.worker, [made.report(Deferred(1.0))]) == []
    assert contents(conn) == before
    assert own_record(conn, made.worker, [(made.id, 1)]) == {(made.id, 1)}


def test_a_late_report_in_the_batch_of_the_run_that_holds_the_claim_does_not_count(
    conn, job_in
) -> None:
    made = job_in(conn, "running")
    conn.execute("UPDATE countersign.running SET attempt = 2")
    reports = [RunReport(made.id, 1, Deferred(1.0)), RunReport(made.id, 2, Deferred(99.0))]
    (moved,) = defer(conn, made.worker, reports)
    assert moved.attempt == 2
    waiting = conn.execute(WAITING, [made.id]).fetchone()
    assert waiting["run_at"] == waiting["now"] + timedelta(seconds=99)
