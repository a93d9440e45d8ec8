"""The ledger's pages: what fits, which seal holds it, and what leaves as a file or on paper."""

import csv
import io
from html import unescape
from uuid import uuid4

import pytest

from console.export import COLUMNS, harmless
from queue_core import cancel, pause_queue, retry, seals
from queue_core.queries import acts
from queue_core.queries.seals import newest
from tests.conftest import CANARY
from tests.console.people import Person
from tests.console.scenes import NAUGHTY, add_operators
from tests.sealing import sign, tamper

MARK = "<img src=x onerror=alert(1)>"


@pytest.fixture
def ledger(database, app_on):
    """Give an operator at a console whose ledger is the test's own, and two connections to it."""
    owner = database.owner()
    add_operators(owner)
    return Person(app_on(database.url), "ops:viola"), database.connect(), owner


def table(answer):
    """Return the rows of a file of acts, each by the names of its columns."""
    head, *lines = csv.reader(io.StringIO(answer.text))
    assert head == list(COLUMNS)
    return [dict(zip(head, line, strict=True)) for line in lines]


def on(page, act):
    """Whether a list shows an act."""
    return f'href="/acts/{act}"' in page.text


def test_what_was_done_is_there_with_who_and_why_and_what_was_refused_is_not(alice, job_at, books):
    job = job_at("failed")
    before = len(acts.acts_of(books, job))
    reason = f"seen_{uuid4().hex}"
    for wrong in ({"operator_code": "ops:bob"}, {"seen_attempt": "7"}, {"note": "x" * 2_001}):
        assert alice.act(job, "retry", reason=reason, **wrong).status_code in {400, 409}
    assert "No act fits these filters" in alice.get(f"/acts/?reason={reason}").text
    assert len(acts.acts_of(books, job)) == before
    alice.act(job, "retry", reason=reason, note="They rang.")
    (act,) = acts.acts_of(books, job)
    for path in (f"/acts/?reason={reason}", f"/acts/?subject={job}", f"/acts/{act.id}"):
        page = alice.get(path)
        assert page.status_code == 200
        for text in ("ops:alice", reason, "They rang.", "not sealed yet", str(act.id)):
            assert text.lower() in page.text.lower()
        assert f'href="/jobs/{job}"' in page.text


def test_an_act_says_which_seal_holds_it_and_the_page_ends_with_the_head(ledger):
    viewer, conn, _ = ledger
    page = viewer.get("/acts/")
    assert "not sealed yet" in page.text
    assert "Nothing is sealed yet" in page.text
    seals.seal(conn)
    open_act = sign(conn)[0]
    (head,) = newest(conn, 1)
    page = viewer.get("/acts/")
    assert str(head.head) in page.text
    assert page.text.count("not sealed yet") == 1
    assert "not sealed yet" in viewer.get(f"/acts/{open_act}").text.lower()
    sealed = viewer.get("/acts/1").text
    assert f"Seal {head.number} holds it" in sealed
    assert str(head.head) in sealed


def test_an_act_put_in_past_the_guards_is_said_to_be_in_no_seal(ledger):
    viewer, conn, owner = ledger
    sign(conn)
    owner.execute("SELECT nextval('countersign.acts_id')")
    sign(conn)
    seals.seal(conn)
    gap = sign(conn)[0] - 2
    tamper(
        owner,
        "INSERT INTO countersign.acts (id, at, xid, by, act, subject_kind, subject_name, reason, "
        f"via) SELECT {gap}, at, xid, 'ops:mallory', 'added', 'operator', 'x', 'x', 'code' "
        "FROM countersign.acts WHERE id = 1",
    )
    assert "in no seal" in viewer.get("/acts/?by=ops:mallory").text
    page = viewer.get(f"/acts/{gap}").text
    assert "ought to hold it, and does not" in page
    assert [row["seal"] for row in table(viewer.get("/acts/export?by=ops:mallory"))] == [
        "in no seal"
    ]


