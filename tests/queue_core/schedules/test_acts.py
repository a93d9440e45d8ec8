"""Pause, resume, run now: one change, one act, or neither, and why not."""

from typing import Any

import psycopg
import pytest

from queue_core import (
    NewJob,
    Registry,
    archive_schedules,
    pause_schedule,
    resume_schedule,
    run_schedule_now,
    tick_schedules,
)
from queue_core.errors import (
    ContendedError,
    NotACodeError,
    NoteError,
    OptionError,
    ScheduleRefusedError,
)
from queue_core.queries.facts import job as facts
from queue_core.rules import Schedule
from tests.timetable import begin, due_in, finish, pass_time, row

SIGNED: dict[str, Any] = {"by": "ops:alice", "reason": "seen_in_test"}
HOUR = 3_600.0
CHANGES = {"paused": pause_schedule, "resumed": resume_schedule, "run_now": run_schedule_now}


@pytest.fixture
def hourly(conn, registry: Registry) -> tuple[Schedule, ...]:
    """Give a schedule whose first job has been enqueued."""
    registry.every("nightly", hours=1, job=NewJob("mail.send", {"address": "a"}))
    tick_schedules(conn, registry.schedules)
    return registry.schedules


def acts(conn) -> list[tuple[Any, ...]]:
    found = conn.execute(
        "SELECT by, act, subject_kind, subject_name, reason, note, via FROM countersign.acts"
        " ORDER BY id"
    ).fetchall()
    return [tuple(act.values()) for act in found]


def test_a_paused_schedule_enqueues_nothing_until_it_is_resumed(conn, hourly, make_worker) -> None:
    finish(conn, make_worker(conn))
    act_id = pause_schedule(conn, "nightly", **SIGNED, note="moving", via="cli:alice@pay-3")
    pass_time(conn, hours=3, minutes=20)
    assert tick_schedules(conn, hourly) == 0
    assert row(conn).paused_at
    assert acts(conn) == [
        ("ops:alice", "paused", "schedule", "nightly", "seen_in_test", "moving", "cli:alice@pay-3")
    ]
    assert conn.execute("SELECT max(id) AS id FROM countersign.acts").fetchone() == {"id": act_id}


def test_the_times_a_schedule_was_paused_over_are_passed_and_told(
    conn, hourly, make_worker
) -> None:
    finish(conn, make_worker(conn))
    pause_schedule(conn, "nightly", **SIGNED)
    pass_time(conn, hours=3, minutes=20)
    resume_schedule(conn, "nightly", **SIGNED)
    now = row(conn)
    assert (now.paused_at, now.last_skip) == (None, "it was paused")
    assert due_in(conn) == 40 * 60
    assert tick_schedules(conn, hourly) == 0
    assert [act[:4] for act in acts(conn)] == [
        ("ops:alice", "paused", "schedule", "nightly"),
        ("ops:alice", "resumed", "schedule", "nightly"),
    ]
    pass_time(conn, minutes=40)
    assert tick_schedules(conn, hourly) == 1


def test_a_schedule_resumed_before_its_time_passed_none(conn, hourly) -> None:
    pause_schedule(conn, "nightly", **SIGNED)
    pass_time(conn, minutes=20)
    resume_schedule(conn, "nightly", **SIGNED)
    assert row(conn).last_skip is None
    assert due_in(conn) == 40 * 60


@pytest.mark.parametrize("paused", [False, True])
def test_running_now_enqueues_the_job_with_its_act_and_moves_no_due_time(
    conn, hourly, make_worker, paused
) -> None:
    finish(conn, make_worker(conn))
    if paused:
        pause_schedule(conn, "nightly", **SIGNED)
    pass_time(conn, minutes=20)
    made = run_schedule_now(conn, "nightly", **SIGNED)
    now = row(conn)
    assert (now.last_job, now.last_state) == (made.id, "ready")
    assert due_in(conn) == 40 * 60
    assert acts(conn)[-1][:4] == ("ops:alice", "run_now", "schedule", "nightly")
    job = facts(conn, made.id)
    assert job
    assert (job.name, job.schedule) == ("mail.send", "nightly")


def test_what_a_person_started_is_the_last_job_and_does_not_stack_either(
    conn, hourly, make_worker
) -> None:
    finish(conn, make_worker(conn))
    run_schedule_now(conn, "nightly", **SIGNED)
    pass_time(conn, hours=1)
    assert tick_schedules(conn, hourly) == 0
    assert row(conn).last_skip == "its last job was still queued"


