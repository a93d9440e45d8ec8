"""One job's facts in every state, and lists that can be walked both ways without a row missed."""

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, LiteralString
from uuid import UUID

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from queue_core import cancel, enqueue, retry
from queue_core.outcomes import Completed, Failed, RunReport
from queue_core.queries.counts import capped_counts
from queue_core.queries.facts import job
from queue_core.queries.jobs import MOST, Cursor, JobRow, Page, list_jobs
from queue_core.states import STATES, State
from queue_core.transitions.claim import Claimable, claim
from queue_core.transitions.complete import complete
from queue_core.transitions.fail import fail
from queue_core.transitions.recover import recover
from tests.conftest import CANARY

# The facts of one job


@pytest.mark.parametrize("place", ["ready", "due", "waiting", "blocked"])
def test_the_facts_of_a_queued_job(conn, job_in, place: str) -> None:
    made = job_in(conn, place)
    facts = job(conn, made.id)
    assert facts
    assert (facts.id, facts.name, facts.queue) == (made.id, "mail.send", made.queue)
    assert facts.state == {"due": "ready"}.get(place, place)
    assert (facts.attempt, facts.attempts, facts.attempts_allowed) == (0, None, None)
    assert facts.run_at
    assert (facts.run_at > facts.created_at) == (place == "waiting")
    unknown = (facts.claimed_at, facts.started_at, facts.ended_at, facts.entered_at, facts.worker)
    assert unknown == (None,) * 5
    assert (facts.uncertain, facts.has_result, facts.error, facts.why) == (False, False, None, None)


def test_the_facts_of_a_running_job(conn, job_in) -> None:
    made = job_in(conn, "running", attempts=3)
    cancel(conn, [made.id], by="ops:alice", reason="asked")
    facts = job(conn, made.id)
    assert facts
    assert (facts.state, facts.attempt, facts.attempts_allowed) == ("running", 1, 3)
    assert (facts.worker, facts.ended_at) == (made.worker, None)
    assert facts.claimed_at == facts.stop_requested_at
    assert facts.claimed_at


def test_the_facts_of_a_completed_job(conn, job_in) -> None:
    made = job_in(conn, "running")
    complete(conn, made.worker, [made.report(Completed(f'"{CANARY}"'), seconds=2.0)])
    facts = job(conn, made.id)
    assert facts
    assert (facts.state, facts.attempt, facts.worker) == ("completed", 1, made.worker)
    assert (facts.has_result, facts.error, facts.signal, facts.uncertain) == (
        True,
        None,
        None,
        False,
    )
    assert facts.ended_at
    assert facts.started_at == facts.ended_at - timedelta(seconds=2)
    assert CANARY not in repr(facts)


def test_the_facts_of_a_failed_job(conn, job_in) -> None:
    made = job_in(conn, "running")
    failed = Failed(CANARY, retryable=False, error_type="ValueError", error_place="mail:send")
    fail(conn, made.worker, [made.report(failed)])
    facts = job(conn, made.id)
    assert facts
    assert (facts.state, facts.error, facts.error_type) == ("failed", CANARY, "ValueError")
    assert (facts.error_place, facts.uncertain, facts.signal) == ("mail:send", False, None)
    assert CANARY not in repr(facts)


def test_a_crash_is_told_with_its_signal_and_as_uncertain(conn, job_in) -> None:
    made = job_in(conn, "running")
    crash = Failed("crashed: signal 9", "crashed", signal=9)
    fail(conn, made.worker, [made.report(crash, child_pid=77)])
    facts = job(conn, made.id)
    assert facts
    assert (facts.state, facts.uncertain, facts.signal) == ("failed", True, 9)


def test_the_facts_of_a_job_in_review(conn, job_in) -> None:
    made = job_in(conn, "running", on_lost="review")
    crash = Failed("crashed: signal 11", "crashed", signal=11)
    fail(conn, made.worker, [made.report(crash, child_pid=77, seconds=1.5)])
    facts = job(conn, made.id)
    assert facts
    assert (facts.state, facts.why, facts.uncertain) == ("needs_review", "crashed", True)
    assert (facts.child_pid, facts.signal, facts.worker) == (77, 11, made.worker)
    assert facts.entered_at
    assert facts.started_at == facts.entered_at - timedelta(seconds=1.5)


def test_the_last_error_stays_when_a_job_is_queued_again(conn, job_in) -> None:
    made = job_in(conn, "failed")
    retry(conn, [made.id], by="ops:alice", reason="mended")
    facts = job(conn, made.id)
    assert facts
    assert (facts.state, facts.attempt, facts.attempts_allowed) == ("ready", 1, 2)
    assert facts.error == "ValueError: no such address"


