"""Confirm: a person found out that a job in review did run."""

from typing import Any

import pytest

from queue_core import confirm, release
from queue_core.outcomes import Completed, Failed, RunReport
from queue_core.queries.facts import job
from queue_core.queries.places import locate
from queue_core.queries.runs import runs_of
from queue_core.transitions.dispute import dispute
from queue_core.transitions.fail import fail

SIGNED: dict[str, Any] = {"by": "ops:alice", "reason": "seen_at_the_bank"}


def test_a_confirmed_job_is_completed_and_says_who_confirmed_it(conn, job_in) -> None:
    made = job_in(conn, "needs_review")

    (outcome,) = confirm(conn, [made.id], **SIGNED)

    assert (outcome.act, outcome.state, outcome.attempt) == ("confirmed", "completed", 1)
    facts = job(conn, made.id)
    assert facts
    assert (facts.state, facts.attempt, facts.confirmed_by) == ("completed", 1, "ops:alice")
    assert (facts.worker, facts.started_at, facts.has_result) == (None, None, False)
    assert not facts.uncertain
    assert facts.ended_at


def test_what_is_known_of_the_earlier_run_stays(conn, job_in) -> None:
    made = job_in(conn, "needs_review")
    confirm(conn, [made.id], **SIGNED)

    (run,) = runs_of(conn, made.id)

    assert (run.attempt, run.worker, run.error) == (1, made.worker, "not JSON")
    assert conn.execute("SELECT * FROM countersign.review").fetchall() == []


def test_only_the_jobs_named_are_confirmed(conn, job_in) -> None:
    one, other = job_in(conn, "needs_review"), job_in(conn, "needs_review")
    confirm(conn, [one.id], **SIGNED)
    assert locate(conn, [other.id])[other.id].state == "needs_review"


def test_a_confirmed_job_never_runs_again(conn, job_in) -> None:
    made = job_in(conn, "needs_review")
    confirm(conn, [made.id], **SIGNED)

    (refused,) = release(conn, [made.id], **SIGNED)

    assert (refused.applied, refused.why, refused.state) == (False, "wrong_state", "completed")


def test_a_late_report_leaves_a_confirmed_job_alone_and_is_kept(conn, job_in) -> None:
    made = job_in(conn, "running", on_lost="review")
    crash = Failed("crashed: signal 9", "crashed", signal=9)
    fail(conn, made.worker, [made.report(crash)])
    confirm(conn, [made.id], **SIGNED)

    dispute(conn, made.worker, [RunReport(made.id, 1, Completed())])

    assert [run.outcome for run in runs_of(conn, made.id)] == ["crashed", "late_completed"]
    facts = job(conn, made.id)
    assert facts
    assert (facts.state, facts.confirmed_by) == ("completed", "ops:alice")


@pytest.mark.parametrize("place", ["completed", "failed", "cancelled", "ready", "needs_review"])
def test_no_other_job_is_said_to_be_confirmed(conn, job_in, place: str) -> None:
    facts = job(conn, job_in(conn, place).id)
    assert facts
    assert facts.confirmed_by is None


def test_a_job_whose_body_is_gone_can_be_confirmed(database, job_in) -> None:
    conn = database.connect()
    made = job_in(conn, "needs_review")
    database.owner().execute("DELETE FROM countersign.jobs")

    (outcome,) = confirm(conn, [made.id], **SIGNED)

    assert (outcome.applied, outcome.state) == (True, "completed")
    (act,) = conn.execute("SELECT act, subject_name FROM countersign.acts").fetchall()
    assert act == {"act": "confirmed", "subject_name": "unknown"}
