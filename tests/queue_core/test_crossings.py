"""Acts that cross: two who wait for each other, of which one gives way and nobody is told."""

import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, LiteralString
from uuid import UUID

import pytest
from psycopg import sql

from queue_core import (
    ContendedError,
    NewJob,
    cancel,
    clear_queue,
    close,
    confirm,
    crossings,
    enqueue_many,
    release,
    retry,
)
from queue_core.transitions.promote import promote
from tests.queue_core.racing import PATIENCE, SIGNED, Arena, Conn

TO_WAITING = """
WITH gone AS (DELETE FROM countersign.ready WHERE ready.id = %s RETURNING ready.*)
INSERT INTO countersign.waiting SELECT gone.* FROM gone
"""
LOCK = "SELECT FROM countersign.ready WHERE id = %s FOR UPDATE"


@pytest.fixture
def pair(arena: Arena, registry) -> tuple[str, UUID, UUID]:
    """Give a queue, and two jobs in it, of which the first is due and still in `waiting`."""
    queue = f"pair-{uuid.uuid4().hex}"
    due, ready = enqueue_many(arena.watch, [NewJob("mail.send", queue=queue)] * 2)
    arena.watch.execute(TO_WAITING, [due.id])
    return queue, due.id, ready.id


@pytest.fixture
def finds_no_deadlock(shared_database) -> Callable[[], Conn]:
    """Give a function that connects so that the database would let two wait for each other."""
    _notice_deadlocks(shared_database, "1min")
    return shared_database.connect


def _notice_deadlocks(shared_database, after: str) -> None:
    with shared_database.owner() as owner:
        name = sql.Identifier(owner.info.dbname)
        patience = sql.Literal(after)
        command = sql.SQL("ALTER DATABASE {} SET deadlock_timeout = {}")
        owner.execute(command.format(name, patience))


def cancels_both(conn: Conn, pair: tuple[str, UUID, UUID]) -> list[str]:
    return [each.why or each.act for each in cancel(conn, pair[1:], **SIGNED)]


def clears(conn: Conn, pair: tuple[str, UUID, UUID]) -> int:
    return clear_queue(conn, pair[0], **SIGNED)


CROSSING = {
    "queue_core.acts": (cancels_both, ["wrong_state", "wrong_state"]),
    "queue_core.transitions.clear": (clears, 0),
}


@pytest.mark.parametrize("autocommit", [True, False])
@pytest.mark.parametrize("module", CROSSING)
def test_who_waits_out_of_order_gives_way_to_whoever_waits_for_them(
    arena: Arena, pair, finds_no_deadlock, monkeypatch, module: str, autocommit
) -> None:
    """The first holds the second job and waits for the first, which slipped, and the second the
    other way round."""
    acts, told = CROSSING[module]
    first, second = finds_no_deadlock(), finds_no_deadlock()
    first.autocommit = autocommit
    crossing: list[Future[Any]] = []

    @contextmanager
    def after_the_other(conn: Any) -> Iterator[None]:
        if not crossing:
            crossing.append(pool.submit(cancels_both, second, pair))
            assert Arena(first, second, arena.watch).waits(crossing[0])
        with crossings.out_of_order(conn):
            yield

    monkeypatch.setattr(f"{module}.out_of_order", after_the_other)
    promote(arena.first)
    with ThreadPoolExecutor(2) as pool:
        racing = pool.submit(acts, first, pair)
        assert Arena(arena.first, first, arena.watch).waits(racing)
        arena.first.commit()
        assert racing.result(PATIENCE) == told
        assert crossing[0].result(PATIENCE) == ["cancelled", "cancelled"]
    first.rollback()
    assert [arena.acts(job) for job in pair[1:]] == [["cancelled"], ["cancelled"]]


TO_PLACES: dict[str, LiteralString] = {
    "ready": """
        INSERT INTO countersign.ready SELECT gone.* FROM gone ORDER BY gone.id DESC
    """,
    "running": """
        INSERT INTO countersign.running (id, attempt, worker, queue, name, rank, run_at,
            attempts_allowed, on_lost)
        SELECT gone.id, 1, gone.id, gone.queue, gone.name, 0, now(), 1, 'attempts'
        FROM gone ORDER BY gone.id DESC
    """,
    "ended": """
        INSERT INTO countersign.ended (id, state, attempt)
        SELECT gone.id, 'failed', 1 FROM gone ORDER BY gone.id DESC
    """,
    "review": """
        INSERT INTO countersign.review (id, why, attempt)
        SELECT gone.id, 'unreadable', 1 FROM gone ORDER BY gone.id DESC
    """,
}
BULKS = (
    (cancel, "ready"),
    (cancel, "running"),
    (retry, "ended"),
    (release, "review"),
    (confirm, "review"),
    (close, "review"),
)
LEFT_FREE: LiteralString = """
SELECT id FROM countersign.{} WHERE id = ANY(%s) FOR UPDATE SKIP LOCKED
"""