AGAIN = """
INSERT INTO countersign.ready (id, queue, name, rank, run_at, attempt, attempts_allowed)
VALUES (%s, 'default', 'mail.send', 0, now(), %s, 3)
"""


def test_of_several_errors_the_last_ones_is_told(conn, registry, make_worker) -> None:
    made = enqueue(conn, "mail.send", attempts=3).id
    worker = make_worker(conn)
    for attempt in (1, 2):
        claim(conn, worker=worker, names=[Claimable("mail.send")], count=1)
        from_run = RunReport(made, attempt, Failed(f"error {attempt}", error_type=f"Type{attempt}"))
        fail(conn, worker, [from_run])
        conn.execute("DELETE FROM countersign.waiting WHERE id = %s", [made])
        conn.execute(AGAIN, [made, attempt])
    facts = job(conn, made)
    assert facts
    assert (facts.error, facts.error_type, facts.state) == ("error 2", "Type2", "ready")


@pytest.mark.parametrize("place", ["needs_review", "failed", "cancelled", "ready"])
def test_a_job_whose_body_is_gone_is_still_found_and_counted(
    database, job_in, place: State
) -> None:
    conn = database.connect()
    gone, whole = job_in(conn, place), job_in(conn, place)
    before = job(conn, gone.id)
    with database.owner() as owner:
        owner.execute("DELETE FROM countersign.jobs WHERE jobs.id = %s", [gone.id])

    facts = job(conn, gone.id)
    assert facts
    assert before
    queue = "unknown" if place in {"needs_review", "failed", "cancelled"} else gone.queue
    assert (facts.has_body, facts.name, facts.queue) == (False, "unknown", "unknown")
    assert (facts.state, facts.attempt, facts.priority) == (place, before.attempt, None)
    assert abs(facts.created_at - before.created_at) < timedelta(minutes=1)
    listed = {row.id: row.queue for row in list_jobs(conn, place).rows}
    assert listed == {gone.id: queue, whole.id: whole.queue}
    assert capped_counts(conn)[place] == 2
    for name in ("unknown", "mail.send"):
        rows = list_jobs(conn, place, name=name).rows
        assert capped_counts(conn, name=name)[place] == len(rows)


def test_a_job_that_is_not_there_has_no_facts(conn, registry) -> None:
    enqueue(conn, "mail.send")
    assert job(conn, uuid.uuid4()) is None


@pytest.mark.parametrize("place", [*STATES, "due"])
def test_neither_facts_nor_rows_hold_arguments(conn, job_in, place: str) -> None:
    made = job_in(conn, place)
    state: Any = {"due": "ready"}.get(place, place)
    rows = list_jobs(conn, state, queue=made.queue).rows
    assert [row.id for row in rows] == [made.id]
    assert CANARY not in repr((job(conn, made.id), rows))


# Lists

BODIES = """
INSERT INTO countersign.jobs (id, name, queue, args, priority)
SELECT countersign.new_id(), 'name-' || mod(n, 3), 'queue-' || mod(n, 2), '{}', 0
FROM generate_series(1, %(count)s) AS n
"""
# Ten jobs share each instant, and ids fall in another order than instants do.
SPREAD: LiteralString = """
WITH spread AS (
    SELECT jobs.id, jobs.name, jobs.queue, now() + %(sign)s * interval '1 minute'
        * (1 + (row_number() OVER (ORDER BY jobs.id DESC) / 10)) AS at
    FROM countersign.jobs
)
"""
FILL: dict[str, LiteralString] = {
    "ready": "INSERT INTO countersign.ready SELECT id, queue, name, 0, at FROM spread",
    "due": "INSERT INTO countersign.waiting SELECT id, queue, name, 0, at FROM spread",
    "waiting": "INSERT INTO countersign.waiting SELECT id, queue, name, 0, at FROM spread",
    "blocked": """
        INSERT INTO countersign.blocked SELECT id, queue, name, 0, at, 0, 1, 'key' FROM spread
    """,
    "running": """
        INSERT INTO countersign.running (id, attempt, worker, claimed_at, queue, name, rank,
            run_at, attempts_allowed, on_lost)
        SELECT id, 1, gen_random_uuid(), at, queue, name, 0, at, 1, 'attempts' FROM spread
    """,
    "needs_review": """
        INSERT INTO countersign.review (id, entered_at, why, attempt)
        SELECT id, at, 'lost', 1 FROM spread
    """,
    "completed": """
        INSERT INTO countersign.ended (id, state, attempt, ended_at)
        SELECT id, 'completed', 1, at FROM spread
    """,
    "failed": """
        INSERT INTO countersign.ended (id, state, attempt, ended_at)
        SELECT id, 'failed', 1, at FROM spread
    """,
    "cancelled": """
        INSERT INTO countersign.ended (id, state, attempt, ended_at)
        SELECT id, 'cancelled', 1, at FROM spread
    """,
}
NEWEST_FIRST = {"completed", "failed", "cancelled"}


