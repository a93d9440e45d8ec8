"""Queues: how each stands, without walking what it holds."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from queue_core import enqueue, list_queues, pause_queue, queue_size
from queue_core.errors import OptionError
from queue_core.queries import queues
from queue_core.queries.queues import QueueRow
from tests import full

SIGNED = {"by": "ops:alice", "reason": "card_fault"}
EMPTY = {"ready": 0, "waiting": 0, "blocked": 0, "running": 0}


def standing(row: QueueRow) -> dict[str, int]:
    return {state: getattr(row, state) for state in EMPTY}


def test_a_database_without_jobs_has_no_queues(conn) -> None:
    assert list_queues(conn) == []


@pytest.mark.parametrize("place", ["ready", "due", "waiting", "blocked", "running"])
def test_a_queue_that_holds_a_live_job_is_listed_with_it(conn, job_in, place: str) -> None:
    made = job_in(conn, place)

    (row,) = list_queues(conn)

    state = "ready" if place == "due" else place
    assert row.name == made.queue
    assert standing(row) == EMPTY | {state: 1}
    assert row.paused_at is None


@pytest.mark.parametrize("place", ["completed", "failed", "cancelled", "needs_review"])
def test_a_queue_whose_jobs_have_all_left_is_not_listed(conn, job_in, place: str) -> None:
    job_in(conn, place)
    assert list_queues(conn) == []


def test_a_paused_queue_is_listed_though_it_holds_nothing(conn) -> None:
    pause_queue(conn, "mail", **SIGNED)

    (row,) = list_queues(conn)

    assert (row.name, standing(row), row.oldest_ready_seconds) == ("mail", EMPTY, 0)
    assert row.paused_at is not None


def test_queues_come_by_name_each_with_its_own_jobs(conn, registry) -> None:
    for queue, count in (("beta", 2), ("alpha", 1), ("gamma", 3)):
        for _ in range(count):
            enqueue(conn, "mail.send", queue=queue)
    pause_queue(conn, "beta", **SIGNED)

    found = list_queues(conn)

    assert [(row.name, row.ready) for row in found] == [("alpha", 1), ("beta", 2), ("gamma", 3)]
    assert [row.name for row in found if row.paused_at] == ["beta"]


def test_the_oldest_is_found_whatever_its_name_and_priority(conn, registry) -> None:
    registry.job("mail.sort")(lambda _: None)
    ages = {("mail.send", 5): 3, ("mail.send", -5): 40, ("mail.sort", 0): 20, ("mail.sort", 9): 1}
    for (name, priority), minutes in ages.items():
        run_at = datetime.now(UTC) - timedelta(minutes=minutes)
        enqueue(conn, name, {}, queue="mail", priority=priority, run_at=run_at)

    (row,) = list_queues(conn)

    assert 2_340 < row.oldest_ready_seconds < 2_460


def test_the_queue_that_is_furthest_behind_is_told_from_the_others(conn, registry) -> None:
    assert queues.longest(list_queues(conn)) is None
    pause_queue(conn, "empty", **SIGNED)
    assert queues.longest(list_queues(conn)) is None
    for queue, minutes in (("new", 1), ("old", 60), ("later", -60)):
        run_at = datetime.now(UTC) - timedelta(minutes=minutes)
        enqueue(conn, "mail.send", {}, queue=queue, run_at=run_at)
    found = queues.longest(list_queues(conn))
    assert found
    assert found.name == "old"
    assert 3_500 < found.oldest_ready_seconds < 3_700


def test_a_due_job_that_nobody_promoted_is_the_oldest_all_the_same(conn, job_in) -> None:
    made = job_in(conn, "due")
    conn.execute(
        "WITH gone AS (DELETE FROM countersign.waiting WHERE id = %s RETURNING waiting.*)"
        " INSERT INTO countersign.waiting (id, queue, name, rank, run_at)"
        " SELECT id, queue, name, rank, now() - interval '90 s' FROM gone",
        [made.id],
    )

    (row,) = list_queues(conn)

    assert row.oldest_ready_seconds == 90


def test_a_list_counts_up_to_its_cap_and_one_more(conn, registry) -> None:
    for _ in range(5):
        enqueue(conn, "mail.send", queue="mail")

    assert [row.ready for row in list_queues(conn, cap=3)] == [4]
    assert [row.ready for row in list_queues(conn, cap=5)] == [5]


def test_where_there_are_too_many_queues_the_paused_ones_are_kept(
    conn, registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queues, "MOST_QUEUES", 2)
    for queue in ("alpha", "beta", "gamma"):
        enqueue(conn, "mail.send", queue=queue)
    pause_queue(conn, "gamma", **SIGNED)

    assert [row.name for row in list_queues(conn)] == ["alpha", "gamma"]


@pytest.mark.parametrize("place", ["ready", "due", "waiting", "blocked"])
def test_the_size_of_a_queue_counts_what_is_queued(conn, job_in: Callable, place: str) -> None:
    made = job_in(conn, place)
    assert queue_size(conn, made.queue) == 1


@pytest.mark.parametrize("place", ["running", "completed", "failed", "cancelled", "needs_review"])
def test_the_size_of_a_queue_counts_nothing_else(conn, job_in, place: str) -> None:
    made = job_in(conn, place)
    assert queue_size(conn, made.queue) == 0


def test_the_size_is_asked_of_a_queue_that_can_have_a_name(conn) -> None:
    with pytest.raises(OptionError):
        queue_size(conn, "")


def test_a_list_reads_no_more_of_a_long_queue_than_its_cap(new_database) -> None:
    """Though the statistics believe the tables empty, and the list was read of empty ones."""
    owner, conn = new_database.owner(), new_database.connect()
    full.quiet(owner)
    for _ in range(12):
        list_queues(conn)
    for place in full.PLACES:
        full.fill(owner, place)

    with conn.transaction():
        found = {row.name: standing(row) for row in list_queues(conn, cap=100)}
        assert found == {place: EMPTY | {place: 101} for place in full.PLACES}
        assert full.read(conn) < 1_000


def test_one_queue_stands_as_in_the_list_of_all(conn, registry) -> None:
    enqueue(conn, "mail.send", {}, queue="a")
    enqueue(conn, "mail.send", {}, queue="b", delay=60)
    pause_queue(conn, "b", **SIGNED)
    assert [queues.queue(conn, "a"), queues.queue(conn, "b")] == list_queues(conn)
    none = queues.queue(conn, "c")
    assert (standing(none), none.paused_at) == (EMPTY, None)


@pytest.mark.parametrize("name", ["", "a\0b", "x" * 201])
def test_what_cannot_be_a_queue_is_not_looked_for(conn, name) -> None:
    with pytest.raises(OptionError):
        queues.queue(conn, name)


@pytest.mark.parametrize(
    ("queues_there", "cap"), [(0, 1_000), (2, 1_000), (3, 500), (5, 200), (11, 100), (30, 100)]
)
def test_the_more_queues_there_are_the_less_far_each_is_counted(
    conn, registry, monkeypatch, queues_there: int, cap: int
) -> None:
    monkeypatch.setattr(queues, "MOST_COUNTED", 2_000)
    for number in range(queues_there):
        enqueue(conn, "mail.send", queue=f"q-{number}")
    assert queues.list_cap(conn) == cap
