"""Worker sessions: living and gone."""

import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from queue_core import fleet
from queue_core.queries.jobs import Cursor
from queue_core.queries.workers import (
    SILENCE,
    count_workers,
    list_workers,
    live,
    worker,
    workers_of,
)

IDENTITY = fleet.Identity("pay-3", 77, "boot-1", "pid:[1]", "0.1.0", ["mail", "slow"], 4, "left")


def test_a_worker_is_told_as_it_registered(conn) -> None:
    registered = fleet.register(conn, IDENTITY)
    found = worker(conn, registered)
    assert found
    assert (found.id, found.name, found.host, found.pid) == (registered, "left", "pay-3", 77)
    assert (found.version, found.queues, found.slots) == ("0.1.0", ["mail", "slow"], 4)
    assert found.started_at == found.beat_at
    assert (found.stopped_at, found.lost_at, found.lost_by, found.lost_rule) == (None,) * 4
    assert live(conn) == [found]


def test_several_are_found_by_their_ids(conn) -> None:
    one, two = fleet.register(conn, IDENTITY), fleet.register(conn, IDENTITY)
    assert workers_of(conn, [one, uuid.uuid4(), one]) == {one: worker(conn, one)}
    assert set(workers_of(conn, [one, two])) == {one, two}
    assert workers_of(conn, []) == {}


def test_a_worker_that_never_was_is_none(conn) -> None:
    assert worker(conn, uuid.uuid4()) is None
    assert live(conn) == []


def test_the_gone_are_remembered_and_not_live(conn) -> None:
    stopped, lost, buried, first = (fleet.register(conn, IDENTITY) for _ in range(4))
    fleet.stop(conn, stopped)
    fleet.give_up(conn, lost)
    fleet.bury_dead(conn, first, [buried])
    assert [each.id for each in live(conn)] == [first]
    found = [worker(conn, each) for each in (stopped, lost, buried)]
    assert all(found)
    rules = [(each.lost_rule, each.lost_by) for each in found if each]
    assert rules == [(None, None), ("gave_up", lost), ("same_host", first)]


def test_a_restart_is_a_new_session(conn) -> None:
    first, second = fleet.register(conn, IDENTITY), fleet.register(conn, IDENTITY)
    assert first != second
    assert [each.id for each in live(conn)] == [first, second]


def at_page(conn, fate, **place):
    page = list_workers(conn, fate, size=2, **place)
    return [each.pid for each in page.rows], page


LEFT = {
    "live": "UPDATE countersign.workers SET started_at = %s WHERE id = %s",
    "lost": "UPDATE countersign.workers SET lost_at = %s, lost_rule = 'stale' WHERE id = %s",
    "stopped": "UPDATE countersign.workers SET stopped_at = %s WHERE id = %s",
}


@pytest.mark.parametrize(
    ("fate", "order"), [("live", [1, 2, 3, 4, 5]), ("lost", [5, 4, 3, 2, 1]),
                        ("stopped", [5, 4, 3, 2, 1])],
)  # fmt: skip
def test_workers_of_a_fate_come_a_page_at_a_time_both_ways(conn, fate, order) -> None:
    """Three of them at the same moment: none is skipped, none comes twice."""
    for pid, minute in enumerate([0, 1, 1, 1, 2], start=1):
        registered = fleet.register(conn, replace(IDENTITY, pid=pid))
        conn.execute(LEFT[fate], [datetime(2026, 1, 1, 0, minute, tzinfo=UTC), registered])
    first, page = at_page(conn, fate)
    second, middle = at_page(conn, fate, cursor=page.next)
    third, last = at_page(conn, fate, cursor=middle.next)
    assert first + second + third == order
    assert (page.previous, last.next) == (None, None)
    again, back = at_page(conn, fate, cursor=last.previous, direction="previous")
    assert (again, back.next) == (second, middle.next)
    assert at_page(conn, fate, cursor=back.previous, direction="previous")[0] == first
    assert at_page(conn, fate, cursor=Cursor(END[fate], uuid.UUID(int=0)))[0] == []


END = {
    "live": datetime(2100, 1, 1, tzinfo=UTC),
    "lost": datetime(2000, 1, 1, tzinfo=UTC),
    "stopped": datetime(2000, 1, 1, tzinfo=UTC),
}


def test_workers_are_counted_by_fate_up_to_a_cap(conn) -> None:
    ids = [fleet.register(conn, IDENTITY) for _ in range(6)]
    fleet.stop(conn, ids[0])
    for each in ids[1:3]:
        fleet.give_up(conn, each)
    assert count_workers(conn) == {"live": 3, "lost": 2, "stopped": 1}
    assert count_workers(conn, cap=1) == {"live": 2, "lost": 2, "stopped": 1}


def test_how_a_worker_stands_is_said_in_a_word(conn) -> None:
    ids = [fleet.register(conn, IDENTITY) for _ in range(5)]
    fleet.drain(conn, ids[1])
    fleet.stop(conn, ids[2])
    fleet.give_up(conn, ids[3])
    found = [worker(conn, each) for each in ids]
    rows = [each for each in found if each]
    now = rows[0].beat_at
    assert [each.standing(now) for each in rows] == ["live", "draining", "stopped", "lost", "live"]
    later = now + SILENCE + timedelta(seconds=1)
    assert [each.standing(now + SILENCE) for each in rows[:2]] == ["live", "draining"]
    assert [each.standing(later) for each in rows] == [
        "silent",
        "silent",
        "stopped",
        "lost",
        "silent",
    ]
