"""Queues: how they stand, and pausing and resuming one, signed."""

import re
import uuid

import pytest

from queue_core import enqueue, pause_queue, resume_queue
from queue_core.queries.acts import acts_on
from queue_core.queries.queues import queue
from tests.conftest import CANARY
from tests.console.people import forms
from tests.console.test_hostile import FORM, body, check, hostile
from tests.console.test_jobs import words


@pytest.fixture
def name(books, registry):
    """Give a queue of a test's own with a job in it."""
    name = f"line/{uuid.uuid4().hex[:8]} ?&#é"
    enqueue(books, "mail.send", {"address": CANARY}, queue=name)
    return name


def signed(books, name):
    return [(row.act, row.by, row.reason) for row in acts_on(books, "queue", name, limit=9)]


def show(person, name):
    return person.show("queues", name)


def act(person, name, verb, **changed):
    return person.act_on("queues", name, verb, **{"reason": "deploy", **changed})


def test_queues_are_listed_with_their_sizes_and_who_paused_one(alice, books, name):
    pause_queue(books, name, by="ops:bob", reason="provider_outage")
    page = words(alice.get("/queues/"))
    assert re.search(r"mail Open 4 \d+ min 0 0 0 \S+", page)
    shown = re.escape(name.replace("&", "&amp;"))
    assert re.search(shown + r" Paused 1 .{1,11} 0 0 0 0 .{3,7} ops:bob ?: provider_outage", page)


def test_an_operator_pauses_and_resumes_one_and_signs_both(alice, books, name):
    answer = act(alice, name, "pause", note=" They rang.\r\nTwice. ")
    assert answer.status_code == 303
    assert queue(books, name).paused_at
    page = alice.get(answer.headers["Location"])
    assert "Paused: workers take nothing from it." in words(page)
    assert "By ops:alice, reason deploy," in words(page)
    assert "/queues/pause" not in page.text
    assert "They rang." in page.text
    assert act(alice, name, "resume", reason="mended").status_code == 303
    assert queue(books, name).paused_at is None
    assert signed(books, name) == [
        ("resumed", "ops:alice", "mended"),
        ("paused", "ops:alice", "deploy"),
    ]


def test_the_flash_leads_to_the_ledgers_entry(alice, books, name):
    page = alice.get(act(alice, name, "pause").headers["Location"]).text
    (row,) = acts_on(books, "queue", name, limit=9)
    assert f'href="/acts/{row.id}">Act {row.id} in the ledger' in page
    assert row.via.startswith("console:")


def test_a_viewer_looks_on(viola, alice, books, name):
    page = show(viola, name)
    assert "/queues/pause" not in page.text
    assert "Your role, viewer, looks on" in words(page)
    form = forms(show(alice, name))["/queues/pause"]
    form |= {"operator_code": "ops:viola", "reason": "deploy", "csrf_token": viola.token()}
    assert viola.post("/queues/pause", form).status_code == 403
    assert signed(books, name) == []


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        ("reason", "", "Give a reason of 1 to 200 characters"),
        ("reason", "x" * 201, "Give a reason of 1 to 200 characters"),
        ("note", "x" * 2_001, "A note is at most 2,000 characters"),
        ("operator_code", "ops:bob", "This page was opened by ops:bob; you are signed in as"),
        ("seen_act", "", "The form came without what it was opened for"),
        ("seen_act", "-1", "The form came without what it was opened for"),
    ],
)
def test_a_wrong_field_is_said_and_what_was_typed_stays(alice, books, name, field, value, sentence):
    answer = act(alice, name, "pause", **{"note": "why", field: value})
    assert answer.status_code == 400
    assert sentence in words(answer)
    assert signed(books, name) == []
    if field != "note":
        assert forms(answer)["/queues/pause"]["note"] == "why"


def test_who_comes_second_is_told_who_was_first(alice, books, name):
    form = {**forms(show(alice, name))["/queues/pause"], "reason": "deploy"}
    pause_queue(books, name, by="ops:bob", reason="provider_outage")
    answer = alice.post("/queues/pause", form)
    assert answer.status_code == 409
    told = words(answer)
    assert "Nothing was done: it is so already" in told
    assert "ops:bob paused it , reason provider_outage" in told.replace("it,", "it ,")
    assert "You had typed as the reason deploy" in told
    assert signed(books, name) == [("paused", "ops:bob", "provider_outage")]


