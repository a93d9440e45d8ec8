"""A tick enqueues what is due, once, and moves the due time by whole intervals."""

from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from queue_core import (
    ArgumentsError,
    NewJob,
    Registry,
    cancel,
    list_schedules,
    pause_queue,
    tick_schedules,
)
from queue_core.queries.places import locate
from queue_core.rules import Schedule
from queue_core.schedules import Ticked, tick
from tests.conftest import CANARY
from tests.timetable import begin, due_in, finish, pass_time, row

HOUR = 3_600.0
DAY = 24 * HOUR
SIGNED: dict[str, Any] = {"by": "ops:alice", "reason": "seen_in_test"}


@pytest.fixture
def nightly(registry: Registry) -> tuple[Schedule, ...]:
    """Give a schedule of a day, whose job carries the canary."""
    job = NewJob("mail.send", {"address": CANARY}, queue="night", priority=7)
    registry.every("nightly", hours=24, job=job)
    return registry.schedules


def test_a_due_time_its_job_and_the_next_due_time_come_together(conn, nightly) -> None:
    assert tick_schedules(conn, nightly) == 1
    now = row(conn)
    assert now.last_job
    assert now.due_at == now.created_at + timedelta(days=1)
    assert (now.last_state, now.last_skip) == ("ready", None)
    assert tick_schedules(conn, nightly) == 0
    assert row(conn) == now


def test_the_job_is_what_was_declared_and_names_its_schedule(conn, registry, make_worker) -> None:
    job = NewJob("mail.send", {"address": "a"}, queue="q", priority=-4, attempts=3, time_limit=2.5)
    registry.every("nightly", days=1, job=job)
    tick_schedules(conn, registry.schedules)
    made = conn.execute("SELECT * FROM countersign.jobs").fetchone()
    asked = {"name": "mail.send", "queue": "q", "args": {"address": "a"}, "priority": -4}
    asked |= {"attempts": 3, "time_limit": 2.5, "schedule": "nightly"}
    assert {key: made[key] for key in asked} == asked
    stands = conn.execute("SELECT *, now() FROM countersign.ready").fetchone()
    assert (stands["rank"], stands["attempts_allowed"], stands["attempt"]) == (4, 3, 0)
    assert stands["run_at"] == stands["now"]


def test_a_tick_of_nothing_asks_nothing_of_the_database(monkeypatch) -> None:
    assert tick(None, []) == Ticked(0, float("inf"))  # pyright: ignore[reportArgumentType]


def test_a_tick_says_when_it_has_more_to_do(conn, registry) -> None:
    registry.every("hourly", hours=1, job=NewJob("mail.send"))
    registry.every("nightly", hours=24, job=NewJob("mail.send"))
    assert tick(conn, registry.schedules) == Ticked(2, HOUR)
    pass_time(conn, minutes=50)
    assert tick(conn, registry.schedules) == Ticked(0, 600.0)


def test_only_schedules_of_this_code_are_ticked(conn, registry, nightly) -> None:
    tick_schedules(conn, nightly)
    pass_time(conn, days=2)
    registry.every("hourly", hours=1, job=NewJob("mail.send"))
    other = [each for each in registry.schedules if each.name == "hourly"]
    assert tick_schedules(conn, other) == 1
    assert due_in(conn) == -DAY


@pytest.mark.parametrize("late", [0.0, 1.0, HOUR, DAY - 1])
def test_the_next_time_counts_from_the_last_due_time_not_from_the_tick(
    conn, nightly, make_worker, late
) -> None:
    tick_schedules(conn, nightly)
    finish(conn, make_worker(conn))
    pass_time(conn, seconds=DAY + late)
    assert tick_schedules(conn, nightly) == 1
    assert due_in(conn) == DAY - late
    assert row(conn).last_skip is None


def test_missed_times_are_made_up_by_one_job_and_told(conn, nightly, make_worker) -> None:
    tick_schedules(conn, nightly)
    finish(conn, make_worker(conn))
    pass_time(conn, days=4, hours=5)
    assert tick_schedules(conn, nightly) == 1
    assert tick_schedules(conn, nightly) == 0
    assert due_in(conn) == DAY - 5 * HOUR
    assert row(conn).last_skip == "due times missed: 3"


def test_a_first_time_long_past_is_the_phase_and_no_time_missed(conn, registry) -> None:
    first = datetime(2020, 1, 1, 2, tzinfo=UTC)
    registry.every("nightly", hours=24, first_at=first, job=NewJob("mail.send"))
    assert tick_schedules(conn, registry.schedules) == 1
    now = row(conn)
    assert (now.due_at - first) % timedelta(days=1) == timedelta(0)
    assert timedelta(0) < now.due_at - now.created_at <= timedelta(days=1)
    assert now.last_skip is None


@pytest.mark.parametrize(
    ("ends", "place"),
    [(None, "queued"), ("waiting", "queued"), ("running", "running")],
)
def test_while_the_last_job_goes_on_a_due_time_is_passed_and_told(
    conn, nightly, make_worker, ends, place
) -> None:
    tick_schedules(conn, nightly)
    worker = make_worker(conn)
    if ends == "running":
        begin(conn, worker)
    elif ends:
        finish(conn, worker, ends)
    last = row(conn).last_job
    pass_time(conn, hours=25)
    assert tick_schedules(conn, nightly) == 0
    now = row(conn)
    assert (now.last_job, now.last_skip) == (last, f"its last job was still {place}")
    assert now.last_skip_at == conn.execute("SELECT now()").fetchone()["now"]
    assert due_in(conn) == 23 * HOUR


