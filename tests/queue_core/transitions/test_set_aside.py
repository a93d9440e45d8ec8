"""Set aside: a job whose arguments nobody can read waits for a person and stops no batch."""

import uuid

from queue_core import cancel
from queue_core.outcomes import RunReport, Unreadable
from queue_core.queries.runs import own_record, runs_of
from queue_core.transitions.set_aside import set_aside

UNREADABLE = Unreadable("the arguments cannot be read as JSON here")


def test_an_unreadable_job_goes_to_a_person_with_what_is_known(conn, job_in) -> None:
    made = job_in(conn, "running", attempts=5)
    (moved,) = set_aside(conn, made.worker, [made.report(UNREADABLE, seconds=1.0, child_pid=77)])
    assert (moved.id, moved.attempt, moved.state) == (made.id, 1, "needs_review")
    review = conn.execute("SELECT * FROM countersign.review WHERE id = %s", [made.id]).fetchone()
    assert (review["why"], review["attempt"], review["error"]) == (
        "unreadable",
        1,
        UNREADABLE.error,
    )
    assert (review["worker"], review["child_pid"], review["signal"]) == (made.worker, 77, None)
    assert review["claimed_at"] is not None
    (run,) = runs_of(conn, made.id)
    assert (run.outcome, run.error, run.attempt) == ("failed", UNREADABLE.error, 1)


def test_a_request_to_stop_does_not_hide_the_job_from_a_person(conn, job_in) -> None:
    made = job_in(conn, "running")
    cancel(conn, [made.id], by="ops:alice", reason="not_needed")
    (moved,) = set_aside(conn, made.worker, [made.report(UNREADABLE)])
    assert moved.state == "needs_review"


def test_a_wrong_attempt_or_worker_or_a_second_report_changes_nothing(
    conn, job_in, contents
) -> None:
    made = job_in(conn, "running")
    before = contents(conn)
    for attempt, worker in ((2, made.worker), (1, uuid.uuid4())):
        assert set_aside(conn, worker, [RunReport(made.id, attempt, UNREADABLE)]) == []
    assert contents(conn) == before
    set_aside(conn, made.worker, [made.report(UNREADABLE)])
    before = contents(conn)
    assert set_aside(conn, made.worker, [made.report(UNREADABLE)]) == []
    assert contents(conn) == before
    assert own_record(conn, made.worker, [(made.id, 1)]) == {(made.id, 1)}