def test_pages_go_both_ways_and_show_each_act_once(ledger):
    viewer, conn, _ = ledger
    sign(conn, 120)
    seen, path = [], "/acts/?by=ops:alice"
    while path:
        page = viewer.get(path).text
        seen += [int(part.partition('"')[0]) for part in page.split('href="/acts/')[1:]
                 if part[:1].isdecimal()]  # fmt: skip
        _, found, rest = page.partition('rel="next"')
        path = unescape(rest.partition('href="')[2].partition('"')[0]) if found else ""
    assert seen == sorted(set(seen), reverse=True)
    assert len(seen) == 120
    back = viewer.get(f"/acts/?by=ops:alice&before={seen[-1]}").text
    assert on(viewer.get(f"/acts/?by=ops:alice&before={seen[-1]}"), seen[-2])
    assert 'rel="prev"' in back


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("act=hugged", "There is no such act"),
        ("kind=planet", "Acts are done to no such thing"),
        ("since=yesterday", "Write a time as"),
        ("until=2026-13-01", "Write a time as"),
        ("since=0001-01-01", "Write a time as"),
        ("until=9999-12-31", "Write a time as"),
        ("bulk=7", "That is the id of no bulk"),
        ("by=" + "x" * 201, "has at most 200 characters"),
        ("reason=%00", "none of them NUL"),
        ("subject=" + "x" * 300, "has at most"),
    ],
)
def test_a_wrong_filter_is_said_at_its_field_and_nothing_is_looked_for(alice, query, sentence):
    page = alice.get(f"/acts/?{query}")
    assert page.status_code == 400
    assert sentence in page.text
    assert "Nothing was looked for" in page.text
    field = query.partition("=")[0]
    assert f'aria-describedby="{field}-fault"' in page.text
    for path in ("export", "handover"):
        answer = alice.get(f"/acts/{path}?{query}")
        assert (answer.status_code, sentence in answer.text) == (400, True)


@pytest.mark.parametrize("query", ["after=x", "after=1&before=1", "before=" + "9" * 30])
def test_a_place_that_no_page_had_is_no_place(alice, query):
    assert alice.get(f"/acts/?{query}").status_code == 400


@pytest.mark.parametrize("number", ["0", "999999999", "9" * 30])
def test_an_act_that_never_was_is_not_found(alice, number):
    answer = alice.get(f"/acts/{number}")
    assert answer.status_code == 404
    assert "no act of that number" in answer.text


def test_times_are_utc_and_a_day_to_look_up_to_counts_whole(ledger):
    viewer, conn, owner = ledger
    sign(conn, 3)
    dates = ("2026-03-28 23:59:59+00", "2026-03-29 02:31:00+00", "2026-03-30 00:00:00+00")
    first = conn.execute("SELECT max(id) FROM countersign.acts").fetchone()["max"] - 2
    for place, date in enumerate(dates):
        tamper(owner, f"UPDATE countersign.acts SET at = '{date}' WHERE id = {first + place}")
    tamper(owner, f"UPDATE countersign.acts SET at = '2026-01-01' WHERE id < {first}")
    for query, fits in [
        ("since=2026-03-29&until=2026-03-29", [first + 1]),
        ("since=2026-03-29&until=2026-03-29T00:00", []),
        ("since=2026-03-29+02:31&until=2026-03-29T02:31:01", [first + 1]),
        ("since=2026-03-29T04:31%2B02:00", [first + 2, first + 1]),
        ("since=2026-03-29T02:31:00.000001Z", [first + 2]),
    ]:
        rows = table(viewer.get(f"/acts/export?{query}"))
        assert [int(row["id"]) for row in rows] == fits, query


def test_a_file_has_all_that_fits_with_notes_and_seals(ledger):
    viewer, conn, _ = ledger
    sign(conn, 2_345)
    seals.seal(conn)
    pause_queue(conn, "mail", by="ops:bob", reason="outage", note='Two\nlines, "quoted".')
    answer = viewer.get("/acts/export")
    assert answer.headers["Content-Type"] == "text/csv; charset=utf-8"
    assert answer.headers["Content-Disposition"] == 'attachment; filename="acts.csv"'
    rows = table(answer)
    ids = [int(row["id"]) for row in rows]
    assert ids == sorted(set(ids), reverse=True)
    assert len(rows) == 2_345 + 4 + 1
    assert rows[0] | {"id": "", "at": ""} == {
        "id": "",
        "at": "",
        "by": "ops:bob",
        "act": "paused",
        "subject_kind": "queue",
        "subject_id": "",
        "subject_name": "mail",
        "attempt": "",
        "reason": "outage",
        "note": 'Two\nlines, "quoted".',
        "kill_after": "",
        "bulk_id": "",
        "via": "code",
        "seal": "not sealed yet",
    }
    assert rows[-1]["seal"] == "1"
    assert [row["subject_name"] for row in table(viewer.get("/acts/export?kind=queue"))] == ["mail"]
    assert table(viewer.get("/acts/export?by=ops:nobody")) == []


