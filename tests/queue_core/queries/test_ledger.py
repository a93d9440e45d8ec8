"""The ledger page by page: every act that fits once, in order, however far the look goes."""

import uuid
from datetime import UTC, datetime, timedelta
from typing import Literal

import pytest

from queue_core import pause_queue, resume_queue, retry
from queue_core.queries.acts import acts_of
from queue_core.queries.ledger import LARGEST_ID, Cursor, Wanted, act, list_acts
from tests.sealing import sign, tamper

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
SECRET = "hunter2"


@pytest.fixture
def conn(database):
    """Give an autocommit connection to a database of the test's own."""
    return database.connect()


def ids(page):
    """Return the ids of a page."""
    return [row.id for row in page.rows]


def walk(conn, wanted, direction: Literal["next", "previous"] = "next", cursor=None, **limits):
    """Return every page on the way, from `cursor` to the end."""
    pages = []
    while True:
        page = list_acts(conn, wanted, cursor=cursor, direction=direction, **limits)
        pages.append(page)
        cursor = page.next if direction == "next" else page.previous
        if cursor is None:
            return pages


def put(conn, **columns):
    """Write an act on a queue, signed as these columns say, and return its id."""
    given = {"by": "ops:alice", "act": "paused", "name": "mail", "reason": "asked", "bulk": None}
    row = conn.execute(
        "INSERT INTO countersign.acts (by, act, subject_kind, subject_name, reason, bulk_id, via) "
        "VALUES (%(by)s, %(act)s, 'queue', %(name)s, %(reason)s, %(bulk)s, 'code') RETURNING id",
        {**given, **columns},
    ).fetchone()
    return row["id"]


def test_the_newest_act_is_the_first(conn):
    signed = sign(conn, 3)
    page = list_acts(conn, Wanted())
    assert ids(page) == signed[::-1]
    assert (page.previous, page.next, page.stopped) == (None, None, False)


def test_nothing_was_done_yet(conn):
    page = list_acts(conn, Wanted())
    assert (page.rows, page.previous, page.next, page.stopped) == ([], None, None, False)
    assert list_acts(conn, Wanted(since=LONG_AGO, until=LONG_AGO)).rows == []


def test_paging_shows_each_act_once_both_ways(conn):
    signed = sign(conn, 23)
    pages = walk(conn, Wanted(), limit=5)
    assert [each for page in pages for each in ids(page)] == signed[::-1]
    assert [len(page.rows) for page in pages] == [5, 5, 5, 5, 3]
    assert not any(page.stopped for page in pages)
    back = walk(conn, Wanted(), "previous", pages[-1].previous, limit=5)
    assert [ids(page) for page in back] == [ids(page) for page in pages[-2::-1]]


def test_acts_that_come_meanwhile_move_nothing_on_the_next_page(conn):
    signed = sign(conn, 10)
    first = list_acts(conn, Wanted(), limit=5)
    sign(conn, 3)
    second = list_acts(conn, Wanted(), cursor=first.next, limit=5)
    assert ids(first) + ids(second) == signed[::-1]
    assert len(list_acts(conn, Wanted(), cursor=second.previous, direction="previous").rows) == 8


def test_each_filter_fits_what_it_names_and_nothing_else(conn, job_in):
    made, bulk = job_in(conn, "failed"), uuid.uuid4()
    retry(conn, [made.id], by="ops:bob", reason="deploy_error", bulk_id=bulk)
    pause_queue(conn, "mail", by="ops:alice", reason="outage")
    resume_queue(conn, "mail", by="ops:bob", reason="outage_over")
    on_job, paused, resumed = ids(list_acts(conn, Wanted()))[::-1]
    for wanted, fits in [
        (Wanted(by="ops:bob"), [resumed, on_job]),
        (Wanted(by="ops:alice"), [paused]),
        (Wanted(by="ops:bob", reason="outage_over"), [resumed]),
        (Wanted(act="retried"), [on_job]),
        (Wanted(reason="outage"), [paused]),
        (Wanted(kind="job"), [on_job]),
        (Wanted(kind="queue"), [resumed, paused]),
        (Wanted(kind="queue", name="mail"), [resumed, paused]),
        (Wanted(kind="queue", name="mail", by="ops:bob"), [resumed]),
        (Wanted(kind="schedule", name="mail"), []),
        (Wanted(name="mail.send"), [on_job]),
        (Wanted(kind="job", name="mail.send"), [on_job]),
        (Wanted(name="mail"), [resumed, paused]),
        (Wanted(subject=made.id), [on_job]),
        (Wanted(subject=made.id, kind="queue"), []),
        (Wanted(subject=uuid.uuid4()), []),
        (Wanted(bulk=bulk), [on_job]),
        (Wanted(bulk=uuid.uuid4()), []),
        (Wanted(by="OPS:BOB"), []),
        (Wanted(by="ops:%"), []),
    ]:
        assert ids(list_acts(conn, wanted)) == fits, wanted


def test_a_look_that_ends_before_the_list_says_so_and_goes_on_from_there(conn):
    mine = {put(conn, by="ops:rare") for _ in range(2)}
    sign(conn, 30)
    mine.add(put(conn, by="ops:rare"))
    pages = walk(conn, Wanted(by="ops:rare"), limit=5, window=10)
    assert [len(page.rows) for page in pages] == [1, 0, 0, 2]
    assert [page.stopped for page in pages] == [True, True, True, False]
    assert {each for page in pages for each in ids(page)} == mine
    back = walk(conn, Wanted(by="ops:rare"), "previous", pages[-1].previous, limit=5, window=10)
    assert {each for page in back for each in ids(page)} == {max(mine)}
    assert back[0].stopped
    assert not back[-1].stopped


