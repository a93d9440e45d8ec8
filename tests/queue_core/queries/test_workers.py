"""Worker sessions: living and gone."""

import uuid

from queue_core import fleet
from queue_core.queries.workers import live, worker

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
