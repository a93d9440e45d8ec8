"""Release: a person looked at a job in review and lets it run again."""

from typing import Any

from queue_core import release
from queue_core.outcomes import Failed, RunReport
from queue_core.queries.places import locate
from queue_core.queries.runs import runs_of
from queue_core.transitions.claim import Claimable, claim
from queue_core.transitions.fail import fail

SIGNED: dict[str, Any] = {"by": "ops:alice", "reason": "did_not_run"}
GENEROUS = [Claimable("mail.send", attempts=5)]


def test_a_released_job_gets_exactly_one_more_attempt_due_now(conn, job_in) -> None:
    made = job_in(conn, "needs_review", attempts=4)
    (outcome,) = release(conn, [made.id], **SIGNED)
    assert (outcome.act, outcome.state, outcome.attempt) == ("released", "ready", 1)
    ready = conn.execute("SELECT *, now() AS now FROM countersign.ready").fetchone()
    assert (ready["id"], ready["run_at"]) == (made.id, ready["now"])
    (run,) = claim(conn, worker=made.worker, names=GENEROUS, queues=[made.queue], count=1)
    assert (run.attempt, run.attempts_allowed) == (2, 2)
    (moved,) = fail(conn, made.worker, [RunReport(made.id, 2, Failed("no"), wait=1.0)])
    assert moved.state == "failed"


def test_what_is_known_of_the_earlier_run_stays_when_a_job_leaves_review(conn, job_in) -> None:
    made = job_in(conn, "needs_review")
    release(conn, [made.id], **SIGNED)
    (run,) = runs_of(conn, made.id)
    assert (run.attempt, run.worker, run.error) == (1, made.worker, "not JSON")
    assert conn.execute("SELECT * FROM countersign.review").fetchall() == []


def test_only_the_jobs_named_leave_review(conn, job_in) -> None:
    one, other = job_in(conn, "needs_review"), job_in(conn, "needs_review")
    release(conn, [one.id], **SIGNED)
    assert locate(conn, [other.id])[other.id].state == "needs_review"
