"""Schedules as lists show them: with their last job's state and error."""

from dataclasses import replace

import pytest

from queue_core import NewJob, cancel, list_schedules, tick_schedules
from queue_core.queries.schedules import (
    list_versions,
    other_versions,
    page_of_schedules,
    schedule,
)
from tests.conftest import CANARY
from tests.timetable import begin, finish, row


@pytest.fixture
def _hourly(conn, registry) -> None:
    registry.every("nightly", hours=1, job=NewJob("mail.send", {"address": CANARY}, queue="q"))
    tick_schedules(conn, registry.schedules)


def test_there_may_be_none(conn) -> None:
    assert list_schedules(conn) == []
    assert list_versions(conn) == []


def test_schedules_come_by_name_with_their_rule_and_job(conn, registry) -> None:
    for name in ("b", "a", "c"):
        registry.every(name, minutes=5, job=NewJob("mail.send", queue="q"))
    tick_schedules(conn, registry.schedules)
    found = list_schedules(conn)
    assert [each.name for each in found] == ["a", "b", "c"]
    assert {(each.every, each.job, each.queue) for each in found} == {(300.0, "mail.send", "q")}


@pytest.mark.usefixtures("_hourly")
@pytest.mark.parametrize("state", ["ready", "running", "waiting", "completed", "cancelled"])
def test_the_last_jobs_state_is_told_in_every_place(conn, make_worker, state) -> None:
    worker = make_worker(conn)
    last = row(conn).last_job
    assert last
    if state == "cancelled":
        cancel(conn, [last], by="ops:alice", reason="x")
    elif state == "running":
        begin(conn, worker)
    elif state != "ready":
        finish(conn, worker, state)
    assert row(conn).last_state == state


@pytest.mark.usefixtures("_hourly")
def test_a_blocked_last_job_is_told(conn) -> None:
    conn.execute(
        "WITH gone AS (DELETE FROM countersign.ready RETURNING ready.*)"
        " INSERT INTO countersign.blocked SELECT gone.*, 'account-7' FROM gone"
    )
    assert row(conn).last_state == "blocked"


@pytest.mark.usefixtures("_hourly")
@pytest.mark.parametrize(
    ("state", "error"),
    [
        ("failed", "ValueError: no such address"),
        ("waiting", "busy"),
        ("needs_review", "not JSON"),
        ("completed", None),
    ],
)
def test_the_last_jobs_error_is_told(conn, make_worker, state, error) -> None:
    finish(conn, make_worker(conn), state)
    found = row(conn)
    assert (found.last_state, found.last_error) == (state, error)
    assert "ValueError" not in repr(found)


@pytest.mark.usefixtures("_hourly")
def test_a_due_waiting_job_counts_as_ready(conn) -> None:
    conn.execute(
        "WITH gone AS (DELETE FROM countersign.ready RETURNING ready.*)"
        " INSERT INTO countersign.waiting SELECT gone.* FROM gone"
    )
    assert row(conn).last_state == "ready"


@pytest.mark.usefixtures("_hourly")
def test_a_last_job_that_retention_deleted_has_no_state(conn, make_worker) -> None:
    last = finish(conn, make_worker(conn), "failed")
    conn.execute("DELETE FROM countersign.ended")
    found = row(conn)
    assert (found.last_job, found.last_state, found.last_error) == (last, None, None)


@pytest.mark.usefixtures("_hourly")
def test_one_schedule_is_told_as_in_the_list(conn) -> None:
    assert [schedule(conn, "nightly")] == list_schedules(conn)
    assert schedule(conn, "daily") is None


def test_schedules_come_by_name_a_page_at_a_time_archived_ones_apart(conn, registry) -> None:
    for name in ("b", "d", "a", "e", "c"):
        registry.every(name, minutes=5, job=NewJob("mail.send", queue="q"))
    tick_schedules(conn, registry.schedules)
    conn.execute("UPDATE countersign.schedules SET archived_at = now() WHERE name = 'c'")
    first = page_of_schedules(conn, size=2)
    second = page_of_schedules(conn, after=first.after or "", size=2)
    back = page_of_schedules(conn, before=second.before, size=2)
    pages = [[each.name for each in page.rows] for page in (first, second, back)]
    assert pages == [["a", "b"], ["d", "e"], ["a", "b"]]
    assert (first.before, second.after, back.before, back.after) == (None, None, None, "b")
    (gone,) = page_of_schedules(conn, archived=True).rows
    assert gone.name == "c"


@pytest.mark.usefixtures("_hourly")
def test_how_other_live_code_has_it_is_told(conn, registry) -> None:
    (ours,) = registry.schedules
    tick_schedules(conn, [replace(ours, every=60.0)])
    (older,) = other_versions(conn, "nightly")
    assert (older.every, older.in_force) == (3_600.0, False)
    assert other_versions(conn, "daily") == []