def fill(conn: psycopg.Connection[Any], place: str, count: int) -> None:
    conn.execute(BODIES, {"count": count})
    conn.execute(SPREAD + FILL[place], {"sign": 1 if place in {"waiting", "blocked"} else -1})


def pages(conn: Any, state: State, limit: int, **filters: Any) -> Iterator[Page]:
    page = list_jobs(conn, state, limit=limit, **filters)
    yield page
    while page.next:
        page = list_jobs(conn, state, cursor=page.next, limit=limit, **filters)
        yield page


def keys(rows: list[JobRow]) -> list[tuple[datetime, UUID]]:
    return [(row.at, row.id) for row in rows]


def in_order(state: State, rows: list[JobRow]) -> list[JobRow]:
    """Put rows in the order that a list of their state should have."""
    if state in {"ready", "blocked"}:
        return sorted(rows, key=lambda row: row.id)
    return sorted(rows, key=lambda row: (row.at, row.id), reverse=state in NEWEST_FIRST)


@pytest.mark.parametrize("limit", [7, 10, 20, 60, 61])
@pytest.mark.parametrize("place", FILL)
def test_a_list_is_walked_forth_and_back_with_every_row_once_and_in_order(
    conn, place: str, limit: int
) -> None:
    fill(conn, place, 60)
    state: Any = {"due": "ready"}.get(place, place)
    forth = list(pages(conn, state, limit))
    rows = [row for page in forth for row in page.rows]
    assert len({row.id for row in rows}) == len(rows) == 60
    assert {row.state for row in rows} == {state}
    assert rows == in_order(state, rows)
    assert [len(page.rows) for page in forth[:-1]] == [limit] * (len(forth) - 1)
    assert (forth[0].previous, forth[-1].next) == (None, None)

    back = [forth[-1]]
    while cursor := back[-1].previous:
        back.append(list_jobs(conn, state, cursor=cursor, direction="previous", limit=limit))
    again = [row for page in reversed(back) for row in page.rows]
    assert keys(again) == keys(rows)
    assert all(page.next for page in back[1:])


def test_due_and_ready_rows_are_one_list(conn) -> None:
    fill(conn, "due", 30)
    conn.execute(
        "WITH gone AS (DELETE FROM countersign.waiting WHERE name = 'name-1' RETURNING waiting.*)"
        " INSERT INTO countersign.ready SELECT * FROM gone"
    )
    rows = [row for page in pages(conn, "ready", 7) for row in page.rows]
    assert len(rows) == 30
    assert rows == in_order("ready", rows)
    assert list_jobs(conn, "waiting").rows == []


@pytest.mark.parametrize("place", FILL)
def test_filters_hold_on_every_page(conn, place: str) -> None:
    fill(conn, place, 60)
    state: Any = {"due": "ready"}.get(place, place)
    for filters, count in (
        ({"queue": "queue-1"}, 30),
        ({"name": "name-2"}, 20),
        ({"queue": "queue-0", "name": "name-0"}, 10),
        ({"queue": "queue-0", "name": "name-9"}, 0),
        ({"queue": "%"}, 0),
        ({"name": ""}, 0),
    ):
        rows = [row for page in pages(conn, state, 8, **filters) for row in page.rows]
        assert len(rows) == count
        assert all(
            {"queue": row.queue, "name": row.name}.items() >= filters.items() for row in rows
        )


@pytest.mark.parametrize(
    ("limit", "rows"), [(-5, 1), (0, 1), (1, 1), (50, 50), (200, 200), (10**9, 200)]
)
def test_a_page_has_1_to_200_rows(conn, limit: int, rows: int) -> None:
    fill(conn, "ready", MOST + 1)
    page = list_jobs(conn, "ready", limit=limit)
    assert len(page.rows) == rows
    assert page.next


def test_a_page_has_50_rows_unless_asked_otherwise(conn) -> None:
    fill(conn, "ready", 60)
    assert len(list_jobs(conn, "ready").rows) == 50


def test_an_empty_list_goes_nowhere(conn) -> None:
    for state in STATES:
        assert list_jobs(conn, state) == Page([], None, None)
    nowhere = Cursor(datetime(2026, 1, 1, tzinfo=UTC), uuid.uuid4())
    assert list_jobs(conn, "failed", cursor=nowhere).rows == []
    assert list_jobs(conn, "failed", cursor=nowhere, direction="previous").rows == []


