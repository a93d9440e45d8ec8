"""Whether a person is needed, and why."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from queue_core import attention, close, enqueue, fleet, pause_queue
from queue_core.outcomes import Failed
from queue_core.queries import attention as module
from queue_core.transitions.fail import fail
from queue_core.transitions.recover import recover
from tests import full

SIGNED: dict[str, Any] = {"by": "ops:alice", "reason": "seen_in_test"}
CRASHED = Failed("crashed: signal 9", "crashed", signal=9)


def codes(conn) -> list[str]:
    return [need.code for need in attention(conn)]


def ready_for(conn, minutes: float, queue: str = "mail") -> None:
    enqueue(conn, "mail.send", queue=queue, run_at=datetime.now(UTC) - timedelta(minutes=minutes))


def test_an_empty_database_needs_nobody(conn) -> None:
    assert attention(conn) == []


@pytest.mark.parametrize(
    "place", ["ready", "due", "waiting", "blocked", "running", "completed", "failed", "cancelled"]
)
def test_a_job_on_its_way_or_ended_for_sure_needs_nobody(conn, job_in, place: str) -> None:
    job_in(conn, place)
    assert attention(conn) == []


def test_a_job_in_review_needs_a_person_until_it_leaves(conn, job_in) -> None:
    made = job_in(conn, "needs_review")
    (need,) = attention(conn)
    assert (need.code, need.what) == ("review.waiting", "1 job in review, the oldest for 0 min")
    close(conn, [made.id], **SIGNED)
    assert attention(conn) == []


def test_jobs_are_counted_up_to_a_cap(conn, job_in, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(3):
        job_in(conn, "needs_review")
    assert attention(conn)[0].what.startswith("3 jobs in review")
    monkeypatch.setattr(module, "CAP", 2)
    assert attention(conn)[0].what.startswith("over 2 jobs in review")


def test_a_failure_that_may_have_run_in_part_needs_a_person_for_a_day(database, job_in) -> None:
    conn = database.connect()
    job_in(conn, "failed")
    crashed, lost = job_in(conn, "running"), job_in(conn, "running")
    fail(conn, crashed.worker, [crashed.report(CRASHED)])
    fleet.give_up(conn, lost.worker)
    recover(conn)

    (need,) = attention(conn)

    assert need.code == "failed.uncertain"
    assert need.what == "2 jobs failed within a day and may have run in part"
    later = "UPDATE countersign.ended SET ended_at = ended_at - interval '25 hours'"
    database.owner().execute(later)
    assert attention(conn) == []


def test_one_that_may_have_run_in_part_is_seen_behind_however_many_others_that_failed(
    database, job_in, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CAP", 1)
    conn = database.connect()
    crashed = job_in(conn, "running")
    fail(conn, crashed.worker, [crashed.report(CRASHED)])
    earlier = "UPDATE countersign.ended SET ended_at = ended_at - interval '1 hour'"
    database.owner().execute(earlier)
    for _ in range(3):
        job_in(conn, "failed")
    assert codes(conn) == ["failed.uncertain"]


def test_jobs_without_any_worker_need_a_person_after_five_minutes(conn, registry) -> None:
    ready_for(conn, 4)
    assert codes(conn) == []
    ready_for(conn, 6)
    (need,) = attention(conn)
    assert need.code == "worker.none"
    assert need.what == "no worker is alive, and a job of 'mail' has been ready for 6 min"


@pytest.mark.parametrize("end", [fleet.stop, fleet.give_up])
def test_a_worker_that_has_ended_is_none(conn, registry, make_worker, end) -> None:
    ready_for(conn, 6)
    worker = make_worker(conn)
    assert codes(conn) == []
    end(conn, worker)
    assert codes(conn) == ["worker.none"]


def test_a_worker_that_is_silent_for_long_is_none_though_nobody_declared_it_lost(
    conn, registry, make_worker
) -> None:
    ready_for(conn, 6)
    make_worker(conn)
    conn.execute("UPDATE countersign.workers SET beat_at = now() - interval '4 min'")
    assert codes(conn) == []
    conn.execute("UPDATE countersign.workers SET beat_at = now() - interval '6 min'")
    assert codes(conn) == ["worker.none"]


def test_jobs_that_workers_leave_for_an_hour_need_a_person(conn, registry, make_worker) -> None:
    make_worker(conn)
    ready_for(conn, 59)
    assert codes(conn) == []
    ready_for(conn, 61, "old")
    (need,) = attention(conn)
    assert need.code == "queue.late"
    assert "a job of 'old' has been ready for 61 min" in need.what


def test_a_paused_queue_needs_a_person_once_its_jobs_wait_for_an_hour(
    conn, registry, make_worker
) -> None:
    pause_queue(conn, "mail", **SIGNED)
    ready_for(conn, 59)
    assert codes(conn) == []
    ready_for(conn, 61)
    (need,) = attention(conn)
    assert need.code == "queue.paused"
    assert "a job of 'mail' has been ready for 61 min" in need.what
    make_worker(conn)
    assert codes(conn) == ["queue.paused"]


def test_what_stands_still_comes_before_what_waits(conn, job_in) -> None:
    job_in(conn, "needs_review")
    ready_for(conn, 90)
    assert codes(conn) == ["queue.late", "review.waiting"]


def test_asking_reads_next_to_nothing_of_long_queues(new_database) -> None:
    owner, conn = new_database.owner(), new_database.connect()
    full.quiet(owner)
    for _ in range(12):
        attention(conn)
    for place in full.PLACES:
        full.fill(owner, place)

    with conn.transaction():
        assert attention(conn) == []
        assert full.read(conn) < 200
