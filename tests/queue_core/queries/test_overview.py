"""The overview: what needs a person, and how the queues stand."""

from datetime import UTC, datetime, timedelta

import pytest

from queue_core import enqueue, fleet
from queue_core.outcomes import Failed
from queue_core.queries.overview import overview, queues
from queue_core.transitions.fail import fail


def test_an_empty_queue_needs_nobody(conn) -> None:
    found = overview(conn)
    assert (found.needs_review, found.oldest_review_at) == (0, None)
    assert (found.failed, found.failed_uncertain) == (0, 0)
    assert (found.oldest_ready_seconds, found.oldest_ready_queue) == (0, None)
    assert (found.workers_live, found.slots_live) == (0, 0)
    assert queues(conn) == []


def test_what_needs_a_person_is_counted_with_the_oldest(conn, job_in) -> None:
    job_in(conn, "needs_review")
    older = job_in(conn, "needs_review")
    entered = datetime(2026, 1, 1, tzinfo=UTC)
    conn.execute(
        "WITH x AS (DELETE FROM countersign.review WHERE id = %s RETURNING review.*)"
        " INSERT INTO countersign.review (id, entered_at, why, attempt)"
        " SELECT id, %s, why, attempt FROM x",
        [older.id, entered],
    )
    job_in(conn, "failed")
    crashed = job_in(conn, "running")
    fail(conn, crashed.worker, [crashed.report(Failed("crashed: signal 9", "crashed", signal=9))])
    found = overview(conn)
    assert (found.needs_review, found.oldest_review_at) == (2, entered)
    assert (found.failed, found.failed_uncertain) == (2, 1)


def test_the_oldest_ready_job_is_told_with_its_queue(conn, registry) -> None:
    for queue, minutes in (("new", 1), ("old", 60), ("later", -60)):
        run_at = datetime.now(UTC) - timedelta(minutes=minutes)
        enqueue(conn, "mail.send", queue=queue, run_at=run_at)
    found = overview(conn)
    assert found.oldest_ready_queue == "old"
    assert 3_500 < found.oldest_ready_seconds < 3_700


def test_only_live_workers_are_counted(conn, make_worker) -> None:
    _, stopped, lost = (make_worker(conn, pid=pid) for pid in (1, 2, 3))
    assert (overview(conn).workers_live, overview(conn).slots_live) == (3, 12)
    fleet.stop(conn, stopped)
    fleet.give_up(conn, lost)
    assert (overview(conn).workers_live, overview(conn).slots_live) == (1, 4)


@pytest.mark.parametrize("place", ["ready", "due", "waiting", "blocked", "running"])
def test_a_queue_tells_its_live_jobs_by_state(conn, job_in, place: str) -> None:
    made = job_in(conn, place)
    (row,) = queues(conn)
    state = {"due": "ready"}.get(place, place)
    found = {
        "ready": row.ready,
        "waiting": row.waiting,
        "blocked": row.blocked,
        "running": row.running,
    }
    assert row.queue == made.queue
    assert found == {**dict.fromkeys(found, 0), state: 1}
    assert row.oldest_seconds == 0


def test_a_queues_age_is_that_of_its_oldest_ready_job(conn, registry) -> None:
    for queue, minutes in (("a", 10), ("a", 30), ("a", -30), ("b", 5)):
        run_at = datetime.now(UTC) - timedelta(minutes=minutes)
        enqueue(conn, "mail.send", queue=queue, run_at=run_at)
    first, second = queues(conn)
    assert 1_700 < first.oldest_seconds < 1_900
    assert 200 < second.oldest_seconds < 400


def test_queues_come_by_name_and_no_more_than_a_page_can_hold(conn, registry) -> None:
    for number in range(205):
        enqueue(conn, "mail.send", queue=f"line-{number:03}")
    found = [row.queue for row in queues(conn)]
    assert found == [f"line-{number:03}" for number in range(200)]


@pytest.mark.parametrize("place", ["completed", "failed", "cancelled", "needs_review"])
def test_what_is_over_or_waits_for_a_person_stands_in_no_queue(conn, job_in, place: str) -> None:
    job_in(conn, place)
    assert queues(conn) == []