def test_before_the_first_page_there_is_nothing_but_the_way_back(conn) -> None:
    fill(conn, "ready", 20)
    first = list_jobs(conn, "ready", limit=10)
    top = Cursor(first.rows[0].at, first.rows[0].id)
    assert list_jobs(conn, "ready", cursor=top, direction="previous", limit=10).rows == []
    second = list_jobs(conn, "ready", cursor=first.next, limit=10)
    again = list_jobs(conn, "ready", cursor=second.previous, direction="previous", limit=10)
    assert (again.rows, again.previous) == (first.rows, None)
    assert again.next == first.next


def test_a_row_that_left_moves_nothing_else(conn) -> None:
    fill(conn, "ready", 30)
    first = list_jobs(conn, "ready", limit=10)
    later = list_jobs(conn, "ready", cursor=first.next, limit=10)
    conn.execute(
        "DELETE FROM countersign.ready WHERE id = ANY(%s)", [[row.id for row in first.rows]]
    )
    assert list_jobs(conn, "ready", cursor=first.next, limit=10).rows == later.rows


def test_a_line_tells_what_its_state_is_about(conn, job_in, make_worker) -> None:
    lost = job_in(conn, "running", on_lost="review")
    conn.execute("UPDATE countersign.workers SET stopped_at = now() WHERE id = %s", [lost.worker])
    recover(conn)
    (row,) = list_jobs(conn, "needs_review", queue=lost.queue).rows
    assert (row.why, row.error, row.uncertain) == ("lost", "abandoned by its worker", True)
    assert (row.worker, row.attempt) == (lost.worker, 1)
    running = job_in(conn, "running", attempts=4)
    cancel(conn, [running.id], by="ops:alice", reason="asked")
    (row,) = list_jobs(conn, "running", queue=running.queue).rows
    assert (row.worker, row.attempts_allowed) == (running.worker, 4)
    assert row.stop_requested_at


def test_errors_are_left_out_of_what_is_shown(conn, job_in) -> None:
    made = job_in(conn, "failed")
    (row,) = list_jobs(conn, "failed", queue=made.queue).rows
    assert row.error == "ValueError: no such address"
    assert "address" not in repr(row)


# Cursors


@given(st.datetimes(timezones=st.just(UTC)), st.uuids())
def test_a_cursor_is_read_as_it_was_written(at: datetime, job_id: UUID) -> None:
    cursor = Cursor(at, job_id)
    assert Cursor.decode(cursor.encode()) == cursor
    assert cursor.encode().replace("_", "").replace("-", "").isalnum()


HEX = "0" * 32
HOSTILE_CURSORS = [
    "",
    "_",
    "1",
    f"1_{HEX[1:]}",
    f"1_{HEX}0",
    f"_{HEX}",
    f"1_{HEX}\n",
    f"\n1_{HEX}",
    f" 1_{HEX}",
    f"1_{'g' * 32}",
    f"1_{'A' * 32}",
    f"--1_{HEX}",
    f"+1_{HEX}",
    f"1e5_{HEX}",
    f"1.5_{HEX}",
    f"{'9' * 18}_{HEX}",
    f"-{'9' * 18}_{HEX}",
    f"{'9' * 5_000}_{HEX}",
    f"٣_{HEX}",
    f"１_{HEX}",
    f"1_{HEX}\0",
    "\ud800",
    "<img src=x onerror=alert(1)>",
    "'; DROP TABLE countersign.jobs; --",
    f"1_{uuid.UUID(int=1)}",
    "null",
    f"1__{HEX}",
    f"1_{HEX}_{HEX}",
]


@pytest.mark.parametrize("text", HOSTILE_CURSORS, ids=lambda text: ascii(text)[:30])
def test_what_is_no_cursor_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"^not a cursor$"):
        Cursor.decode(text)


@given(st.text() | st.from_regex(r"-?\d{1,18}_[0-9a-f]{32}", fullmatch=True))
def test_any_text_is_a_cursor_or_a_value_error(text: str) -> None:
    try:
        cursor = Cursor.decode(text)
    except ValueError:
        return
    assert Cursor.decode(cursor.encode()) == cursor


@pytest.mark.parametrize("micros", ["-62135596800000000", "253402300799999999", "0", "-1"])
@pytest.mark.parametrize("zone", ["UTC", "Pacific/Kiritimati", "Etc/GMT+12"])
def test_a_cursor_from_the_ends_of_time_lists_what_is_beyond_it(
    conn, micros: str, zone: str
) -> None:
    fill(conn, "failed", 5)
    conn.execute("SELECT set_config('TimeZone', %s, true)", [zone])
    cursor = Cursor.decode(f"{micros}_{HEX}")
    found = [
        len(list_jobs(conn, "failed", cursor=cursor, direction=direction).rows)
        for direction in ("next", "previous")
    ]
    assert sorted(found) == [0, 5]