def test_a_job_that_waits_for_its_serial_key_blocks_too(conn, nightly) -> None:
    tick_schedules(conn, nightly)
    conn.execute(
        "WITH gone AS (DELETE FROM countersign.ready RETURNING ready.*)"
        " INSERT INTO countersign.blocked SELECT gone.*, 'account-7' FROM gone"
    )
    pass_time(conn, hours=25)
    assert tick_schedules(conn, nightly) == 0
    assert row(conn).last_skip == "its last job was still queued"


@pytest.mark.parametrize("ends", ["completed", "failed", "needs_review", "cancelled", "deleted"])
def test_a_job_that_ended_or_waits_for_a_person_does_not_block(
    conn, nightly, make_worker, ends
) -> None:
    tick_schedules(conn, nightly)
    last = row(conn).last_job
    assert last
    if ends == "cancelled":
        cancel(conn, [last], **SIGNED)
    elif ends == "deleted":
        conn.execute("DELETE FROM countersign.ready")
    else:
        finish(conn, make_worker(conn), ends)
    pass_time(conn, hours=25)
    assert tick_schedules(conn, nightly) == 1
    assert row(conn).last_job != last


def test_why_a_time_was_passed_is_kept_when_the_next_one_is_not(conn, nightly, make_worker) -> None:
    tick_schedules(conn, nightly)
    pass_time(conn, hours=25)
    tick_schedules(conn, nightly)
    finish(conn, make_worker(conn))
    pass_time(conn, hours=24)
    assert tick_schedules(conn, nightly) == 1
    now = row(conn)
    assert now.last_skip == "its last job was still queued"
    assert now.last_skip_at


def test_a_paused_queue_stacks_no_jobs(conn, nightly) -> None:
    pause_queue(conn, "night", **SIGNED)
    for _ in range(5):
        tick_schedules(conn, nightly)
        pass_time(conn, hours=24)
    (count,) = conn.execute("SELECT count(*) FROM countersign.ready").fetchone().values()
    assert count == 1


REFUSE = """
CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql
AS $$ BEGIN RAISE EXCEPTION 'no jobs for queue b: %', NEW; END $$;
CREATE TRIGGER refuse BEFORE INSERT ON countersign.ready
    FOR EACH ROW WHEN (NEW.queue = 'b') EXECUTE FUNCTION public.refuse();
"""


@pytest.mark.parametrize("autocommit", [True, False])
def test_a_failed_tick_leaves_its_time_due_and_stops_no_other_schedule(
    database, registry, autocommit
) -> None:
    owner = database.owner()
    owner.execute(REFUSE)
    for queue in "abc":
        registry.every(queue, hours=1, job=NewJob("mail.send", {"address": CANARY}, queue=queue))
    conn = database.connect(autocommit=autocommit)
    with pytest.raises(psycopg.errors.RaiseException) as raised:
        tick_schedules(conn, registry.schedules)
    assert CANARY not in str(raised.value)
    conn.commit()
    assert {each.name: each.last_state for each in list_schedules(conn)} == {
        "a": "ready", "b": None, "c": "ready"
    }  # fmt: skip
    assert due_in(conn, "b") < 0
    conn.commit()
    owner.execute("DROP FUNCTION public.refuse CASCADE")
    assert tick_schedules(conn, registry.schedules) == 1


def test_arguments_that_postgres_alone_refuses_are_told_without_them(conn, registry) -> None:
    registry.every("good", hours=1, job=NewJob("mail.send"))
    (good,) = registry.schedules
    bad = Schedule("bad", 60.0, None, "mail.send", "q", f'{{"a": "{CANARY}\\u0000"}}')
    with pytest.raises(ArgumentsError) as raised:
        tick_schedules(conn, [bad, good])
    assert CANARY not in str(raised.value)
    assert [each.name for each in list_schedules(conn)] == ["good"]
    assert CANARY not in repr(bad)


def test_a_callers_transaction_is_neither_committed_nor_spoilt(database, nightly) -> None:
    conn = database.connect(autocommit=False)
    assert tick_schedules(conn, nightly) == 1
    conn.rollback()
    assert list_schedules(conn) == []
    conn.rollback()
    assert tick_schedules(conn, nightly) == 1
    conn.commit()
    other = database.connect()
    last = row(other).last_job
    assert last
    assert locate(other, [last])[last].state == "ready"


OFFSET = """
SELECT (EXTRACT(EPOCH FROM due_at - created_at) * 1000000)::bigint AS micros, due_at > now()
FROM countersign.schedules
"""


@given(
    every=st.floats(1.0, 40 * DAY, allow_nan=False),
    steps=st.lists(
        st.tuples(st.booleans(), st.floats(0.0, 90 * DAY, allow_nan=False)), min_size=1, max_size=9
    ),
)
def test_due_times_never_drift_and_never_repeat(migrated, every, steps) -> None:
    """Whatever the interval and the wait for each tick, from now or from the due time on."""
    schedule = Schedule("s", every, None, "mail.send", "q", "{}")
    acted: list[int] = []
    due = 0
    with psycopg.Connection[tuple[Any, ...]].connect(migrated.url) as conn:
        for from_due, wait in [(False, 0.0), *steps]:
            pass_time(conn, seconds=wait)
            if from_due:
                pass_time(conn, microseconds=_until_due(conn))
            acted += [due] * tick_schedules(conn, [schedule])
            conn.execute("DELETE FROM countersign.ready")
            ((due, is_later),) = conn.execute(OFFSET).fetchall()
            assert is_later
        conn.rollback()
    assert acted == sorted(set(acted))
    assert all(at % round(every * 1e6) == 0 for at in [*acted, due])


def _until_due(conn: Any) -> int:
    query = "SELECT (EXTRACT(EPOCH FROM due_at - now()) * 1000000)::bigint FROM"
    ((micros,),) = conn.execute(f"{query} countersign.schedules").fetchall()
    return max(0, micros)