@pytest.mark.parametrize(("verb", "table"), BULKS)
def test_a_bulk_is_held_in_the_order_of_its_ids_however_rows_lie_and_are_joined(
    shared_database, arena: Arena, registry, verb, table: str
) -> None:
    queue = f"bulk-{uuid.uuid4().hex}"
    made = [each.id for each in enqueue_many(arena.watch, [NewJob("mail.send", queue=queue)] * 20)]
    gone: LiteralString = (
        "WITH gone AS (DELETE FROM countersign.ready WHERE ready.id = ANY(%s) RETURNING ready.*)"
    )
    arena.watch.execute(gone + TO_PLACES[table], [made])
    acting = shared_database.connect(autocommit=False)
    acting.execute("SET enable_nestloop = off; SET enable_mergejoin = off")
    with shared_database.owner(autocommit=False) as owner, ThreadPoolExecutor(1) as pool:
        left_free = sql.SQL(LEFT_FREE).format(sql.Identifier(table))
        owner.execute(left_free, [made[7:8]])
        racing = pool.submit(verb, acting, made, **SIGNED)
        assert Arena(owner, acting, arena.watch).waits(racing)
        free = [row["id"] for row in owner.execute(left_free, [made]).fetchall()]
        owner.rollback()
        assert all(each.applied for each in racing.result(PATIENCE))
    acting.rollback()
    assert sorted(free) == made[7:]


def test_a_queue_is_cleared_in_the_order_of_ids_however_its_rows_lie(
    shared_database, arena: Arena, pair
) -> None:
    queue, first, second = pair
    promote(arena.watch)  # and now it lies behind the other
    with shared_database.owner(autocommit=False) as owner, ThreadPoolExecutor(1) as pool:
        owner.execute(LOCK, [first])
        racing = pool.submit(clear_queue, arena.second, queue, **SIGNED)
        assert arena.waits(racing)
        owner.execute(f"{LOCK} NOWAIT", [second])
        owner.rollback()
        assert racing.result(PATIENCE) == 2


def test_of_two_in_a_deadlock_the_act_that_is_undone_is_done_anew(
    shared_database, arena: Arena, job_in
) -> None:
    one, other = (job_in(arena.watch, "ready").id for _ in range(2))
    _notice_deadlocks(shared_database, "20ms")
    acting, person = shared_database.connect(), shared_database.owner(autocommit=False)
    person.execute("SET deadlock_timeout = '1min'")
    person.execute(LOCK, [other])
    with ThreadPoolExecutor(1) as pool:
        racing = pool.submit(cancel, acting, [one, other], **SIGNED)
        assert Arena(person, acting, arena.watch).waits(racing)
        person.execute(LOCK, [one])
        person.rollback()
        assert [each.act for each in racing.result(PATIENCE)] == ["cancelled"] * 2
    assert [arena.acts(job) for job in (one, other)] == [["cancelled"], ["cancelled"]]


def test_who_crosses_others_again_and_again_is_contended_with_nothing_written(
    arena: Arena, job_in
) -> None:
    job = job_in(arena.watch, "ready").id
    times: list[int] = []

    def crosses() -> None:
        times.append(len(cancel(arena.second, [job], **SIGNED)))
        with crossings.out_of_order(arena.second):
            arena.second.execute("SET LOCAL lock_timeout = '1ms'")
            arena.second.execute(LOCK, [held])

    held = job_in(arena.watch, "ready").id
    arena.first.execute(LOCK, [held])
    with pytest.raises(ContendedError):
        crossings.whole(arena.second, crosses)
    assert times == [1] * crossings.TIMES
    assert arena.acts(job) == []


def test_the_callers_own_patience_is_left_as_it_was(conn) -> None:
    conn.execute("SET LOCAL lock_timeout = '7s'")
    with crossings.out_of_order(conn):
        (within,) = conn.execute("SHOW lock_timeout").fetchall()
    (after,) = conn.execute("SHOW lock_timeout").fetchall()
    assert (within["lock_timeout"], after["lock_timeout"]) == ("300ms", "7s")
