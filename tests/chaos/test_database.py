"""The database killed, full, read-only or down: what was asked is done, and what ended is kept."""

import time
from contextlib import ExitStack, closing

import psycopg
import pytest

from queue_core import NewJob
from tests.chaos.books import Attempt
from tests.chaos.conftest import IS_LONG
from tests.chaos.load import Load
from tests.chaos.staff import Staff
from tests.queue_core.worker.conftest import PATIENCE, wait_for

pytestmark = [
    pytest.mark.chaos,
    pytest.mark.timeout(1_800),
    pytest.mark.xdist_group("chaos-server"),
]

RESTARTS, JOBS = (10, 300) if IS_LONG else (3, 60)
IDLE, ALLOWED = (300, 340) if IS_LONG else (60, 100)
AWAY_SECONDS = 30.0 if IS_LONG else 2.0
DOWN_SECONDS = 180.0 if IS_LONG else 1.0
STALE = 60.0 if IS_LONG else 3.0
"""Of a worker that gives itself up while the database is down."""
PATIENT = 600.0 if IS_LONG else 60.0
"""Of workers that outlast it."""


@pytest.fixture
def base(own_server):
    return own_server.make_database()


@pytest.fixture
def staff(base, witness, tmp_path):
    staff = Staff(base.url, witness, tmp_path, stale_after=PATIENT, processes=2)
    yield staff
    staff.close()


@pytest.fixture
def load(base, books, dice):
    load = Load(base.url, books, dice)
    yield load
    load.close()


def settle(base, books, staff):
    """Wait until all is done, send everybody home, and prove the books."""
    with closing(base.connect()) as conn:
        books.await_rest(conn, 300)
        assert set(staff.dismiss()) == {0}
        books.prove(conn)
        return books.balance(conn)


def test_a_server_that_is_restarted_at_once_over_and_over(
    own_server, base, books, staff, load, dice
):
    for _ in range(2):
        staff.hire()
    staff.await_ready()
    for _ in range(RESTARTS):
        load.ask_until_answered(JOBS)
        time.sleep(dice.uniform(0, 0.5))
        load.ask(JOBS // 3)
        own_server.restart_at_once()
    load.ask_until_answered(JOBS)
    balance = settle(base, books, staff)
    assert balance["lost"] == 0  # an outage common to all loses nobody


def test_a_server_that_refuses_to_write_for_a_while(own_server, base, books, staff, load):
    staff.hire()
    staff.await_ready()
    load.ask_until_answered(JOBS)
    own_server.refuse_writing(True)
    try:
        wait_for(lambda: not load.ask(1))  # each session hears of it by itself
        staff.await_line("ReadOnlySqlTransaction")
        time.sleep(AWAY_SECONDS)
    finally:
        own_server.refuse_writing(False)
    load.ask_until_answered(JOBS)
    assert settle(base, books, staff)["lost"] == 0


def hold(stack: ExitStack, url: str, most: int) -> int:
    """Open so many connections that do nothing, or as many as are let in; returns how many."""
    for number in range(most):
        try:
            stack.enter_context(closing(psycopg.connect(url, autocommit=True)))
        except psycopg.OperationalError:
            return number
    return most


TERMINATE = """
SELECT count(pg_terminate_backend(pid)) AS ended FROM pg_stat_activity
WHERE application_name = 'countersign worker' AND datname = current_database()
"""


def test_a_server_with_idle_connections_and_then_with_no_room_for_more(
    own_server, base, books, staff, load
):
    if IS_LONG:
        own_server.allow(ALLOWED)
    staff.hire()
    staff.await_ready()
    with ExitStack() as idle, closing(base.owner()) as owner:
        assert hold(idle, base.url, IDLE) == IDLE
        load.ask_until_answered(JOBS)
        with closing(base.connect()) as conn:
            books.await_rest(conn, 120)
        with ExitStack() as crowd:
            load.ask_until_answered(JOBS)
            load.close()
            while owner.execute(TERMINATE).fetchall()[0]["ended"]:
                hold(crowd, base.url, ALLOWED)
            with pytest.raises(psycopg.OperationalError):
                base.connect()
            time.sleep(AWAY_SECONDS)
        load.ask_until_answered(JOBS)
        assert settle(base, books, staff)["lost"] == 0


def test_results_that_came_while_the_server_was_down_are_written_when_it_is_back(
    own_server, base, books, staff
):
    patient = staff.hire(queues={"patient": None})
    hasty = staff.hire(queues={"hasty": None}, stale_after=STALE)
    staff.await_ready()
    with closing(base.connect()) as conn:
        short, cut, kept = books.ask(
            conn,
            NewJob("chaos.long", {"seconds": STALE / 6}, queue="hasty"),
            NewJob("chaos.long", {"seconds": 10 * STALE, "again": 0}, queue="hasty"),
            NewJob("chaos.long", {"seconds": STALE}, queue="patient"),
        )
    runs = {Attempt(job, 1) for job in (short, cut, kept)}
    wait_for(lambda: runs <= books.seen().keys())
    own_server.stop_at_once()
    ended = {Attempt(short, 1), Attempt(kept, 1)}
    patience = PATIENCE + 2 * STALE
    wait_for(lambda: all(books.seen()[run].done for run in ended), patience)
    staff.await_line("gives itself up", patience)
    time.sleep(DOWN_SECONDS)
    own_server.start()
    assert hasty.ended() == 5
    staff.present.remove(hasty)
    staff.gone.append(hasty)
    staff.hire()
    balance = settle(base, books, staff)
    with closing(base.connect()) as conn:
        row = "SELECT id, attempt FROM countersign.ended"
        attempts = {row["id"]: row["attempt"] for row in conn.execute(row)}
    assert {short: 1, cut: 2, kept: 1}.items() <= attempts.items()
    assert balance["lost"] == 1
    assert books.overlaps() == {}
    assert patient.process.returncode == 0
