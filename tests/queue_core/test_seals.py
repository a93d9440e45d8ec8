"""Seals: every act sealed exactly once, in a chain, however transactions overlap and end."""

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queue_core import cancel, check, enqueue, seals
from queue_core.errors import ContendedError
from queue_core.queries.seals import newest
from tests.sealing import seal_all, sealed, sign


@pytest.fixture
def two(database) -> tuple[Any, Any]:
    """Give an autocommit connection to a database of the test's own, and one that is not."""
    return database.connect(), database.connect(autocommit=False)


def test_an_act_is_sealed_with_its_id_and_digest(two):
    conn, _ = two
    ids = sign(conn, 3)

    assert seals.seal(conn) == 3

    assert sealed(conn) == [ids]
    (head,) = newest(conn)
    assert (head.number, head.count, head.rebase) == (1, 3, False)
    assert head.previous == "00" * 32
    assert str(head.head) == f"1:{head.sha256}"


def test_without_acts_there_is_no_seal(two):
    conn, _ = two
    assert seals.seal(conn) == 0
    sign(conn)
    assert seal_all(conn) == [1]
    assert seals.seal(conn) == 0
    assert len(sealed(conn)) == 1


def test_each_seal_names_the_one_before(two):
    conn, _ = two
    for _ in range(3):
        sign(conn)
        seals.seal(conn)

    third, second, first = newest(conn)
    assert [third.previous, second.previous] == [second.sha256, first.sha256]
    assert [third.number, second.number, first.number] == [3, 2, 1]


def test_a_seal_is_never_committed_for_the_caller(two):
    conn, caller = two
    sign(conn)
    assert seals.seal(caller) == 1
    caller.rollback()
    assert sealed(conn) == []
    assert seals.seal(conn) == 1


def test_an_act_of_a_transaction_that_goes_on_waits_for_its_end(two):
    conn, late = two
    mine = sign(late)
    others = sign(conn, 2)

    assert seals.seal(conn) == 0

    late.commit()
    assert seals.seal(conn) == 3
    assert sealed(conn) == [mine + others]


def test_a_rolled_back_act_is_in_no_seal(two):
    conn, late = two
    sign(late)
    others = sign(conn)
    late.rollback()
    assert seal_all(conn) == [1]
    assert sealed(conn) == [others]


def test_an_id_taken_before_an_earlier_transaction_is_sealed_all_the_same(two, database):
    conn, slow = two
    earlier = database.connect(autocommit=False)
    earlier.execute("SELECT pg_current_xact_id()")  # its transaction has its number first
    (first,) = sign(slow)
    slow.commit()
    (second,) = sign(earlier)
    assert seals.seal(conn) == 0
    earlier.commit()

    assert seal_all(conn) == [2]
    assert sealed(conn) == [[second, first]]
    assert second > first


def test_seals_stay_small_and_no_transaction_is_parted(two):
    conn, late = two
    first = [sign(conn, 400) for _ in range(4)]
    huge = sign(late, 2_500)
    late.commit()
    last = sign(conn)

    assert seal_all(conn) == [800, 800, 2_500, 1]
    assert sealed(conn) == [first[0] + first[1], first[2] + first[3], huge, last]


def test_two_sealers_at_once_seal_everything_once(two, database):
    conn, first = two
    second = database.connect(autocommit=False)
    sign(conn, 5)
    assert seals.seal(first) == 5
    assert seals.seal(second) == 0  # it does not wait, and does not fail
    first.commit()
    second.commit()
    assert seals.seal(second) == 0
    assert len(sealed(conn)) == 1


def test_a_stricter_transaction_cannot_seal(two):
    _, caller = two
    caller.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    with pytest.raises(ContendedError):
        seals.seal(caller)
    with pytest.raises(psycopg.errors.InvalidTransactionState):
        caller.execute("INSERT INTO countersign.seals DEFAULT VALUES")


def test_nobody_chooses_what_a_seal_says(two):
    conn, _ = two
    ids = sign(conn)
    conn.execute(
        "INSERT INTO countersign.seals (number, previous, at, xid, system_identifier, rebase, "
        "horizon, base, count, ids, digests, sha256) VALUES (7, '\\x01', '2001-01-01', '1', 1, "
        "true, '99999', 99, 0, '{}', '{}', '\\x02')"
    )
    (made,) = conn.execute("SELECT * FROM countersign.seals").fetchall()
    assert (made["number"], made["ids"], made["rebase"], made["base"]) == (1, ids, False, 0)
    assert int(made["horizon"]) < 99_999


