"""Cancel: queued jobs end, running ones are asked to stop."""

from typing import Any

import psycopg
import pytest

from queue_core import OptionError, cancel
from queue_core.queries.acts import acts_of
from queue_core.queries.places import locate

SIGNED: dict[str, Any] = {"by": "ops:alice", "reason": "customer_asked"}


def test_a_queued_job_is_cancelled_and_the_act_is_kept(conn, job_in) -> None:
    made = job_in(conn, "ready")
    (outcome,) = cancel(conn, [made.id], **SIGNED)
    assert outcome.applied
    assert locate(conn, [made.id])[made.id].state == "cancelled"
    (act,) = acts_of(conn, made.id)
    assert (act.id, act.act, act.by, act.reason) == (
        outcome.act_id,
        "cancelled",
        "ops:alice",
        "customer_asked",
    )


def test_a_cancelled_job_was_ended_by_a_person_and_is_certain(conn, job_in) -> None:
    for place in ("ready", "waiting", "blocked"):
        made = job_in(conn, place)
        cancel(conn, [made.id], **SIGNED)
        (ended,) = conn.execute(
            "SELECT * FROM countersign.ended WHERE id = %s", [made.id]
        ).fetchall()
        assert (ended["state"], ended["uncertain"], ended["attempt"]) == ("cancelled", False, 0)
        assert (ended["worker"], ended["started_at"], ended["error"]) == (None, None, None)


ROW = "SELECT * FROM countersign.running WHERE id = %s"


def test_a_running_job_runs_on_and_carries_the_request(conn, job_in) -> None:
    made = job_in(conn, "running")
    before = conn.execute(ROW, [made.id]).fetchone()
    (outcome,) = cancel(conn, [made.id], **SIGNED)
    after = conn.execute(ROW, [made.id]).fetchone()
    assert (outcome.act, outcome.state, outcome.attempt) == ("cancel_requested", "running", 1)
    assert before["stop_requested_at"] is None
    assert after.pop("stop_requested_at") is not None
    assert after.items() <= before.items()


def test_cancelling_many_signs_each_once_and_leaves_the_others(conn, job_in) -> None:
    queued = [job_in(conn, place).id for place in ("ready", "waiting", "blocked", "ready")]
    bystander = job_in(conn, "ready").id
    outcomes = cancel(conn, queued, **SIGNED)
    assert [each.act for each in outcomes] == ["cancelled"] * 4
    assert all(len(acts_of(conn, job)) == 1 for job in queued)
    assert locate(conn, [bystander])[bystander].state == "ready"
    assert acts_of(conn, bystander) == []


def test_a_request_to_stop_may_say_when_the_run_is_killed(conn, job_in) -> None:
    made = job_in(conn, "running")
    cancel(conn, [made.id], kill_after=30, **SIGNED)
    row = conn.execute(ROW, [made.id]).fetchone()
    (act,) = acts_of(conn, made.id)
    assert (row["kill_after"], act.act, act.kill_after) == (30, "cancel_requested", 30)


def test_a_second_request_may_say_when_the_run_is_killed_where_the_first_did_not(
    conn, job_in
) -> None:
    made = job_in(conn, "running")
    conn.execute("UPDATE countersign.running SET stop_requested_at = now() - interval '1 h'")
    before = conn.execute(ROW, [made.id]).fetchone()
    (outcome,) = cancel(conn, [made.id], kill_after=30, by="ops:bob", reason="goes_on")
    after = conn.execute(ROW, [made.id]).fetchone()
    assert (outcome.applied, outcome.act) == (True, "cancel_requested")
    assert after == {**before, "kill_after": 30}  # it stands since the first asked
    (act,) = acts_of(conn, made.id)
    assert (act.by, act.kill_after) == ("ops:bob", 30)


@pytest.mark.parametrize(("first", "second"), [(None, None), (60, None), (60, 60), (60, 30)])
def test_a_second_request_that_adds_nothing_changes_nothing(
    conn, job_in, contents, first: int | None, second: int | None
) -> None:
    made = job_in(conn, "running")
    cancel(conn, [made.id], kill_after=first, **SIGNED)
    before = contents(conn)
    (outcome,) = cancel(conn, [made.id], kill_after=second, **SIGNED)
    assert (outcome.applied, outcome.why) == (False, "already_asked")
    assert contents(conn) == before


def test_of_a_queued_job_nothing_is_killed_whatever_the_request_says(conn, job_in) -> None:
    made = job_in(conn, "ready")
    cancel(conn, [made.id], kill_after=30, **SIGNED)
    (act,) = acts_of(conn, made.id)
    assert (act.act, act.kill_after) == ("cancelled", None)


@pytest.mark.parametrize("seconds", [0, -1, 86_401, 1.5, float("nan"), "30", True])
def test_seconds_that_cannot_be_are_refused_before_anything_is_written(
    conn, job_in, contents, seconds
) -> None:
    made = job_in(conn, "running")
    before = contents(conn)
    with pytest.raises(OptionError, match="kill_after"):
        cancel(conn, [made.id], kill_after=seconds, **SIGNED)
    assert contents(conn) == before


@pytest.mark.parametrize(("act", "seconds"), [("cancelled", 30), ("cancel_requested", 0)])
def test_the_ledger_takes_no_other_seconds_either(conn, act, seconds) -> None:
    row = """
        INSERT INTO countersign.acts (by, act, subject_kind, subject_id, subject_name, attempt,
            reason, kill_after, via)
        VALUES ('ops:alice', %s, 'job', gen_random_uuid(), 'mail.send', 1, 'x', %s, 'code')"""
    with pytest.raises(psycopg.errors.CheckViolation):
        conn.execute(row, [act, seconds])
