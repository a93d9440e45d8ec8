"""Cancel: queued jobs end, running ones are asked to stop."""

from typing import Any

from queue_core import cancel
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


def test_a_running_job_runs_on_and_carries_the_request(conn, job_in) -> None:
    made = job_in(conn, "running")
    before = conn.execute("SELECT * FROM countersign.running WHERE id = %s", [made.id]).fetchone()
    (outcome,) = cancel(conn, [made.id], **SIGNED)
    after = conn.execute("SELECT * FROM countersign.running WHERE id = %s", [made.id]).fetchone()
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
