"""What code says of a schedule reaches its row, seldom and never backwards."""

from datetime import timedelta

from queue_core import NewJob, archive_schedules, list_schedules, tick_schedules
from queue_core.queries.schedules import list_versions
from queue_core.rules import Schedule
from tests.timetable import due_in, pass_time, row

HOUR = 3_600.0
OLD = Schedule("nightly", HOUR, None, "mail.send", "q", "{}")
NEW = Schedule("nightly", 2 * HOUR, None, "mail.send", "q", "{}")


def seen_at(conn):
    query = "SELECT now() - seen_at AS ago FROM countersign.schedules"
    return conn.execute(query).fetchone()["ago"]


def test_that_code_has_a_schedule_is_written_once_a_minute_at_most(conn) -> None:
    tick_schedules(conn, [OLD])
    pass_time(conn, seconds=60)
    tick_schedules(conn, [OLD])
    assert seen_at(conn) == timedelta(seconds=60)
    pass_time(conn, seconds=0.5)
    tick_schedules(conn, [OLD])
    assert seen_at(conn) == timedelta(0)
    (version,) = list_versions(conn)
    assert version.seen_at == row(conn).seen_at


def test_a_tick_that_has_nothing_to_do_writes_nothing(database) -> None:
    conn = database.connect()
    tick_schedules(conn, [OLD])
    query = "SELECT xmin, ctid FROM countersign.schedules"
    before = conn.execute(query).fetchall()
    conn.execute("BEGIN")
    for _ in range(3):
        assert tick_schedules(conn, [OLD]) == 0
    assert conn.execute("SELECT pg_current_xact_id_if_assigned() AS xid").fetchone() == {
        "xid": None
    }
    conn.execute("COMMIT")
    assert conn.execute(query).fetchall() == before


def test_a_schedule_unseen_for_an_hour_is_archived_and_enqueues_nothing(conn) -> None:
    tick_schedules(conn, [OLD])
    pass_time(conn, hours=1)
    assert archive_schedules(conn, []) == 0
    pass_time(conn, seconds=1)
    assert archive_schedules(conn, []) == 1
    assert archive_schedules(conn, []) == 0
    assert row(conn).archived_at
    assert due_in(conn) == -1.0


def test_schedules_of_ones_own_code_are_not_archived(conn) -> None:
    tick_schedules(conn, [OLD])
    pass_time(conn, hours=2)
    assert archive_schedules(conn, [NEW]) == 0


def test_an_archived_schedule_is_restored_by_code_that_has_it_with_its_due_time(
    conn, registry
) -> None:
    first = row_time(conn)
    ahead = Schedule("nightly", HOUR, first, "mail.send", "q", "{}")
    tick_schedules(conn, [ahead])
    pass_time(conn, hours=2)
    archive_schedules(conn, [])
    due = row(conn).due_at
    assert tick_schedules(conn, [ahead]) == 0
    now = row(conn)
    assert now.archived_at is None
    assert now.due_at == due == first - timedelta(hours=2)


def row_time(conn):
    """Return a time three hours ahead, on the database's clock."""
    return conn.execute("SELECT now() + interval '3 hours' AS at").fetchone()["at"]


def test_a_changed_interval_counts_from_the_present_due_time(conn) -> None:
    tick_schedules(conn, [OLD])
    pass_time(conn, minutes=15)
    tick_schedules(conn, [NEW])
    assert due_in(conn) == HOUR - 900
    assert row(conn).every == 2 * HOUR
    conn.execute("DELETE FROM countersign.ready")
    pass_time(conn, minutes=50)
    assert tick_schedules(conn, [NEW]) == 1
    assert due_in(conn) == 2 * HOUR - 300


def test_a_changed_job_is_what_is_enqueued_next(conn) -> None:
    tick_schedules(conn, [OLD])
    conn.execute("DELETE FROM countersign.ready")
    changed = Schedule("nightly", HOUR, None, "mail.send", "other", '{"address": "b"}')
    tick_schedules(conn, [changed])
    pass_time(conn, hours=1)
    tick_schedules(conn, [changed])
    made = conn.execute("SELECT queue, args FROM countersign.jobs ORDER BY id DESC").fetchone()
    assert made == {"queue": "other", "args": {"address": "b"}}


