"""Filters of a list: each fits what it says, on every page, however few fit."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from queue_core import cancel, confirm, release, retry
from queue_core.outcomes import Failed
from queue_core.queries import jobs, tabs
from queue_core.queries.fitting import id_range
from queue_core.queries.jobs import Cursor, list_jobs
from queue_core.queries.tabs import Tab
from queue_core.states import STATES, State
from queue_core.transitions.fail import fail

SIGNED: dict[str, Any] = {"by": "ops:alice", "reason": "seen_in_test"}
PLACES = [*STATES, "due"]


def listed(conn: Any, state: State, **filters: Any) -> set[UUID]:
    return {row.id for row in list_jobs(conn, state, **filters).rows}


def state_of(place: str) -> Any:
    return {"due": "ready"}.get(place, place)


@pytest.mark.parametrize("place", PLACES)
def test_queue_and_name_are_looked_for_and_left_out_in_every_state(conn, job_in, place) -> None:
    one, other = job_in(conn, place), job_in(conn, place)
    state = state_of(place)
    assert listed(conn, state, queue=one.queue) == {one.id}
    assert listed(conn, state, without={"queue": [one.queue]}) == {other.id}
    assert listed(conn, state, without={"queue": [one.queue, other.queue]}) == set()
    assert listed(conn, state, queue=one.queue, without={"queue": [one.queue]}) == set()
    assert listed(conn, state, name="mail.send") == {one.id, other.id}
    assert listed(conn, state, without={"name": ["mail.send"]}) == set()


@pytest.mark.parametrize("place", PLACES)
def test_part_of_an_id_or_of_a_name_is_searched_for_in_every_state(conn, job_in, place) -> None:
    made = job_in(conn, place)
    job_in(conn, place)
    state, text = state_of(place), str(made.id)
    shown = f"{text[:13]}…{text[-4:]}"
    for part in (text, made.id.hex, text[-8:], text.upper()[19:], shown, text[:18]):
        assert made.id in listed(conn, state, search=part), part
    assert listed(conn, state, search=f"{text[:8]}…{text[-12:]}") == {made.id}
    assert listed(conn, state, search=text) == {made.id}
    assert len(listed(conn, state, search="AIL.se")) == 2
    for part in ("%", "_", "nothing", f"{text[:13]}…zzzz", "0" * 32):
        assert listed(conn, state, search=part) == set()


def test_a_serial_key_is_searched_for(conn, job_in) -> None:
    made = job_in(conn, "blocked")
    assert listed(conn, "blocked", search="COUNT-7") == {made.id}


def test_errors_are_those_of_the_last_run_that_had_one(conn, job_in) -> None:
    made = [job_in(conn, "running", attempts=2) for _ in range(3)]
    for each, kind in zip(made, ("KeyError", "KeyError", None), strict=True):
        failed = Failed("no", error_type=kind, error_place="shop:send", retryable=each is made[0])
        fail(conn, each.worker, [each.report(failed, wait=60.0)])
    again, failed, unknown = (each.id for each in made)
    assert listed(conn, "waiting", error_type="KeyError") == {again}
    assert listed(conn, "failed", error_type="KeyError", error_place="shop:send") == {failed}
    assert listed(conn, "failed", error_place="shop:send") == {failed, unknown}
    assert listed(conn, "failed", error_type="KeyError", error_place="shop:other") == set()
    assert listed(conn, "failed", without={"error_type": ["KeyError"]}) == {unknown}
    assert listed(conn, "waiting", without={"error_type": ["KeyError"]}) == set()
    (row,) = list_jobs(conn, "waiting").rows
    assert (row.error_type, row.error_place) == ("KeyError", "shop:send")
    retry(conn, [failed], **SIGNED)
    assert listed(conn, "ready", error_type="KeyError") == {failed}


@pytest.mark.parametrize("place", ["running", "needs_review", "failed", "completed"])
def test_a_worker_is_known_by_its_id_name_or_host(conn, job_in, place: Any) -> None:
    made, other = job_in(conn, place), job_in(conn, place)
    conn.execute(
        "UPDATE countersign.workers SET name = 'red', host = 'h-1' WHERE id = %s", [made.worker]
    )
    for text in (str(made.worker), "red", "h-1"):
        assert listed(conn, place, worker=text) == {made.id}
        assert listed(conn, place, without={"worker": [text]}) == {other.id}
    assert listed(conn, place, worker="RED") == set()


def test_a_worker_of_an_earlier_run_is_remembered(conn, job_in) -> None:
    made = job_in(conn, "failed")
    retry(conn, [made.id], **SIGNED)
    never = job_in(conn, "ready")
    assert listed(conn, "ready", worker=str(made.worker)) == {made.id}
    assert listed(conn, "ready", without={"worker": [str(made.worker)]}) == {never.id}


@pytest.mark.parametrize("place", PLACES)
def test_a_schedule_is_looked_for_in_every_state(database, job_in, place: str) -> None:
    conn, state = database.connect(), state_of(place)
    made, other = job_in(conn, place), job_in(conn, place)
    with database.owner() as owner:
        owner.execute("UPDATE countersign.jobs SET schedule = 'hourly' WHERE id = %s", [made.id])
    assert listed(conn, state, schedule="hourly") == {made.id}
    assert listed(conn, state, without={"schedule": ["hourly"]}) == {other.id}


def test_an_operator_is_one_who_acted_on_it_ever(conn, job_in) -> None:
    made, other = job_in(conn, "needs_review"), job_in(conn, "needs_review")
    release(conn, [made.id], by="ops:bob", reason="seen_in_test")
    cancel(conn, [made.id], **SIGNED)
    confirm(conn, [other.id], **SIGNED)
    assert listed(conn, "cancelled", operator="ops:bob") == {made.id}
    assert listed(conn, "cancelled", operator="ops:alice") == {made.id}
    assert listed(conn, "completed", operator="ops:bob") == set()
    assert listed(conn, "completed", without={"operator": ["ops:bob"]}) == {other.id}
    assert listed(conn, "completed", without={"operator": ["ops:bob", "ops:alice"]}) == set()


@pytest.mark.parametrize("place", PLACES)
def test_a_time_range_holds_its_beginning_and_not_its_end(conn, job_in, place: str) -> None:
    job_in(conn, place)
    state = state_of(place)
    (row,) = list_jobs(conn, state).rows
    step = timedelta(microseconds=1)
    for since, until, there in (
        (row.at, row.at + step, True),
        (row.at + step, None, False),
        (None, row.at, False),
        (None, row.at + step, True),
        (datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC), True),
    ):
        assert bool(listed(conn, state, since=since, until=until)) == there


def test_a_job_whose_body_is_gone_has_no_name_to_be_left_out_by(database, job_in) -> None:
    conn = database.connect()
    gone = job_in(conn, "failed")
    with database.owner() as owner:
        owner.execute("DELETE FROM countersign.jobs WHERE id = %s", [gone.id])
    assert listed(conn, "failed", without={"name": ["mail.send"]}) == {gone.id}
    assert listed(conn, "failed", search="mail") == set()
    assert listed(conn, "failed", search=str(gone.id)[-9:]) == {gone.id}


# However few fit


MANY = """
INSERT INTO countersign.ended (id, state, attempt, ended_at, error_type)
SELECT countersign.new_id(), 'failed', 1, now() - (n / 10) * interval '1 minute',
    CASE WHEN mod(n, 40) = 0 THEN 'Rare' END