@pytest.mark.parametrize("first", "=+-@\t\r\n＝＋－＠")
def test_case_86_a_cell_that_a_spreadsheet_would_compute_gets_an_apostrophe(first):
    for text in (f"{first}cmd|' /C calc'!A0", f"  {first}1", first):
        assert harmless(text) == f"'{text}"


@pytest.mark.parametrize("text", ["", " ", "ops:alice", "a=b", "'=1", "12", "2026-11-29"])
def test_any_other_cell_stays_as_it_is(text):
    assert harmless(text) == text


def test_case_86_who_and_why_are_neutralised_in_the_file(ledger):
    viewer, conn, _ = ledger
    pause_queue(conn, "=queue", by="@who", reason="+why", note="-2+3", via="=code")
    (row,) = table(viewer.get("/acts/export?kind=queue"))
    told = [row[name] for name in ("subject_name", "by", "reason", "note", "via")]
    assert told == ["'=queue", "'@who", "'+why", "'-2+3", "'=code"]


def test_case_86_whatever_an_act_says_is_shown_and_never_taken_for_markup(ledger):
    viewer, conn, _ = ledger
    pause_queue(conn, MARK, by=MARK, reason=MARK, note=f"{NAUGHTY} </script >", via=MARK)
    newest_act = table(viewer.get("/acts/export?kind=queue"))[0]["id"]
    for path in ("/acts/", f"/acts/{newest_act}", "/acts/handover", "/acts/?by=%3Cimg%20src=x%3E"):
        page = viewer.get(path).text
        assert "<img" not in page
        assert "</script >" not in page
    assert "&lt;img src=x onerror" in viewer.get("/acts/").text


def test_a_handover_shows_the_shift_and_heads_to_keep(ledger):
    viewer, conn, owner = ledger
    old = sign(conn)[0]
    tamper(owner, f"UPDATE countersign.acts SET at = now() - interval '13 hours' WHERE id <= {old}")
    pause_queue(conn, "mail", by="ops:bob", reason="outage", note="Until they answer.\nCall at 6.")
    for _ in range(3):
        sign(conn)
        seals.seal(conn)
    page = viewer.get("/acts/handover").text
    assert "Until they answer.\nCall at 6." in page
    assert "Handed over by" in page
    assert "Only the newest" not in page
    assert f"act {old} " not in page
    for head in newest(conn):
        assert str(head.head) in page
    sign(conn, 510)
    assert "Only the newest 500 stand here" in viewer.get("/acts/handover").text


def test_a_handover_keeps_the_filters_it_came_with(ledger):
    viewer, conn, _ = ledger
    pause_queue(conn, "mail", by="ops:bob", reason="outage")
    pause_queue(conn, "stock", by="ops:alice", reason="outage")
    page = viewer.get("/acts/handover?by=ops:bob&since=2026-01-01").text
    assert "mail" in page
    assert "stock" not in page


def test_acts_of_one_bulk_are_a_click_apart(ledger, job_in):
    viewer, conn, _ = ledger
    bulk = uuid4()
    made = [job_in(conn, "failed").id for _ in range(3)]
    retry(conn, made, by="ops:bob", reason="deploy_error", bulk_id=bulk)
    cancel(conn, made[:1], by="ops:bob", reason="wrong_one")
    page = viewer.get(f"/acts/?bulk={bulk}")
    rows = table(viewer.get(f"/acts/export?bulk={bulk}"))
    assert len(rows) == 3
    assert all(on(page, row["id"]) for row in rows)
    assert f"/acts/?bulk={bulk}" in viewer.get(f"/acts/{rows[0]['id']}").text


def test_no_page_of_the_ledger_shows_an_argument(alice, scene):
    for path in ("/acts/", "/acts/1", "/acts/handover", "/acts/export"):
        assert CANARY not in alice.get(path).text