def test_older_code_does_not_undo_what_newer_code_says_while_that_lives(conn) -> None:
    tick_schedules(conn, [OLD])
    tick_schedules(conn, [NEW])
    for _ in range(5):
        pass_time(conn, minutes=1, seconds=1)
        tick_schedules(conn, [OLD])
        tick_schedules(conn, [NEW])
        assert row(conn).every == 2 * HOUR
    assert [(each.every, each.in_force) for each in list_versions(conn)] == [
        (2 * HOUR, True), (HOUR, False)
    ]  # fmt: skip


def test_a_rollback_comes_through_when_no_process_has_the_newer_code(conn) -> None:
    tick_schedules(conn, [OLD])
    tick_schedules(conn, [NEW])
    pass_time(conn, minutes=3)
    tick_schedules(conn, [OLD])
    assert row(conn).every == 2 * HOUR
    pass_time(conn, seconds=1)
    tick_schedules(conn, [OLD])
    assert row(conn).every == HOUR
    assert [each.every for each in list_versions(conn)] == [HOUR]


def test_after_an_outage_older_code_does_not_win_by_being_back_first(conn) -> None:
    tick_schedules(conn, [OLD])
    tick_schedules(conn, [NEW])
    pass_time(conn, hours=1)
    for seconds in (0, 1, 70, 70):
        pass_time(conn, seconds=seconds)
        tick_schedules(conn, [OLD])
        assert row(conn).every == 2 * HOUR
    tick_schedules(conn, [NEW])
    pass_time(conn, seconds=70)
    tick_schedules(conn, [OLD])
    assert row(conn).every == 2 * HOUR


def test_a_rollback_after_a_long_time_comes_through_in_minutes(conn) -> None:
    tick_schedules(conn, [OLD])
    pass_time(conn, days=2)
    tick_schedules(conn, [NEW])
    pass_time(conn, days=2)
    ticks = 0
    while row(conn).every != HOUR:
        tick_schedules(conn, [OLD])
        pass_time(conn, seconds=61)
        ticks += 1
    assert ticks == 4


def test_older_code_still_enqueues_what_is_in_force_for_a_schedule_of_its_own(conn) -> None:
    tick_schedules(conn, [OLD])
    conn.execute("DELETE FROM countersign.ready")
    changed = Schedule("nightly", HOUR, None, "mail.send", "other", "{}")
    tick_schedules(conn, [changed])
    pass_time(conn, hours=1)
    tick_schedules(conn, [changed])
    conn.execute("DELETE FROM countersign.ready")
    pass_time(conn, seconds=150)
    conn.execute("UPDATE countersign.schedules SET due_at = now()")
    assert tick_schedules(conn, [OLD]) == 1
    assert conn.execute("SELECT queue FROM countersign.ready").fetchone() == {"queue": "other"}


def test_versions_that_nobody_had_for_a_month_are_forgotten(conn) -> None:
    tick_schedules(conn, [OLD])
    tick_schedules(conn, [NEW])
    pass_time(conn, days=30, seconds=1)
    archive_schedules(conn, [])
    left = conn.execute("SELECT every FROM countersign.schedule_versions").fetchall()
    assert left == [{"every": timedelta(hours=2)}]


def test_a_first_time_counts_only_when_the_row_is_made(conn) -> None:
    first = row_time(conn)
    assert tick_schedules(conn, [Schedule("a", HOUR, first, "mail.send", "q", "{}")]) == 0
    assert due_in(conn, "a") == 3 * HOUR
    later = first + timedelta(hours=9)
    tick_schedules(conn, [Schedule("a", HOUR, later, "mail.send", "q", "{}")])
    assert due_in(conn, "a") == 3 * HOUR
    assert len(list_versions(conn)) == 1


def test_two_services_share_a_database_without_archiving_each_other(conn) -> None:
    theirs = Schedule("theirs", HOUR, None, "mail.send", "q", "{}")
    tick_schedules(conn, [OLD])
    tick_schedules(conn, [theirs])
    pass_time(conn, minutes=59)
    for mine in (OLD, theirs):
        tick_schedules(conn, [mine])
        archive_schedules(conn, [mine])
    pass_time(conn, minutes=2)
    assert archive_schedules(conn, [OLD]) == 0
    assert all(each.archived_at is None for each in list_schedules(conn))


def test_schedules_in_code_are_checked_against_their_jobs(registry) -> None:
    registry.every("nightly", hours=1, job=NewJob("mail.send", {"address": "a"}, delay=9))
    (schedule,) = registry.schedules
    assert schedule == Schedule("nightly", HOUR, None, "mail.send", "default", '{"address":"a"}')