def test_an_act_and_its_change_are_sealed_as_any_service_makes_them(database, registry):
    conn = database.connect()
    job = enqueue(conn, "mail.send").id
    cancel(conn, [job], by="ops:alice", reason="why_not")
    assert seals.seal(conn) == 1


class Crowd:
    """Threads that do something over and over until told to stop, or until one of them fails."""

    def __init__(self) -> None:
        self.over = threading.Event()
        self.failures: list[BaseException] = []
        self.threads: list[threading.Thread] = []

    def add(self, work: Callable[[], object]) -> None:
        thread = threading.Thread(target=self._repeat, args=(work,))
        self.threads.append(thread)
        thread.start()

    def _repeat(self, work: Callable[[], object]) -> None:
        try:
            while not self.over.is_set():
                work()
        except BaseException as error:  # noqa: BLE001 - is raised again by whoever waits
            self.failures.append(error)
            self.over.set()

    def end(self) -> None:
        self.over.set()
        for thread in self.threads:
            thread.join(20)
        assert self.failures == []


@pytest.fixture
def crowd():
    made = Crowd()
    yield made
    made.over.set()


def test_racing_committers_and_sealers_leave_every_act_sealed_exactly_once(database, crowd):
    kept: list[int] = []

    def commit(conn: Any, count: int) -> None:
        ids = sign(conn, count)
        if ids[0] % 5:
            conn.commit()
            kept.extend(ids)
        else:
            conn.rollback()

    for count in range(1, 5):
        crowd.add(partial(commit, database.connect(autocommit=False), count))
    for _ in range(2):
        crowd.add(partial(seals.seal, database.connect()))
    conn = database.connect()
    while not crowd.over.is_set() and len(sealed(conn)) < 60:
        pass
    crowd.end()

    seal_all(conn)
    found = [act for seal in sealed(conn) for act in seal]
    assert sorted(found) == sorted(kept)
    assert len(found) == len(set(found))


# Any order of commits, rollbacks, seals and kills

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["sign", "sign", "commit", "roll back", "seal", "seal beside", "kill"]),
        st.integers(0, 2),
    ),
    max_size=24,
)


class Ledgers:
    """Three connections that sign, commit, roll back, seal and are killed; and what has to be."""

    def __init__(self, database: Any) -> None:
        self.database = database
        self.watcher, self.killer = database.connect(), database.owner()
        self.conns = [database.connect(autocommit=False) for _ in range(3)]
        self.open: list[list[int]] = [[], [], []]
        self.kept: set[int] = set()

    def step(self, what: str, which: int) -> None:
        conn = self.conns[which]
        match what:
            case "sign":
                self.open[which] += sign(conn, 1 + which)
            case "commit":
                conn.commit()
                self.kept |= set(self.open[which])
                self.open[which] = []
            case "roll back":
                conn.rollback()
                self.open[which] = []
            case "seal":
                seals.seal(self.watcher)
            case "seal beside":  # in a transaction that may be rolled back, or killed
                seals.seal(conn)
            case "kill":
                self.kill(which)

    def kill(self, which: int) -> None:
        """End a session in the middle of its transaction, before any COMMIT."""
        pid = self.conns[which].info.backend_pid
        self.killer.execute("SELECT pg_terminate_backend(%s, 10000)", [pid])
        self.conns[which].close()
        self.conns[which] = self.database.connect(autocommit=False)
        self.open[which] = []


@pytest.fixture(scope="module")
def ledgers(shared_database) -> Ledgers:
    return Ledgers(shared_database)


@settings(max_examples=20)
@given(steps=STEPS)
def test_whatever_is_committed_rolled_back_or_killed_every_act_is_sealed_once(ledgers, steps):
    for what, which in steps:
        ledgers.step(what, which)
        assert check._ledger(ledgers.watcher, full=False) == []
    for which in range(3):
        ledgers.step("commit", which)
    seal_all(ledgers.watcher)
    found = [act for seal in sealed(ledgers.watcher) for act in seal]
    assert len(found) == len(set(found))
    assert set(found) == ledgers.kept
    assert check.check(ledgers.watcher, full=True) == []
