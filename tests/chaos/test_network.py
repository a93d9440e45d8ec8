"""A network that stalls for longer than the stale time: runs move, none is in two places."""

import time

import pytest

from queue_core import NewJob
from tests.chaos.books import Attempt, read
from tests.chaos.conftest import IS_LONG
from tests.chaos.proxy import Network
from tests.queue_core.worker.conftest import wait_for

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1_800), pytest.mark.xdist_group("chaos-line")]

STALE, ROUNDS = (30.0, 4) if IS_LONG else (5.0, 1)


@pytest.fixture
def networks(database):
    """Give two ways to the database: one that stalls whole, and one whose answers stall."""
    made = {"whole": Network(database.url), "answers": Network(database.url)}
    yield made
    for network in made.values():
        network.cut()


def test_a_worker_behind_a_stalled_network_stops_its_runs_before_another_takes_them(
    database, books, staff, networks
):
    conn = database.connect()
    for _ in range(ROUNDS):
        stall_once(conn, books, staff, networks)
    staff.hire()
    staff.await_ready()
    books.await_rest(conn, 120)
    assert set(staff.dismiss()) == {0}
    books.prove(conn)
    assert books.overlaps() == {}


def stall_once(conn, books, staff, networks):
    """Stall both networks while a worker behind each has runs, until another has taken these."""
    behind = {
        way: staff.hire(network.url, queues={way: None}, processes=3, stale_after=STALE)
        for way, network in networks.items()
    }
    asked = {
        way: books.ask(
            conn,
            NewJob("chaos.long", {"seconds": 20 * STALE, "again": 1.0}, queue=way),
            NewJob("chaos.long", {"seconds": STALE / 4}, queue=way),
            NewJob("chaos.reviewed", {"seconds": 20 * STALE}, queue=way),
        )
        for way in networks
    }
    first = {Attempt(job, 1) for jobs in asked.values() for job in jobs}
    wait_for(lambda: first <= books.seen().keys())
    other = staff.hire(stale_after=STALE)
    other.id()
    stalled = time.monotonic()
    networks["whole"].stall()
    networks["answers"].stall(questions=False)
    taken = {Attempt(jobs[0], 2) for jobs in asked.values()}
    wait_for(lambda: taken <= books.seen().keys(), 10 * STALE)
    assert books.overlaps() == {}
    time.sleep(max(0.0, stalled + 2 * STALE - time.monotonic()))
    settled = {
        job: places for job, places in read(conn).places.items() if places[0].state == "completed"
    }
    for network in networks.values():
        network.release()
    for worker in behind.values():
        assert worker.ended() == 5
        staff.present.remove(worker)
        staff.gone.append(worker)
    after = read(conn).places
    assert {job: after[job] for job in settled} == settled  # late writes change nothing
    reviewed = {jobs[2] for jobs in asked.values()}
    assert {after[job][0].state for job in reviewed} == {"needs_review"}
    assert other.end() == 0  # or it would take what the next two are to run
    staff.present.remove(other)
    staff.gone.append(other)
