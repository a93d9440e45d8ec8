"""The overview: what needs a person."""

from datetime import UTC, datetime

from queue_core import fleet
from queue_core.outcomes import Failed
from queue_core.queries.overview import OVERVIEW, overview
from queue_core.transitions.fail import fail


def test_an_empty_queue_needs_nobody(conn) -> None:
    found = overview(conn)
    assert (found.needs_review, found.oldest_review_at) == (0, None)
    assert (found.failed, found.failed_uncertain) == (0, 0)
    assert (found.workers_live, found.slots_live) == (0, 0)


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


def test_only_live_workers_are_counted(conn, make_worker) -> None:
    _, stopped, lost = (make_worker(conn, pid=pid) for pid in (1, 2, 3))
    assert (overview(conn).workers_live, overview(conn).slots_live) == (3, 12)
    fleet.stop(conn, stopped)
    fleet.give_up(conn, lost)
    assert (overview(conn).workers_live, overview(conn).slots_live) == (1, 4)


FAILURES = """
INSERT INTO countersign.ended (id, state, attempt, uncertain, ended_at)
SELECT countersign.new_id(), 'failed', 1, n = 10010, now() - interval '1 h' + n * interval '1 ms'
FROM generate_series(1, 10010) AS n
"""


def test_the_one_that_may_have_run_in_part_is_seen_behind_however_many_that_did_not(conn) -> None:
    conn.execute(FAILURES)
    assert (overview(conn).failed, overview(conn).failed_uncertain) == (10_001, 1)


def test_of_what_failed_no_more_is_read_than_is_counted(database) -> None:
    owner = database.owner()
    for _ in range(4):
        owner.execute(FAILURES)
    owner.execute("VACUUM (ANALYZE) countersign.ended")
    plan = "\n".join(str(row["QUERY PLAN"]) for row in owner.execute(f"EXPLAIN {OVERVIEW}"))
    assert "Bitmap" not in plan
    assert "ended_uncertain" in plan or "coalesce" in plan
