"""Close: a person decides that a job in review is never to run again."""

from typing import Any

import pytest

from queue_core import close, retry
from queue_core.outcomes import Completed, Failed, RunReport
from queue_core.queries.facts import job
from queue_core.queries.jobs import list_jobs
from queue_core.queries.places import locate
from queue_core.queries.runs import runs_of
from queue_core.transitions.claim import Claimable, claim
from queue_core.transitions.dispute import dispute
from queue_core.transitions.fail import fail

SIGNED: dict[str, Any] = {"by": "ops:alice", "reason": "customer_gave_up"}


def test_a_closed_job_is_cancelled(conn, job_in) -> None:
    made = job_in(conn, "needs_review")

    (outcome,) = close(conn, [made.id], **SIGNED)

    assert (outcome.act, outcome.state, outcome.attempt) == ("closed", "cancelled", 1)
    facts = job(conn, made.id)
    assert facts
    assert (facts.state, facts.attempt, facts.worker) == ("cancelled", 1, None)
    assert (facts.error, facts.confirmed_by) == ("not JSON", None)
    assert [row.error for row in list_jobs(conn, "cancelled").rows] == ["not JSON"]
    assert conn.execute("SELECT * FROM countersign.review").fetchall() == []


def test_only_the_jobs_named_are_closed(conn, job_in) -> None:
    one, other = job_in(conn, "needs_review"), job_in(conn, "needs_review")
    close(conn, [one.id], **SIGNED)
    assert locate(conn, [other.id])[other.id].state == "needs_review"


def crashes(conn, made) -> None:
    fail(conn, made.worker, [made.report(Failed("crashed: signal 9", "crashed", signal=9))])


def is_disputed(conn, made) -> None:
    fail(conn, made.worker, [made.report(Failed("no"))])
    dispute(conn, made.worker, [RunReport(made.id, 0, Completed())])


@pytest.mark.parametrize("enters_review", [crashes, is_disputed])
def test_a_job_that_may_have_run_stays_uncertain_when_closed(conn, job_in, enters_review) -> None:
    made = job_in(conn, "running", on_lost="review")
    enters_review(conn, made)

    close(conn, [made.id], **SIGNED)

    facts = job(conn, made.id)
    assert facts
    assert (facts.state, facts.uncertain) == ("cancelled", True)


def test_a_job_whose_code_was_never_entered_is_closed_without_doubt(conn, job_in) -> None:
    made = job_in(conn, "needs_review")

    close(conn, [made.id], **SIGNED)

    facts = job(conn, made.id)
    assert facts
    assert not facts.uncertain


def test_a_closed_job_can_be_retried_for_one_more_attempt(conn, job_in) -> None:
    made = job_in(conn, "needs_review")
    close(conn, [made.id], **SIGNED)

    (outcome,) = retry(conn, [made.id], **SIGNED)

    assert (outcome.act, outcome.state) == ("retried", "ready")
    names = [Claimable("mail.send")]
    (run,) = claim(conn, worker=made.worker, names=names, queues=[made.queue], count=1)
    assert (run.attempt, run.attempts_allowed) == (2, 2)


def test_a_late_report_leaves_a_closed_job_alone_and_is_kept(conn, job_in) -> None:
    made = job_in(conn, "running", on_lost="review")
    crashes(conn, made)
    close(conn, [made.id], **SIGNED)

    dispute(conn, made.worker, [RunReport(made.id, 1, Completed())])

    assert [run.outcome for run in runs_of(conn, made.id)] == ["crashed", "late_completed"]
    assert locate(conn, [made.id])[made.id].state == "cancelled"


def test_a_job_whose_body_is_gone_can_be_closed(database, job_in) -> None:
    conn = database.connect()
    made = job_in(conn, "needs_review")
    database.owner().execute("DELETE FROM countersign.jobs")

    (outcome,) = close(conn, [made.id], **SIGNED)

    assert (outcome.applied, outcome.state) == (True, "cancelled")
    (act,) = conn.execute("SELECT act, subject_name FROM countersign.acts").fetchall()
    assert act == {"act": "closed", "subject_name": "unknown"}