FROM generate_series(1, %(count)s) AS n
"""
ENQUEUED = """
INSERT INTO countersign.ready (id, queue, name, rank, run_at)
SELECT countersign.new_id(), 'q', CASE WHEN mod(n, 40) = 0 THEN 'rare' ELSE 'common' END, 0, now()
FROM generate_series(1, %(count)s) AS n
"""
RARE: dict[Any, tuple[Any, dict[str, Any]]] = {
    "failed": (MANY, {"error_type": "Rare"}),
    "ready": (ENQUEUED, {"name": "rare"}),
}


@pytest.mark.parametrize("window", [5, 40, 41, 199, 200, 201, 1_000])
@pytest.mark.parametrize("state", RARE)
def test_looking_stops_and_goes_on_both_ways_without_a_row_missed(
    conn, monkeypatch, state: Any, window: int
) -> None:
    statement, filters = RARE[state]
    conn.execute(statement, {"count": 200})
    everything = [row.id for row in list_jobs(conn, state, limit=200, **filters).rows]
    assert len(everything) == 5
    monkeypatch.setattr(jobs, "WINDOW", window)
    forth = [list_jobs(conn, state, limit=2, **filters)]
    while there := forth[-1].next:
        forth.append(list_jobs(conn, state, limit=2, cursor=there, **filters))
        assert len(forth) < 60
    assert [row.id for page in forth for row in page.rows] == everything
    assert window > 41 or any(page.cut for page in forth)
    back = [forth[-1]]
    while there := back[-1].previous:
        back.append(list_jobs(conn, state, limit=2, cursor=there, direction="previous", **filters))
        assert len(back) < 120
    assert [row.id for page in reversed(back) for row in page.rows] == everything


def test_a_page_that_is_full_was_not_cut_off(conn, monkeypatch) -> None:
    conn.execute(MANY, {"count": 200})
    monkeypatch.setattr(jobs, "WINDOW", 90)
    assert list_jobs(conn, "failed", limit=1, error_type="Rare").cut is None
    page = list_jobs(conn, "failed", limit=2, error_type="Rare")
    assert (len(page.rows), page.cut, page.next) == (2, page.next, page.cut)
    assert page.cut


def test_an_empty_page_leads_back_to_the_row_it_was_come_from(conn) -> None:
    conn.execute(MANY, {"count": 3})
    rows = list_jobs(conn, "failed").rows
    last, first = (Cursor(row.at, row.id) for row in (rows[-1], rows[0]))
    beyond = list_jobs(conn, "failed", cursor=last)
    assert (beyond.rows, beyond.next) == ([], None)
    back = list_jobs(conn, "failed", cursor=beyond.previous, direction="previous")
    assert back.rows == rows
    before = list_jobs(conn, "failed", cursor=first, direction="previous")
    assert (before.rows, before.previous) == ([], None)
    assert list_jobs(conn, "failed", cursor=before.next).rows == rows


@pytest.mark.parametrize("number", [0, 2**128 - 1])
def test_beside_the_first_and_the_last_id_there_is_no_other(number: int) -> None:
    cursor = Cursor(datetime(2026, 1, 1, tzinfo=UTC), UUID(int=number))
    assert cursor.stepped(falling=number == 0) == cursor


@pytest.mark.parametrize(
    "text",
    ["", "0199", "deadbeef", "01d96b27", "mail.send", "0199f2c4-zz", "…", "x…0199f2c4", None],
)
def test_what_begins_no_id_is_a_part_of_something(text: str | None) -> None:
    assert id_range(text) is None


def test_what_begins_an_id_is_looked_up_by_it() -> None:
    found = id_range("0199F2C4-7d1e...9f-11")
    assert found
    lowest, highest, end = found
    assert str(lowest) == "0199f2c4-7d1e-0000-0000-000000000000"
    assert str(highest) == "0199f2c4-7d1e-ffff-ffff-ffffffffffff"
    assert end == "9f11"


# Numbers


def test_tabs_count_what_the_lists_hold(conn, job_in) -> None:
    made = [job_in(conn, place) for place in PLACES for _ in range(2)]
    worker = next(each.worker for each in made if each.attempt)
    some: list[dict[str, Any]] = [
        {"name": "mail.send"},
        {"queue": made[0].queue},
        {"without": {"queue": [made[0].queue]}},
        {"search": str(made[5].id)[-9:]},
        {"search": str(made[5].id)},
        {"search": "mail"},
        {"worker": str(worker)},
        {"operator": "ops:setup"},
        {"schedule": "none"},
        {"error_type": "none"},
        {"until": datetime.now(UTC) + timedelta(minutes=30)},
    ]
    for filters in some:
        expected = {state: len(list_jobs(conn, state, **filters).rows) for state in STATES}
        found = tabs.tabs(conn, **filters)
        assert found == {state: Tab(number, False) for state, number in expected.items()}


def test_a_number_says_where_there_may_be_more(conn, monkeypatch) -> None:
    conn.execute(MANY, {"count": 81})
    monkeypatch.setattr(tabs, "CAP", 80)
    monkeypatch.setattr(tabs, "WINDOW", 41)
    assert tabs.tabs(conn, error_type="Rare")["failed"] == Tab(1, True)
    assert tabs.tabs(conn, operator="ops:alice")["failed"] == Tab(0, True)
    assert tabs.tabs(conn, without={"operator": [str(uuid4())]})["failed"] == Tab(41, True)
    monkeypatch.setattr(tabs, "CAP", 82)
    assert tabs.tabs(conn, error_type="Rare")["failed"] == Tab(2, False)
