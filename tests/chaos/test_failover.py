"""The primary is killed and its standby promoted: nothing that was answered is missing."""

import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import psycopg
import pytest
from psycopg.rows import DictRow, dict_row

from console import database as connections
from queue_core import ContendedError, NewJob, cancel
from tests.chaos.books import Books
from tests.chaos.conftest import IS_LONG
from tests.chaos.pair import Pair
from tests.chaos.staff import Staff
from tests.console.serving import console_on
from tests.queue_core.worker.conftest import wait_for

pytestmark = [pytest.mark.chaos, pytest.mark.slow]

BACK_SECONDS = 15.0 if IS_LONG else 45.0
"""The promise is 15: after the promotion workers and consoles are back by themselves. In its short
form this stands beside other tests, on a machine with much else to do."""
UNDER_LOAD = 10.0 if IS_LONG else 2.0
OUTAGE = 25.0 if IS_LONG else 1.0
FAILOVERS = 3 if IS_LONG else 1
REST_SECONDS = 120.0
ENDED = "SELECT id FROM countersign.ended WHERE id = %s AND state = 'completed'"
COMPLETED = "SELECT id FROM countersign.ended WHERE state = 'completed'"


@pytest.fixture
def pair() -> Iterator[Pair]:
    pair = Pair()
    yield pair
    pair.close()


class Customers:
    """Ask for jobs and cancel some, without a pause, whatever becomes of the database."""

    def __init__(self, url: str, books: Books) -> None:
        self._url, self._books = url, books
        self._over = threading.Event()
        self.failures = 0
        self.completed: set[object] = set()
        """The jobs that were seen completed."""
        self._threads = [
            threading.Thread(target=self._go_on, args=[round_])
            for round_ in (self._ask, self._ask, self._look)
        ]
        for thread in self._threads:
            thread.start()

    def leave(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _go_on(self, round_) -> None:
        while not self._over.is_set():
            with suppress(psycopg.OperationalError):
                with connected(self._url) as conn:
                    while not self._over.is_set():
                        round_(conn)
                return
            self.failures += 1
            time.sleep(0.1)

    def _ask(self, conn) -> None:
        self._books.ask(conn, NewJob("chaos.plain"), NewJob("chaos.quick"))
        (late,) = self._books.ask(conn, NewJob("chaos.plain", delay=1))
        with suppress(ContendedError):
            self._books.sign(cancel(conn, [late], by="ops:alice", reason="not_wanted"))
        time.sleep(0.02)

    def _look(self, conn) -> None:
        self.completed |= {row["id"] for row in conn.execute(COMPLETED)}
        time.sleep(0.05)


def connected(url: str) -> psycopg.Connection[DictRow]:
    return psycopg.Connection[DictRow].connect(url, autocommit=True, row_factory=dict_row)


@pytest.mark.timeout(900 if IS_LONG else 240)
def test_a_failover_loses_nothing_that_was_answered_and_everybody_comes_back(
    pair, books, witness, tmp_path
):
    staff = Staff(pair.url, witness, tmp_path, stale_after=60.0)
    console = console_on(pair.url)
    visitor = console.test_client()
    customers = Customers(pair.url, books)
    try:
        staff.hire()
        staff.hire()
        staff.await_ready()
        assert visitor.get("/readyz").status_code == 200
        for number in range(FAILOVERS):
            if number:
                pair.replace_standby()
            time.sleep(UNDER_LOAD)
            wait_for(lambda: customers.completed)
            failures = customers.failures
            pair.kill_primary()
            time.sleep(OUTAGE)
            assert customers.failures > failures
            assert visitor.get("/readyz").status_code == 503
            pair.promote()
            promoted = time.monotonic()
            with connected(pair.url) as conn:
                (made,) = books.ask(conn, NewJob("chaos.plain", priority=100))
                wait_for(lambda conn=conn, made=made: conn.execute(ENDED, [made]).fetchone())
            wait_for(lambda: visitor.get("/readyz").status_code == 200)
            assert time.monotonic() - promoted < BACK_SECONDS
        customers.leave()
        with connected(pair.url) as conn:
            books.await_rest(conn, REST_SECONDS)
            assert customers.completed <= {row["id"] for row in conn.execute(COMPLETED)}
            books.prove(conn)
        assert staff.replace_ended() == []  # by themselves: nobody started anybody anew
        assert staff.dismiss() == [0, 0]
    finally:
        customers.leave()
        staff.close()
        connections.connections(console).close()
