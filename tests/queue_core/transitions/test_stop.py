"""Stop: a run that was asked to stop did, for a cancel or for its worker's shutdown."""

import uuid

from queue_core import cancel
from queue_core.outcomes import RunReport, Stopped
from queue_core.queries.runs import own_record, runs_of
from queue_core.transitions.claim import Claimable, claim
from queue_core.transitions.stop import stop

HALF_WAY = Stopped("Stopped: 3 of 10")
KILLED = Stopped("killed 30s after it was asked to stop", killed=True)


def test_after_a_cancel_the_job_is_cancelled_and_the_run_stopped(conn, job_in) -> None:
    made = job_in(conn, "running", attempts=5)
    cancel(conn, [made.id], by="ops:alice", reason="not_needed")
    (moved,) = stop(conn, made.worker, [made.report(HALF_WAY, seconds=3.0, child_pid=77)])
    assert (moved.id, moved.attempt, moved.state) == (made.id, 1, "cancelled")
    ended = conn.execute("SELECT * FROM countersign.ended WHERE id = %s", [made.id]).fetchone()
    assert (ended["state"], ended["uncertain"], ended["worker"], ended["error"]) == (
        "cancelled",
        False,
        made.worker,
        "Stopped: 3 of 10",
    )
    (run,) = runs_of(conn, made.id)
    assert (run.outcome, run.child_pid, run.error) == ("stopped", 77, "Stopped: 3 of 10")
    assert run.started_at == ended["started_at"] is not None


def test_a_run_that_was_killed_may_have_run_in_part(conn, job_in) -> None:
    made = job_in(conn, "running", on_lost="review")
    cancel(conn, [made.id], by="ops:alice", reason="not_needed")
    (moved,) = stop(conn, made.worker, [made.report(KILLED)])
    assert moved.state == "cancelled"
    ended = conn.execute("SELECT * FROM countersign.ended WHERE id = %s", [made.id]).fetchone()
    assert (ended["uncertain"], ended["error"]) == (True, KILLED.error)


def test_case_67_at_a_shutdown_the_attempt_is_given_back(conn, job_in) -> None:
    made = job_in(conn, "running", attempts=2)
    conn.execute("UPDATE countersign.running SET rank = -5, run_at = '2026-01-02 03:04:05+00'")
    (moved,) = stop(conn, made.worker, [made.report(HALF_WAY, seconds=3.0, child_pid=77)])
    assert (moved.id, moved.attempt, moved.state) == (made.id, 1, "ready")
    ready = conn.execute("SELECT * FROM countersign.ready WHERE id = %s", [made.id]).fetchone()
    assert (ready["rank"], str(ready["run_at"])) == (-5, "2026-01-02 03:04:05+00:00")
    assert (ready["queue"], ready["name"]) == (made.queue, "mail.send")
    assert ready["attempts_allowed"] - ready["attempt"] == 2
    (run,) = runs_of(conn, made.id)
    assert (run.outcome, run.child_pid, run.error) == ("returned", 77, "Stopped: 3 of 10")
    assert run.started_at


def test_a_job_with_one_attempt_outlives_any_number_of_shutdowns(conn, job_in) -> None:
    made = job_in(conn, "running")
    for attempt in range(1, 5):
        stop(conn, made.worker, [RunReport(made.id, attempt, HALF_WAY)])
        names = [Claimable("mail.send")]
        (run,) = claim(conn, worker=made.worker, names=names, queues=[made.queue], count=1)
        assert (run.attempt, run.attempts_allowed) == (attempt + 1, attempt + 1)


def test_a_wrong_attempt_or_worker_or_a_second_report_changes_nothing(
    conn, job_in, contents
) -> None:
    made = job_in(conn, "running")
    before = contents(conn)
    for attempt, worker in ((2, made.worker), (1, uuid.uuid4())):
        assert stop(conn, worker, [RunReport(made.id, attempt, HALF_WAY)]) == []
    assert contents(conn) == before
    stop(conn, made.worker, [made.report(HALF_WAY)])
    before = contents(conn)
    assert stop(conn, made.worker, [made.report(HALF_WAY)]) == []
    assert contents(conn) == before
    assert own_record(conn, made.worker, [(made.id, 1)]) == {(made.id, 1)}


def test_what_a_handler_says_of_how_far_it_came_is_cut_to_its_column(conn, job_in) -> None:
    made = job_in(conn, "running")
    stop(conn, made.worker, [made.report(Stopped("é\0" * 2_000))])
    (run,) = runs_of(conn, made.id)
    assert len((run.error or "").encode()) <= 1_024
