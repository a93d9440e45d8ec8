"""What the ledger tells of a job."""

import uuid

from queue_core import cancel, pause_queue, resume_queue, retry
from queue_core.queries.acts import acts_of, acts_on, last_pauses

SECRET = "hunter2"


def test_acts_on_a_job_come_oldest_first_and_no_others(conn, job_in) -> None:
    made, other = job_in(conn, "ready"), job_in(conn, "ready")
    bulk = uuid.uuid4()
    cancel(conn, [made.id, other.id], by="ops:alice", reason="asked", bulk_id=bulk, via="cli:a@b")
    retry(conn, [made.id], by="ops:bob", reason="mended", note="as agreed")
    first, second = acts_of(conn, made.id)
    assert (first.act, first.by, first.reason, first.note) == (
        "cancelled",
        "ops:alice",
        "asked",
        None,
    )
    assert (first.bulk_id, first.via, first.attempt) == (bulk, "cli:a@b", 0)
    assert (first.subject_kind, first.subject_id, first.subject_name) == (
        "job",
        made.id,
        "mail.send",
    )
    assert (second.act, second.by, second.note) == ("retried", "ops:bob", "as agreed")
    assert first.id < second.id
    assert first.at < second.at


def test_a_job_that_nobody_touched_has_no_acts(conn, job_in) -> None:
    assert acts_of(conn, job_in(conn, "ready").id) == []
    assert acts_of(conn, uuid.uuid4()) == []


def test_what_a_person_wrote_is_left_out_of_what_is_shown(conn, job_in) -> None:
    made = job_in(conn, "ready")
    cancel(conn, [made.id], by=SECRET, reason=SECRET, note=SECRET)
    (act,) = acts_of(conn, made.id)
    assert act.by == act.reason == act.note == SECRET
    assert SECRET not in repr(act)


def test_acts_on_a_name_come_newest_first_and_by_what_it_is(conn) -> None:
    for _ in range(2):
        pause_queue(conn, "mail", by="ops:alice", reason="deploy")
        resume_queue(conn, "mail", by="ops:bob", reason="mended")
    pause_queue(conn, "slow", by="ops:alice", reason="deploy")
    found = [(act.act, act.by) for act in acts_on(conn, "queue", "mail", limit=3)]
    assert found == [("resumed", "ops:bob"), ("paused", "ops:alice"), ("resumed", "ops:bob")]
    assert acts_on(conn, "schedule", "mail", limit=3) == []


def test_the_last_pause_of_each_name_is_told(conn) -> None:
    pause_queue(conn, "mail", by="ops:alice", reason="deploy")
    resume_queue(conn, "mail", by="ops:bob", reason="mended")
    second = pause_queue(conn, "mail", by="ops:bob", reason="outage")
    other = pause_queue(conn, "slow", by="ops:alice", reason="deploy")
    found = last_pauses(conn, "queue", ["mail", "slow", "none"])
    assert {name: act.id for name, act in found.items()} == {"mail": second, "slow": other}
    assert last_pauses(conn, "schedule", ["mail"]) == {}
    assert last_pauses(conn, "queue", []) == {}