@pytest.mark.parametrize("ends", ["queued", "running", "waiting", "blocked"])
def test_running_now_is_refused_while_the_last_job_goes_on(
    conn, hourly, make_worker, contents, ends
) -> None:
    worker = make_worker(conn)
    if ends == "running":
        begin(conn, worker)
    elif ends == "waiting":
        finish(conn, worker, ends)
    elif ends == "blocked":
        conn.execute(
            "WITH gone AS (DELETE FROM countersign.ready RETURNING ready.*)"
            " INSERT INTO countersign.blocked SELECT gone.*, 'account-7' FROM gone"
        )
    why = "last_job_running" if ends == "running" else "last_job_queued"
    refused(conn, contents, "run_now", why)


@pytest.mark.parametrize("ends", ["completed", "failed", "needs_review"])
def test_running_now_applies_when_the_last_job_ended_or_waits_for_a_person(
    conn, hourly, make_worker, ends
) -> None:
    finish(conn, make_worker(conn), ends)
    assert run_schedule_now(conn, "nightly", **SIGNED).created


def test_running_an_archived_schedule_is_refused(conn, hourly, make_worker, contents) -> None:
    finish(conn, make_worker(conn))
    pass_time(conn, hours=2)
    archive_schedules(conn, [])
    refused(conn, contents, "run_now", "archived")


def test_an_archived_schedule_stays_paused_when_it_is_restored(conn, hourly, make_worker) -> None:
    finish(conn, make_worker(conn))
    pass_time(conn, hours=2)
    archive_schedules(conn, [])
    pause_schedule(conn, "nightly", **SIGNED)
    assert tick_schedules(conn, hourly) == 0
    now = row(conn)
    assert (now.archived_at, bool(now.paused_at)) == (None, True)


def test_a_paused_schedule_is_not_paused_again(conn, hourly, contents) -> None:
    pause_schedule(conn, "nightly", **SIGNED)
    refused(conn, contents, "paused", "already_paused")


def test_a_schedule_that_is_not_paused_is_not_resumed(conn, hourly, contents) -> None:
    refused(conn, contents, "resumed", "not_paused")


@pytest.mark.parametrize("act", CHANGES)
def test_acts_on_a_schedule_that_is_not_there_are_refused(conn, contents, act) -> None:
    refused(conn, contents, act, "not_found")


def refused(conn, contents, act: str, why: str) -> None:
    before = contents(conn)
    with pytest.raises(ScheduleRefusedError, match="schedule 'nightly'") as raised:
        CHANGES[act](conn, "nightly", **SIGNED)
    assert (raised.value.name, raised.value.act, raised.value.why) == ("nightly", act, why)
    assert contents(conn) == before


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"by": ""}, NotACodeError),
        ({"reason": "a\nb"}, NotACodeError),
        ({"note": "x" * 2_001}, NoteError),
        ({"via": ""}, OptionError),
    ],
    ids=str,
)
def test_a_signature_is_checked_before_anything_is_written(
    conn, hourly, contents, change, wrong, error
) -> None:
    before = contents(conn)
    with pytest.raises(error):
        change(conn, "nightly", **SIGNED | wrong)
    assert contents(conn) == before


@pytest.mark.parametrize("name", ["", "x" * 201, "a\0b"])
def test_what_cannot_name_a_schedule_is_refused(conn, name) -> None:
    with pytest.raises(OptionError):
        pause_schedule(conn, name, **SIGNED)


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_acts_need_to_see_what_others_commit(database, change) -> None:
    conn = database.connect(autocommit=False)
    conn.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    with pytest.raises(ContendedError):
        change(conn, "nightly", **SIGNED)


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_an_act_waits_no_longer_than_the_lock_timeout(database, registry, change) -> None:
    holder, conn = database.connect(autocommit=False), database.connect()
    registry.every("nightly", hours=1, job=NewJob("mail.send"))
    tick_schedules(conn, registry.schedules)
    conn.execute("DELETE FROM countersign.ready")
    if change is resume_schedule:
        pause_schedule(conn, "nightly", **SIGNED)
    holder.execute("SELECT FROM countersign.schedules FOR UPDATE")
    conn.execute("SET lock_timeout = '20ms'")
    with pytest.raises(ContendedError):
        change(conn, "nightly", **SIGNED)
    holder.rollback()


def test_an_act_that_the_schedule_keeps_slipping_from_gives_up(conn, hourly, monkeypatch) -> None:
    monkeypatch.setattr("queue_core.schedules.acts.PAUSE", "SELECT NULL AS id")
    with pytest.raises(ContendedError, match="kept changing"):
        pause_schedule(conn, "nightly", **SIGNED)
