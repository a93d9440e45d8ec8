"""Many tick at once, act meanwhile and die: each due time has one job, and no two stack."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg.rows import DictRow

from queue_core import (
    ScheduleRefusedError,
    list_schedules,
    pause_schedule,
    resume_schedule,
    run_schedule_now,
    tick_schedules,
)
from queue_core.rules import Schedule
from tests.conftest import Database
from tests.timetable import due_in, pass_time

Conn = psycopg.Connection[DictRow]
SIGNED: dict[str, Any] = {"by": "ops:alice", "reason": "seen_in_test"}
HOURLY = Schedule("nightly", 3_600.0, None, "mail.send", "q", "{}")
PATIENCE = 20.0


def jobs(conn: Conn) -> int:
    (count,) = conn.execute("SELECT count(*) FROM countersign.jobs").fetchall()
    return int(str(count["count"]))


def forget_jobs(conn: Conn) -> None:
    conn.execute("DELETE FROM countersign.ready")


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(6) as threads:
        yield threads


def waits(watch: Conn, conn: Conn, doing: Future[Any]) -> bool:
    """Say whether a connection waits for a lock, or False once it is done without."""
    query = "SELECT wait_event_type AS wait FROM pg_stat_activity WHERE pid = %s"
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if doing.done():
            return False
        if watch.execute(query, [conn.info.backend_pid]).fetchone() == {"wait": "Lock"}:
            return True
        time.sleep(0.002)
    raise AssertionError("it neither waits nor ends")


def test_of_many_who_tick_at_once_one_enqueues_each_due_time(
    database: Database, pool: ThreadPoolExecutor
) -> None:
    """Jobs are gone as soon as they are made, so that only the schedule's row can tell."""
    rounds, many = 30, 5
    conns, watch = [database.connect() for _ in range(many)], database.connect()
    together = threading.Barrier(many)

    def ticks(conn: Conn) -> int:
        together.wait(PATIENCE)
        return tick_schedules(conn, [HOURLY])

    made = 0
    for _ in range(rounds):
        made += sum(pool.map(ticks, conns))
        forget_jobs(watch)
        pass_time(watch, hours=1)
    assert made == jobs(watch) == rounds
    assert -3_600 < due_in(watch) <= 0


def test_many_who_register_at_once_make_one_row_and_the_newest_code_wins(
    database: Database, pool: ThreadPoolExecutor
) -> None:
    """They wait for each other in one order, so that no two ever wait in a ring."""
    conns, owner = [database.connect() for _ in range(6)], database.owner()
    together = threading.Barrier(6)
    two = [HOURLY, Schedule("nightly", 60.0, None, "mail.send", "q", "{}")]

    def ticks(number: int) -> int:
        together.wait(PATIENCE)
        return sum(tick_schedules(conns[number], [two[number % 2]]) for _ in range(5))

    for done in range(1, 31):
        _forget(owner, everything=True)
        assert sum(pool.map(ticks, range(6))) == 1
        assert jobs(owner) == done
        (row,) = list_schedules(owner)
        newest = "SELECT every FROM countersign.schedule_versions ORDER BY id DESC LIMIT 1"
        assert owner.execute(newest).fetchone() == {"every": timedelta(seconds=row.every)}


def test_a_schedule_that_another_process_is_at_is_passed_over(database: Database) -> None:
    first, second = database.connect(autocommit=False), database.connect()
    tick_schedules(second, [HOURLY])
    forget_jobs(second)
    pass_time(second, minutes=59, seconds=30)
    tick_schedules(second, [HOURLY])
    pass_time(second, seconds=30)
    assert tick_schedules(first, [HOURLY]) == 1
    assert tick_schedules(second, [HOURLY]) == 0
    first.rollback()
    assert tick_schedules(second, [HOURLY]) == 1


STALL = """
ALTER TABLE countersign.schedules ENABLE ROW LEVEL SECURITY;
CREATE FUNCTION public.stall() RETURNS boolean LANGUAGE plpgsql
AS $$ BEGIN PERFORM pg_advisory_xact_lock_shared(7); RETURN true; END $$;
CREATE POLICY stalled ON countersign.schedules USING (public.stall());
"""


@pytest.mark.parametrize("other", ["tick", "run_now"])
def test_a_tick_frozen_before_its_lock_does_not_stack_a_job_on_one_it_cannot_see(
    database: Database, pool: ThreadPoolExecutor, other: str
) -> None:
    """Its snapshot is from before the other's job, the row it then locks from after it."""
    owner, slow = database.owner(), database.connect()
    tick_schedules(owner, [HOURLY])
    forget_jobs(owner)
    pass_time(owner, minutes=59, seconds=30)
    tick_schedules(owner, [HOURLY])
    pass_time(owner, seconds=30)
    owner.execute(STALL)
    owner.execute("SET row_security = off")
    owner.execute("SELECT pg_advisory_lock(7)")
    stalled = pool.submit(_tick_alone, slow)
    assert waits(owner, slow, stalled)
    if other == "tick":
        assert tick_schedules(owner, [HOURLY]) == 1
        owner.execute("UPDATE countersign.schedules SET due_at = now()")
    else:
        run_schedule_now(owner, "nightly", **SIGNED)
    owner.execute("SELECT pg_advisory_unlock(7)")
    assert stalled.result(PATIENCE) is None
    assert jobs(owner) == 2