def test_a_full_page_did_not_stop_though_its_window_did(conn):
    sign(conn, 30)
    page = list_acts(conn, Wanted(by="ops:alice"), limit=5, window=10)
    assert (len(page.rows), page.stopped) == (5, False)


def test_without_a_filter_nothing_stops_a_look(conn):
    sign(conn, 30)
    assert not list_acts(conn, Wanted(), limit=50, window=10).stopped


def test_acts_on_one_job_or_one_name_are_found_however_many_others_there_are(conn):
    one = put(conn, name="rare")
    sign(conn, 30)
    page = list_acts(conn, Wanted(kind="queue", name="rare"), window=10)
    assert (ids(page), page.stopped) == ([one], False)


def age(owner, hours=1):
    """Put `hours` between each act and the next, the newest being of now."""
    tamper(
        owner,
        "UPDATE countersign.acts SET at = now() - make_interval(hours => "
        f"{hours} * (SELECT max(id) FROM countersign.acts)::integer - {hours} * id::integer)",
    )


def test_a_range_of_time_takes_its_first_moment_in_and_leaves_its_last_out(conn, database):
    signed = sign(conn, 12)
    age(database.owner())
    rows = list_acts(conn, Wanted()).rows
    at = {row.id: row.at for row in rows}
    for first in signed:
        for last in signed:
            page = list_acts(conn, Wanted(since=at[first], until=at[last]))
            assert ids(page) == list(range(last - 1, first - 1, -1))
    assert ids(list_acts(conn, Wanted(since=at[signed[3]]))) == signed[:2:-1]
    assert ids(list_acts(conn, Wanted(until=at[signed[3]]))) == signed[2::-1]
    assert ids(list_acts(conn, Wanted(since=LONG_AGO))) == signed[::-1]
    assert list_acts(conn, Wanted(until=LONG_AGO)).rows == []


def test_a_range_of_time_bounds_what_another_filter_looks_through(conn, database):
    one = put(conn, by="ops:rare")
    sign(conn, 40)
    age(database.owner())
    rare = act(conn, one)
    assert rare
    page = list_acts(conn, Wanted(by="ops:rare", until=rare.at + timedelta(hours=2)), window=10)
    assert (ids(page), page.stopped) == ([one], False)


def test_ids_that_were_never_used_are_no_hindrance(conn, database):
    owner = database.owner()
    signed = []
    for _ in range(6):
        signed += sign(conn)
        owner.execute("SELECT setval('countersign.acts_id', last_value * 3) FROM "
                      "countersign.acts_id")  # fmt: skip
    age(owner, hours=0)
    tamper(
        owner,
        "UPDATE countersign.acts SET at = now() - (100 - log(id::numeric)) * interval '1 hour'",
    )
    at = {row.id: row.at for row in list_acts(conn, Wanted()).rows}
    for place, each in enumerate(signed):
        assert ids(list_acts(conn, Wanted(since=at[each]))) == signed[place:][::-1]
    assert [each for page in walk(conn, Wanted(), limit=2) for each in ids(page)] == signed[::-1]


def test_acts_dated_a_little_out_of_their_order_are_in_the_range(conn, database):
    signed = sign(conn, 5)
    tamper(
        database.owner(),
        "UPDATE countersign.acts SET at = timestamptz '2026-11-30 02:31:00+00' "
        "+ (ARRAY[1, 5, 3, 6, 7])[id] * interval '1 second'",
    )
    since = datetime(2026, 11, 30, 2, 31, 4, tzinfo=UTC)
    fits = [signed[4], signed[3], signed[1]]
    assert ids(list_acts(conn, Wanted(since=since))) == fits


@pytest.mark.parametrize("limit", [-3, 0, 1, 10_000])
def test_a_page_has_a_row_at_least_and_a_thousand_at_most(conn, limit):
    sign(conn, 1_003)
    assert len(list_acts(conn, Wanted(), limit=limit).rows) == min(max(limit, 1), 1_000)


def test_an_act_is_found_by_its_id(conn, job_in):
    made = job_in(conn, "failed")
    retry(conn, [made.id], by="ops:bob", reason="deploy_error")
    (row,) = acts_of(conn, made.id)
    assert act(conn, row.id) == row
    assert act(conn, row.id + 1) is None
    assert act(conn, 10**30) is None


def test_a_cursor_is_read_as_it_was_written():
    for number in (0, 1, LARGEST_ID):
        assert Cursor.decode(Cursor(number).encode()) == Cursor(number)


@pytest.mark.parametrize(
    "text", ["", "-1", "+1", "1.0", "1e3", " 1", "1 ", "x", "٣", "²", "1_0", "9" * 19, "9" * 5_000]
)
def test_anything_else_is_no_cursor(text):
    with pytest.raises(ValueError, match="not"):
        Cursor.decode(text)


def test_who_and_why_are_left_out_of_what_is_shown_of_a_filter():
    assert SECRET not in repr(Wanted(by=SECRET, reason=SECRET))
