"""Give back: a worker returns what it never began, to its old place, the attempt given back."""

import uuid

from queue_core import cancel
from queue_core.queries.runs import own_record, runs_of
from queue_core.transitions.claim import Claimable, claim
from queue_core.transitions.give_back import give_back


def test_a_returned_job_stands_where_it_stood_with_the_attempts_it_had(conn, job_in) -> None:
    made = job_in(conn, "running", attempts=2)
    conn.execute("UPDATE countersign.running SET rank = -5, run_at = '2026-01-02 03:04:05+00'")
    (moved,) = give_back(conn, made.worker, [(made.id, 1)])
    assert (moved.id, moved.attempt, moved.state) == (made.id, 1, "ready")
    ready = conn.execute("SELECT * FROM countersign.ready WHERE id = %s", [made.id]).fetchone()
    assert (ready["rank"], str(ready["run_at"])) == (-5, "2026-01-02 03:04:05+00:00")
    assert (ready["queue"], ready["name"]) == (made.queue, "mail.send")
    assert ready["attempts_allowed"] - ready["attempt"] == 2
    (run,) = runs_of(conn, made.id)
    assert (run.attempt, run.outcome, run.started_at) == (1, "returned", None)


def test_attempts_keep_rising_over_many_returns(conn, job_in) -> None:
    made = job_in(conn, "running")
    for attempt in range(1, 5):
        give_back(conn, made.worker, [(made.id, attempt)])
        names = [Claimable("mail.send")]
        (run,) = claim(conn, worker=made.worker, names=names, queues=[made.queue], count=1)
        assert (run.attempt, run.attempts_allowed) == (attempt + 1, attempt + 1)


def test_after_a_request_to_stop_the_job_is_cancelled_and_certain(conn, job_in) -> None:
    made = job_in(conn, "running")
    cancel(conn, [made.id], by="ops:alice", reason="not_needed")
    (moved,) = give_back(conn, made.worker, [(made.id, 1)])
    assert moved.state == "cancelled"
    ended = conn.execute("SELECT * FROM countersign.ended WHERE id = %s", [made.id]).fetchone()
    assert (ended["uncertain"], ended["started_at"]) == (False, None)
    assert conn.execute("SELECT * FROM countersign.ready").fetchall() == []


def test_a_wrong_attempt_or_worker_or_a_second_return_changes_nothing(
    conn, job_in, contents
) -> None:
    made = job_in(conn, "running")
    before = contents(conn)
    assert give_back(conn, made.worker, [(made.id, 2)]) == []
    assert give_back(conn, uuid.uuid4(), [(made.id, 1)]) == []
    assert contents(conn) == before
    give_back(conn, made.worker, [(made.id, 1)])
    before = contents(conn)
    assert give_back(conn, made.worker, [(made.id, 1)]) == []
    assert contents(conn) == before
    assert own_record(conn, made.worker, [(made.id, 1)]) == {(made.id, 1)}


def test_runs_may_come_from_a_generator_and_none_is_fine(conn, job_in) -> None:
    made = job_in(conn, "running")
    assert give_back(conn, made.worker, []) == []
    assert len(give_back(conn, made.worker, ((each.id, 1) for each in [made]))) == 1