def _tick_alone(conn: Conn) -> object:
    from queue_core.schedules.tick import TICK  # noqa: PLC0415 - its statement by itself

    return conn.execute(TICK, {"name": "nightly"}).fetchone()


ACTS: dict[str, Callable[..., object]] = {
    "tick": lambda conn: tick_schedules(conn, [HOURLY]),
    "run_now": lambda conn: run_schedule_now(conn, "nightly", **SIGNED),
    "pause": lambda conn: pause_schedule(conn, "nightly", **SIGNED),
    "resume": lambda conn: resume_schedule(conn, "nightly", **SIGNED),
}


@pytest.mark.parametrize(
    ("first", "second", "why"),
    [
        ("tick", "run_now", "last_job_queued"),
        ("run_now", "run_now", "last_job_queued"),
        ("pause", "pause", "already_paused"),
        ("resume", "resume", "not_paused"),
    ],
)
@pytest.mark.parametrize("commits", [True, False])
def test_who_acts_second_waits_and_sees_what_the_first_did(
    database, pool, first, second, why, commits
) -> None:
    one, two, watch = database.connect(autocommit=False), database.connect(), database.connect()
    tick_schedules(watch, [HOURLY])
    forget_jobs(watch)
    pass_time(watch, minutes=59, seconds=30)
    tick_schedules(watch, [HOURLY])
    pass_time(watch, seconds=30)
    if first == "resume":
        pause_schedule(watch, "nightly", **SIGNED)
    ACTS[first](one)
    racing = pool.submit(ACTS[second], two)
    assert waits(watch, two, racing)
    if commits:
        one.commit()
        with pytest.raises(ScheduleRefusedError) as raised:
            racing.result(PATIENCE)
        assert raised.value.why == why
    else:
        one.rollback()
        assert racing.result(PATIENCE)
    assert jobs(watch) == 1 + (second == "run_now")


def test_a_pause_waits_for_no_tick_that_is_still_to_come(database: Database) -> None:
    one, two = database.connect(autocommit=False), database.connect()
    tick_schedules(two, [HOURLY])
    forget_jobs(two)
    pass_time(two, hours=1)
    pause_schedule(one, "nightly", **SIGNED)
    assert tick_schedules(two, [HOURLY]) == 0
    one.commit()
    assert tick_schedules(two, [HOURLY]) == 0


class Killed(psycopg.Cursor[Any]):
    """A cursor whose connection dies at the statement of a number, before or after it."""

    def execute(self, *args: Any, **options: Any) -> Any:
        how: dict[str, Any] = vars(Killed.plan)
        Killed.plan.statement += 1
        if how["statement"] == how["dies_at"] and not how["after"]:
            self._die()
        done = super().execute(*args, **options)
        if how["statement"] == how["dies_at"] and how["after"]:
            self._die()
        return done

    def _die(self) -> None:
        Killed.plan.died = True
        pid = self.connection.info.backend_pid
        Killed.plan.killer.execute("SELECT pg_terminate_backend(%s, 10000)", [pid])

    plan: Any


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("autocommit", [False, True])
@pytest.mark.parametrize("is_new", [False, True])
def test_whoever_dies_between_any_two_steps_leaves_each_due_time_one_job(
    database, monkeypatch, after, autocommit, is_new
) -> None:
    watch = database.connect()
    monkeypatch.setattr("queue_core.database.psycopg.Cursor", Killed)
    Killed.plan = type("Plan", (), {})()
    vars(Killed.plan).update(statement=0, dies_at=0, after=after)
    Killed.plan.killer = database.owner()
    expected = dies_at = 0
    Killed.plan.died = True
    while Killed.plan.died:
        dies_at += 1
        _forget(Killed.plan.killer, everything=is_new)
        vars(Killed.plan).update(statement=0, dies_at=dies_at, after=after, died=False)
        with suppress(psycopg.OperationalError), database.connect(autocommit=autocommit) as conn:
            tick_schedules(conn, [HOURLY])
        vars(Killed.plan).update(dies_at=0)
        expected += 1
        tick_schedules(watch, [HOURLY])
        assert jobs(watch) == expected, dies_at
    assert dies_at > 3


def _forget(conn: Conn, *, everything: bool) -> None:
    """Leave the schedule due, or as if nobody had ever known it."""
    forget_jobs(conn)
    pass_time(conn, hours=1)
    if everything:
        conn.execute("DELETE FROM countersign.schedules")
        conn.execute("DELETE FROM countersign.schedule_versions")
