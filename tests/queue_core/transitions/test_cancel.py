"""Cancel: queued jobs end, running ones are asked."""

from queue_core import Registry, cancel, enqueue
from queue_core.queries.acts import acts_of
from queue_core.queries.places import locate


def test_a_queued_job_is_cancelled_and_the_act_is_kept(conn, registry: Registry) -> None:
    job = enqueue(conn, "mail.send").id
    (outcome,) = cancel(conn, [job], by="ops:alice", reason="customer_asked")
    assert outcome.applied
    assert locate(conn, [job])[job].state == "cancelled"
    (act,) = acts_of(conn, job)
    assert (act.id, act.act, act.by, act.reason) == (
        outcome.act_id,
        "cancelled",
        "ops:alice",
        "customer_asked",
    )


def test_fresh(database, registry) -> None:
    with database.connect() as c:
        enqueue(c, "mail.send")
