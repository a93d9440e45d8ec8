"""Complete: the handler returned, and only the run that holds the claim can say so."""

import json
import uuid
from datetime import timedelta

import psycopg
import pytest

from queue_core import cancel
from queue_core.outcomes import Completed, RunReport
from queue_core.queries.runs import own_record, runs_of
from queue_core.transitions.complete import complete

ENDED = "SELECT ended.*, now() AS now FROM countersign.ended WHERE ended.id = %s"
DONE = Completed()


def test_a_completed_job_keeps_its_result_and_who_ran_it_since_when(conn, job_in) -> None:
    made = job_in(conn, "running")
    report = RunReport(made.id, 1, Completed('{"lines": 12, "of": [1, null]}'), seconds=2.5)
    (moved,) = complete(conn, made.worker, [report])
    assert (moved.id, moved.attempt, moved.state) == (made.id, 1, "completed")
    ended = conn.execute(ENDED, [made.id]).fetchone()
    assert ended["result"] == {"lines": 12, "of": [1, None]}
    assert (ended["state"], ended["worker"], ended["attempt"]) == ("completed", made.worker, 1)
    assert ended["started_at"] == ended["now"] - timedelta(seconds=2.5)
    assert (ended["ended_at"], ended["uncertain"]) == (ended["now"], False)
    assert (ended["error"], ended["error_type"], ended["error_place"]) == (None, None, None)


def test_a_completed_run_is_told_by_ended_and_not_by_runs(conn, job_in) -> None:
    made = job_in(conn, "running")
    complete(conn, made.worker, [made.report(DONE)])
    assert runs_of(conn, made.id) == []
    assert own_record(conn, made.worker, [(made.id, 1)]) == {(made.id, 1)}


def test_without_a_result_or_a_start_both_are_unknown(conn, job_in) -> None:
    made = job_in(conn, "running")
    complete(conn, made.worker, [made.report(DONE)])
    ended = conn.execute(ENDED, [made.id]).fetchone()
    assert (ended["result"], ended["started_at"]) == (None, None)


def test_a_result_of_null_is_a_result(conn, job_in) -> None:
    made = job_in(conn, "running")
    complete(conn, made.worker, [made.report(Completed("null"))])
    query = "SELECT result::text AS text FROM countersign.ended WHERE id = %s"
    assert conn.execute(query, [made.id]).fetchone() == {"text": "null"}


def test_a_start_that_a_beat_told_already_is_kept(conn, job_in) -> None:
    made = job_in(conn, "running")
    conn.execute("UPDATE countersign.running SET started_at = '2026-01-02 03:04:05+00'")
    complete(conn, made.worker, [made.report(DONE, seconds=1.0)])
    assert str(conn.execute(ENDED, [made.id]).fetchone()["started_at"]).startswith("2026-01-02")


def test_a_run_that_was_asked_to_stop_and_returned_is_completed(conn, job_in) -> None:
    made = job_in(conn, "running")
    cancel(conn, [made.id], by="ops:alice", reason="too_slow")
    (moved,) = complete(conn, made.worker, [made.report(DONE)])
    assert moved.state == "completed"


# The fence


def test_a_wrong_attempt_or_worker_changes_nothing(conn, job_in, contents) -> None:
    made = job_in(conn, "running")
    before = contents(conn)
    for attempt, worker in ((2, made.worker), (0, made.worker), (1, uuid.uuid4())):
        assert complete(conn, worker, [RunReport(made.id, attempt, DONE)]) == []
    assert contents(conn) == before


def test_the_second_report_of_a_run_changes_nothing(conn, job_in, contents) -> None:
    made = job_in(conn, "running")
    complete(conn, made.worker, [made.report(Completed("1"))])
    before = contents(conn)
    assert complete(conn, made.worker, [made.report(Completed("2"))]) == []
    assert contents(conn) == before


def test_of_a_batch_those_that_hold_their_claim_are_completed(conn, job_in) -> None:
    first, gone, last = (job_in(conn, place) for place in ("running", "failed", "running"))
    conn.execute("UPDATE countersign.running SET worker = %s", [first.worker])
    reports = [made.report(Completed(json.dumps(str(made.id)))) for made in (first, gone, last)]
    moved = complete(conn, first.worker, reports)
    assert {each.id for each in moved} == {first.id, last.id}
    for made in (first, last):
        assert conn.execute(ENDED, [made.id]).fetchone()["result"] == str(made.id)


def test_a_late_report_in_the_batch_of_the_run_that_holds_the_claim_does_not_count(
    conn, job_in
) -> None:
    made = job_in(conn, "running")
    conn.execute("UPDATE countersign.running SET attempt = 2")
    reports = [
        RunReport(made.id, 1, Completed('"late"')),
        RunReport(made.id, 2, Completed('"now"')),
    ]
    (moved,) = complete(conn, made.worker, reports)
    assert moved.attempt == 2
    assert conn.execute(ENDED, [made.id]).fetchone()["result"] == "now"


@pytest.mark.parametrize("result", ["{", "1e999999", '"\\u0000"', "NaN"])
def test_a_result_that_postgres_cannot_store_ends_no_run_of_its_batch(
    conn, job_in, contents, result: str
) -> None:
    made, other = job_in(conn, "running"), job_in(conn, "running")
    before = contents(conn)
    with pytest.raises(psycopg.DataError), conn.transaction():
        complete(conn, made.worker, [other.report(DONE), made.report(Completed(result))])
    assert contents(conn) == before
