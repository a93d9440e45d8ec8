"""Cases from the field: schedules."""

import ast
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

import queue_core.schedules
from queue_core import NewJob, list_schedules, tick_schedules
from queue_core.errors import DeclarationError
from queue_core.queries.schedules import list_versions
from queue_core.rules import Schedule
from tests.conftest import Database
from tests.timetable import due_in, finish, pass_time, row

ROOT = Path(__file__).resolve().parents[2]
DAY, WEEK = 86_400.0, 604_800.0
NIGHTLY = Schedule("nightly", DAY, None, "mail.send", "q", "{}")

REPLICA = """
import sys, time
import psycopg
clock = time.time
time.time = lambda: clock() + float(sys.argv[2])
from queue_core import tick_schedules
from queue_core.rules import Schedule
schedule = Schedule("often", 1.0, None, "mail.send", "q", "{}")
with psycopg.connect(sys.argv[1], autocommit=True) as conn:
    conn.execute("SELECT set_config('TimeZone', %s, false)", [sys.argv[3]])
    made = 0
    while made < 2:
        made += tick_schedules(conn, [schedule])
        conn.execute("DELETE FROM countersign.ready")
        time.sleep(0.01)
"""
SLOTS = """
SELECT floor(EXTRACT(EPOCH FROM jobs.created_at - schedules.created_at))::integer AS slot
FROM countersign.jobs, countersign.schedules
"""


@pytest.mark.slow
def test_case_41_five_processes_with_skewed_clocks_give_each_second_one_job(
    database: Database,
) -> None:
    """Their jobs are deleted at once, so that nothing but the schedule's row tells of them."""
    zones = ["UTC", "Asia/Tokyo", "America/Santiago", "Australia/Lord_Howe", "Europe/Berlin"]
    replicas = [
        subprocess.Popen([sys.executable, "-c", REPLICA, database.url, str(skew), zone], cwd=ROOT)
        for skew, zone in zip((-2.0, -1.0, 0.0, 1.0, 2.0), zones, strict=True)
    ]
    assert [replica.wait(90) for replica in replicas] == [0] * 5
    slots = [each["slot"] for each in database.connect().execute(SLOTS).fetchall()]
    assert len(slots) == 10
    assert len(set(slots)) == 10


def test_case_41_schedules_ask_no_clock_but_the_databases() -> None:
    for file in Path(queue_core.schedules.__file__).parent.glob("*.py"):
        imported = {
            name
            for node in ast.walk(ast.parse(file.read_text()))
            if isinstance(node, ast.Import | ast.ImportFrom)
            for name in [getattr(node, "module", None), *(each.name for each in node.names)]
        }
        assert not imported & {"time", "datetime"}, file


def test_case_42_a_tick_just_before_its_time_does_not_fire_it_twice(conn, make_worker) -> None:
    tick_schedules(conn, [NIGHTLY])
    finish(conn, make_worker(conn))
    pass_time(conn, seconds=DAY - 0.001)
    assert tick_schedules(conn, [NIGHTLY]) == 0
    assert due_in(conn) == 0.001
    pass_time(conn, seconds=0.001)
    assert tick_schedules(conn, [NIGHTLY]) == 1
    assert due_in(conn) == DAY
    finish(conn, make_worker(conn))
    assert tick_schedules(conn, [NIGHTLY]) == 0


def test_case_45_a_time_that_passed_while_nothing_ran_is_run_once_and_told(
    conn, make_worker
) -> None:
    tick_schedules(conn, [NIGHTLY])
    finish(conn, make_worker(conn))
    pass_time(conn, seconds=DAY + 10)
    assert tick_schedules(conn, [NIGHTLY]) == 1
    assert due_in(conn) == DAY - 10
    finish(conn, make_worker(conn))
    pass_time(conn, seconds=3 * DAY)
    assert tick_schedules(conn, [NIGHTLY]) == 1
    found = row(conn)
    assert found.last_skip == "due times missed: 2"
    assert found.last_skip_at


def test_case_45_a_weekly_schedule_comes_round_though_everything_starts_anew_each_day(
    conn, make_worker
) -> None:
    """Its due time stands in its row, so that a start begins no new week."""
    made = 0
    for _ in range(15):
        weekly = Schedule("weekly", WEEK, None, "mail.send", "q", "{}")
        if tick_schedules(conn, [weekly]):
            finish(conn, make_worker(conn))
            made += 1
        pass_time(conn, seconds=DAY)
    assert made == 3


@pytest.mark.parametrize("dies", ["before its commit", "never"])
def test_case_46_the_time_and_its_job_are_one_commit(database: Database, dies: str) -> None:
    owner, conn = database.owner(), database.connect(autocommit=False)
    tick_schedules(owner, [NIGHTLY])
    owner.execute("DELETE FROM countersign.ready")
    pass_time(owner, seconds=DAY)
    assert tick_schedules(conn, [NIGHTLY]) == 1
    if dies == "never":
        conn.commit()
    else:
        owner.execute("SELECT pg_terminate_backend(%s, 10000)", [conn.info.backend_pid])
        with pytest.raises(psycopg.OperationalError):
            conn.commit()
    assert tick_schedules(owner, [NIGHTLY]) == (dies != "never")
    assert due_in(owner) > 0
    (ready,) = owner.execute("SELECT count(*) AS n FROM countersign.ready").fetchall()
    assert ready["n"] == 1


def test_case_49_a_naive_first_time_is_refused_in_any_time_zone(registry, monkeypatch) -> None:
    for zone in ("UTC", "Asia/Tokyo"):
        monkeypatch.setenv("TZ", zone)
        with pytest.raises(DeclarationError, match="time zone"):
            registry.every("nightly", hours=24, first_at=datetime(2026, 1, 1), job=NewJob("x"))  # noqa: DTZ001


def test_case_50_an_edited_schedule_rolls_out_as_one_and_old_code_does_not_bring_it_back(
    conn, make_worker
) -> None:
    old, new = NIGHTLY, Schedule("nightly", DAY / 2, None, "mail.send", "edited", "{}")
    worker = make_worker(conn)
    for replica in (old, old):
        tick_schedules(conn, [replica])
    finish(conn, worker)
    made: list[Any] = []
    for hours in range(0, 48, 6):
        pass_time(conn, hours=6)
        for replica in (new, old) if hours < 24 else (old, new):
            if tick_schedules(conn, [replica]):
                made += conn.execute("SELECT queue FROM countersign.ready").fetchall()
                finish(conn, worker)
    (schedule,) = list_schedules(conn)
    assert (schedule.every, schedule.queue) == (DAY / 2, "edited")
    assert [(each.every, each.in_force) for each in list_versions(conn)] == [
        (DAY / 2, True), (DAY, False)
    ]  # fmt: skip
    assert [each["queue"] for each in made] == ["edited"] * 3
    assert schedule.due_at - schedule.seen_at <= timedelta(days=0.5)