def test_a_pause_that_was_not_seen_is_not_undone(alice, books, name):
    """Paused, seen, resumed, and paused again by somebody else for a reason of their own."""
    pause_queue(books, name, by="ops:alice", reason="deploy")
    form = {**forms(show(alice, name))["/queues/resume"], "reason": "mended"}
    resume_queue(books, name, by="ops:bob", reason="mended")
    pause_queue(books, name, by="ops:bob", reason="provider_outage")
    answer = alice.post("/queues/resume", form)
    assert answer.status_code == 409
    assert "somebody else has acted on this queue since you opened it" in words(answer)
    assert queue(books, name).paused_at
    assert [row[1] for row in signed(books, name)] == ["ops:bob", "ops:bob", "ops:alice"]
    again = {**forms(answer)["/queues/resume"], "reason": "mended"}
    assert alice.post("/queues/resume", again).status_code == 303


def test_what_was_typed_survives_a_sign_in_in_between(person, books, name):
    somebody = person("ops:bob")
    form = {**forms(show(somebody, name))["/queues/pause"], "reason": "deploy", "note": "At two."}
    somebody.client.delete_cookie("countersign")
    answer = somebody.post("/queues/pause", form)
    assert answer.status_code == 401
    fields = forms(answer)["/sign-in"]
    assert fields["kept"]
    page = somebody.post(
        "/sign-in", {**fields, "code": "ops:bob", "password": "correct horse battery"}
    )
    assert page.status_code == 200
    assert "Nothing was done yet" in words(page)
    kept = forms(page)["/queues/pause"]
    assert (kept["reason"], kept["note"], kept["name"]) == ("deploy", "At two.", name)
    assert signed(books, name) == []
    assert somebody.post("/queues/pause", kept).status_code == 303


def test_a_form_of_an_earlier_session_is_shown_again(alice, person, books, name):
    form = {**forms(show(alice, name))["/queues/pause"], "reason": "deploy"}
    answer = person("ops:bob").post("/queues/pause", form)
    assert answer.status_code == 400
    assert "opened before you signed in again" in words(answer)
    assert "opened by ops:alice; you are signed in as ops:bob" in words(answer)
    assert signed(books, name) == []


@pytest.mark.parametrize("name", ["", " ", "x" * 201, "a\0b", "a\nb", "\u202eabc"], ids=ascii)
def test_what_cannot_be_a_name_has_no_page(alice, name):
    assert show(alice, name).status_code == 404


def test_a_queue_that_no_job_names_holds_nothing_and_can_be_paused_ahead(alice, books):
    name = f"new-{uuid.uuid4().hex[:8]}"
    page = words(show(alice, name))
    assert "none is ready" in page
    assert "Nobody has done anything to this queue" in page
    assert act(alice, name, "pause").status_code == 303
    assert queue(books, name).paused_at


@pytest.mark.no_cover  # what is walked through here has tests of its own
@hostile
def test_whatever_is_sent_in_any_field(alice, books, name, value):
    form = {**forms(show(alice, name))["/queues/pause"], "reason": "deploy"}
    for field in ("name", "operator_code", "reason", "note", "seen_act", "next"):
        sent = body({**form, field: value})
        answer = alice.post("/queues/pause", sent, content_type=FORM)
        check(answer)
        if answer.status_code == 303 and field != "name":
            assert answer.headers["Location"].startswith("/queues/show?name=")
            resume_queue(books, name, by="ops:bob", reason="mended")
            form = {**forms(show(alice, name))["/queues/pause"], "reason": "deploy"}


def test_a_long_history_is_cut_and_leads_to_the_ledger(alice, books, name):
    for _ in range(11):
        pause_queue(books, name, by="ops:bob", reason="deploy")
        resume_queue(books, name, by="ops:bob", reason="mended")
    page = show(alice, name)
    assert page.text.count('<li class="entry') == 20
    assert "All acts on it, in the ledger" in words(page)
