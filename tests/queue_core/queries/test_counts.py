"""Counts: every job once, due ones as ready, and the same as the lists beside them."""

from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from queue_core import NewJob, enqueue, enqueue_many
from queue_core.queries.counts import CAP, capped_counts, counts
from queue_core.queries.jobs import list_jobs
from queue_core.queries.queues import list_queues
from queue_core.states import STATES

PLACES = ["ready", "due", "waiting", "blocked", "running", "completed", "failed", "cancelled"]
PLACES += ["needs_review"]
NONE = dict.fromkeys(STATES, 0)


def numbers(conn: Any) -> dict[str, int]:
    found = asdict(counts(conn))
    return {state: found[state] for state in STATES}


def test_nothing_is_counted_as_nought(conn) -> None:
    assert numbers(conn) == NONE
    assert capped_counts(conn) == capped_counts(conn, queue="q") == NONE
    assert counts(conn).oldest_ready_seconds == 0
    (now,) = conn.execute("SELECT now() AS at").fetchall()
    assert counts(conn).at == now["at"]


@pytest.mark.parametrize("place", PLACES)
def test_a_job_is_counted_in_its_state_alone(conn, job_in, place: str) -> None:
    made = job_in(conn, place)
    state = {"due": "ready"}.get(place, place)
    expected = {**NONE, state: 1}
    assert numbers(conn) == expected
    assert capped_counts(conn) == expected
    assert capped_counts(conn, queue=made.queue) == expected
    assert capped_counts(conn, name="mail.send") == expected
    assert capped_counts(conn, queue=made.queue, name="mail.send") == expected
    for other in ("other", "%", ""):
        assert capped_counts(conn, queue=other) == capped_counts(conn, name=other) == NONE


def test_what_falls_due_while_nobody_promotes_is_ready_everywhere(conn, registry) -> None:
    past = datetime.now(UTC) - timedelta(hours=2)
    for run_at in (past, past + timedelta(hours=1)):
        job = enqueue(conn, "mail.send", run_at=run_at, queue="dead").id
        conn.execute(
            "WITH gone AS (DELETE FROM countersign.ready WHERE id = %s RETURNING ready.*)"
            " INSERT INTO countersign.waiting SELECT * FROM gone",
            [job],
        )
    found = counts(conn)
    assert (found.ready, found.waiting) == (2, 0)
    assert 7_100 < found.oldest_ready_seconds < 7_300
    assert capped_counts(conn)["ready"] == capped_counts(conn, queue="dead")["ready"] == 2
    assert len(list_jobs(conn, "ready").rows) == 2
    assert [(row.name, row.ready, row.waiting) for row in list_queues(conn)] == [("dead", 2, 0)]


def test_the_age_is_that_of_the_oldest_ready_job_alone(conn, registry, job_in) -> None:
    job_in(conn, "running")
    job_in(conn, "waiting")
    assert counts(conn).oldest_ready_seconds == 0
    for minutes in (5, 90, 30):
        enqueue(conn, "mail.send", run_at=datetime.now(UTC) - timedelta(minutes=minutes))
    assert 5_300 < counts(conn).oldest_ready_seconds < 5_500


@pytest.mark.parametrize(("cap", "jobs", "counted"), [(5, 4, 4), (5, 5, 5), (5, 6, 6), (5, 9, 6)])
def test_above_the_cap_one_more_means_many(conn, registry, cap, jobs, counted) -> None:
    enqueue_many(conn, [NewJob("mail.send", queue="q")] * jobs)
    enqueue_many(conn, [NewJob("mail.send", queue="other", delay=60)] * 3)
    found = capped_counts(conn, cap=cap)
    assert (found["ready"], found["waiting"]) == (counted, 3)
    assert capped_counts(conn, queue="q", cap=cap)["ready"] == counted
    assert numbers(conn)["ready"] == jobs


def test_the_cap_of_a_page_is_ten_thousand() -> None:
    assert CAP == 10_000


def test_a_tab_has_the_number_of_its_lists_rows(conn, job_in) -> None:
    made = [job_in(conn, place) for place in PLACES for _ in range(2)]
    some: list[dict[str, Any]] = [{}, {"name": "mail.send"}, {"queue": made[0].queue}]
    for filters in some:
        found = capped_counts(conn, **filters)
        for state in STATES:
            assert found[state] == len(list_jobs(conn, state, **filters).rows)


def test_counts_are_read_in_one_snapshot_while_jobs_move(shared_database, registry) -> None:
    moving, looking = shared_database.connect(), shared_database.connect()
    jobs = [each.id for each in enqueue_many(moving, [NewJob("mail.send")] * 20)]
    to = "WITH gone AS (DELETE FROM countersign.{0} WHERE id = %s RETURNING {0}.*)"
    to += " INSERT INTO countersign.{1} SELECT * FROM gone"
    for job in jobs:
        moving.execute(to.format("ready", "waiting").encode(), [job])
        found = counts(looking)
        assert found.ready + found.waiting == 20
        moving.execute(to.format("waiting", "ready").encode(), [job])
