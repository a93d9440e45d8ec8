"""Retry: a person gives a failed or cancelled job exactly one more attempt."""

from datetime import timedelta
from typing import Any

from queue_core import cancel, enqueue, retry
from queue_core.outcomes import Failed
from queue_core.queries.acts import acts_of
from queue_core.queries.places import locate
from queue_core.queries.runs import runs_of
from queue_core.transitions.claim import Claimable, claim
from queue_core.transitions.fail import fail

SIGNED: dict[str, Any] = {"by": "ops:alice", "reason": "fixed_the_cause"}
GENEROUS = [Claimable("mail.send", attempts=5)]
READY = "SELECT ready.*, now() AS now FROM countersign.ready WHERE ready.id = %s"


def test_a_failed_job_gets_exactly_one_more_try(conn, job_in) -> None:
    made = job_in(conn, "failed")
    (outcome,) = retry(conn, [made.id], **SIGNED)
    assert (outcome.act, outcome.state, outcome.attempt) == ("retried", "ready", 1)
    (run,) = claim(conn, worker=made.worker, names=GENEROUS, queues=[made.queue], count=1)
    assert (run.id, run.attempt, run.attempts_allowed) == (made.id, 2, 2)
    report = made.report(Failed("again"))
    (moved,) = fail(conn, made.worker, [type(report)(made.id, 2, Failed("again"), wait=1.0)])
    assert moved.state == "failed"


def test_a_retried_job_is_due_now_and_joins_the_end_of_its_priority(conn, registry) -> None:
    job = enqueue(conn, "mail.send", queue="q", priority=7, delay=3_600.0).id
    cancel(conn, [job], **SIGNED)
    retry(conn, [job], **SIGNED)
    ready = conn.execute(READY, [job]).fetchone()
    assert ready["run_at"] == ready["now"]
    assert (ready["rank"], ready["queue"], ready["name"]) == (-7, "q", "mail.send")
    assert (ready["attempt"], ready["attempts_allowed"]) == (0, 1)


def test_a_cancelled_job_that_never_ran_gets_one_attempt_whatever_it_asked_for(
    conn, registry
) -> None:
    job = enqueue(conn, "mail.send", queue="q", attempts=9).id
    cancel(conn, [job], **SIGNED)
    retry(conn, [job], **SIGNED)
    assert conn.execute(READY, [job]).fetchone()["attempts_allowed"] == 1


def test_the_last_error_stays_until_the_next_run_ends(conn, job_in) -> None:
    made = job_in(conn, "failed")
    retry(conn, [made.id], **SIGNED)
    (run,) = runs_of(conn, made.id)
    assert (run.attempt, run.outcome, run.error) == (1, "failed", "ValueError: no such address")


def test_attempts_keep_rising_over_many_retries(conn, job_in) -> None:
    made = job_in(conn, "failed")
    for attempt in (2, 3, 4):
        retry(conn, [made.id], **SIGNED)
        (run,) = claim(conn, worker=made.worker, names=GENEROUS, queues=[made.queue], count=1)
        assert run.attempt == attempt
        report = made.report(Failed("no"))
        fail(conn, made.worker, [type(report)(made.id, attempt, Failed("no"))])
    assert [act.attempt for act in acts_of(conn, made.id)] == [1, 2, 3]
    assert locate(conn, [made.id])[made.id].attempt == 4


def test_a_job_that_waited_for_days_is_not_claimed_before_its_elders_after_a_retry(
    conn, registry
) -> None:
    old = enqueue(conn, "mail.send", queue="q").id
    cancel(conn, [old], **SIGNED)
    now = conn.execute("SELECT now() AS now").fetchone()["now"]
    elder = enqueue(conn, "mail.send", queue="q", run_at=now - timedelta(seconds=1)).id
    retry(conn, [old], **SIGNED)
    runs = claim(conn, worker=old, names=GENEROUS, queues=["q"], count=2)
    assert [run.id for run in runs] == [elder, old]
