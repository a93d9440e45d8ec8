"""Schedules: when they are due, and pausing, resuming and running one now, signed."""

import json
import re
import uuid
from datetime import UTC, datetime, timedelta

import pytest

from queue_core import pause_schedule, resume_schedule, run_schedule_now, tick_schedules
from queue_core.queries.acts import acts_on
from queue_core.queries.schedules import schedule
from queue_core.rules import Schedule
from tests.conftest import CANARY
from tests.console.people import forms
from tests.console.test_hostile import FORM, body, check, hostile
from tests.console.test_jobs import words


@pytest.fixture
def name(books):
    """Give a schedule of a test's own, due tomorrow, which has asked for nothing yet."""
    name = f"plan/{uuid.uuid4().hex[:8]} ?&#é"
    due = datetime.now(UTC) + timedelta(days=1)
    args = json.dumps({"address": CANARY})
    tick_schedules(books, [Schedule(name, 90.0, due, "mail.send", f"line-{name}", args)])
    return name


def signed(books, name):
    return [(row.act, row.by, row.reason) for row in acts_on(books, "schedule", name, limit=9)]


def show(person, name):
    return person.show("schedules", name)


def act(person, name, verb, **changed):
    return person.act_on("schedules", name, verb, **{"reason": "maintenance", **changed})


def test_schedules_are_listed_with_rule_last_job_and_last_skip(alice):
    page = words(alice.get("/schedules/"))
    assert re.search(
        r"stock-check (Active|Late) 15 min .* sync_stock checks Cancelled "
        r"\d+ (min|h) ago its last job was running",
        page,
    )
    assert re.search(
        r"nightly-report Paused .* ops:alice ?: provider_outage 1 day not while paused", page
    )
    assert "old-cleanup" not in page
    assert "old-cleanup Archived" in words(alice.get("/schedules/?archived=yes"))


def test_an_operator_pauses_and_resumes_one_and_signs_both(alice, books, name):
    answer = act(alice, name, "pause", note="Until noon.")
    assert answer.status_code == 303
    paused = schedule(books, name)
    assert paused
    assert paused.paused_at
    page = alice.get(answer.headers["Location"])
    assert "Paused: it asks for nothing until it is resumed." in words(page)
    assert "By ops:alice, reason maintenance," in words(page)
    assert "/schedules/pause" not in page.text
    assert act(alice, name, "resume", reason="needed_again").status_code == 303
    resumed = schedule(books, name)
    assert resumed
    assert resumed.paused_at is None
    assert signed(books, name) == [
        ("resumed", "ops:alice", "needed_again"),
        ("paused", "ops:alice", "maintenance"),
    ]


def test_running_one_now_asks_for_its_job_once(alice, books, name):
    answer = act(alice, name, "run_now", reason="missed_its_time")
    assert answer.status_code == 303
    found = schedule(books, name)
    assert found
    assert found.last_state == "ready"
    page = alice.get(answer.headers["Location"])
    assert "Asked for: its job stands in its queue." in words(page)
    assert f"/jobs/{found.last_job}" in page.text
    assert "/schedules/run-now" not in page.text
    assert "its last job has not ended, and jobs of a schedule do not stack" in words(page)
    assert signed(books, name) == [("run_now", "ops:alice", "missed_its_time")]


def test_it_is_not_run_twice_by_two_who_press_at_once(alice, books, name):
    form = {**forms(show(alice, name))["/schedules/run-now"], "reason": "missed_its_time"}
    run_schedule_now(books, name, by="ops:bob", reason="data_mended")
    answer = alice.post("/schedules/run-now", form)
    assert answer.status_code == 409
    assert "Nothing was done: its last job has not run yet" in words(answer)
    assert "The last act on it: ops:bob had it run" in words(answer)
    assert "You had typed as the reason missed_its_time" in words(answer)
    assert signed(books, name) == [("run_now", "ops:bob", "data_mended")]


def test_a_pause_that_was_not_seen_is_not_undone(alice, books, name):
    pause_schedule(books, name, by="ops:alice", reason="deploy")
    form = {**forms(show(alice, name))["/schedules/resume"], "reason": "mended"}
    resume_schedule(books, name, by="ops:bob", reason="mended")
    pause_schedule(books, name, by="ops:bob", reason="provider_outage")
    answer = alice.post("/schedules/resume", form)
    assert answer.status_code == 409
    assert "somebody else has acted on this schedule since you opened it" in words(answer)
    assert len(signed(books, name)) == 3


@pytest.mark.parametrize(
    ("verb", "before", "sentence"),
    [
        ("pause", "pause", "it is paused already"),
        ("resume", "resume", "it is not paused"),
        ("run_now", "archive", "it is archived, since no code has it any more"),
    ],
)
def test_what_does_not_apply_any_more_is_said(alice, books, name, verb, before, sentence):
    if before == "resume":
        pause_schedule(books, name, by="ops:bob", reason="deploy")
    address = "/schedules/" + verb.replace("_", "-")
    form = {**forms(show(alice, name))[address], "reason": "maintenance"}
    match before:
        case "pause":
            pause_schedule(books, name, by="ops:bob", reason="deploy")
        case "resume":
            resume_schedule(books, name, by="ops:bob", reason="deploy")
        case _:
            books.execute(
                "UPDATE countersign.schedules SET archived_at = now() WHERE name = %s", [name]
            )
    answer = alice.post(address, form)
    assert answer.status_code == 409
    assert f"Nothing was done: {sentence}" in words(answer)


def test_an_archived_one_cannot_be_run_now(alice):
    page = show(alice, "old-cleanup")
    assert "/schedules/run-now" not in page.text
    assert "Archived: no code has it any more" in words(page)
    assert "Next due not while archived" in words(page)


def test_a_late_one_says_who_is_missing(alice, books, name):
    books.execute(
        "UPDATE countersign.schedules SET due_at = now() - interval '7 min' WHERE name = %s", [name]
    )
    page = words(show(alice, name))
    assert "Late: nobody has asked for its job" in page
    assert "A worker whose code has this schedule has to run" in page


def test_the_last_jobs_error_is_for_operators(alice, viola, books, name):
    made = run_schedule_now(books, name, by="ops:bob", reason="data_mended")
    books.execute("DELETE FROM countersign.ready WHERE id = %s", [made.id])
    books.execute(
        "INSERT INTO countersign.ended (id, state, attempt, error) VALUES (%s, 'failed', 1, %s)",
        [made.id, "ValueError: no such thing"],
    )
    assert "ValueError: no such thing" in words(show(alice, name))
    assert "ValueError" not in show(viola, name).text
    assert "Errors are shown to operators and admins." in words(show(viola, name))


def test_a_viewer_looks_on(viola, alice, books, name):
    page = show(viola, name)
    assert "/schedules/pause" not in page.text
    for verb in ("pause", "run-now"):
        form = {**forms(show(alice, name))[f"/schedules/{verb}"], "reason": "deploy"}
        form |= {"operator_code": "ops:viola", "csrf_token": viola.token()}
        assert viola.post(f"/schedules/{verb}", form).status_code == 403
    assert signed(books, name) == []


def test_a_wrong_reason_is_said_at_its_form_alone(alice, books, name):
    answer = act(alice, name, "run_now", reason="", note="why")
    assert answer.status_code == 400
    found = forms(answer)
    assert found["/schedules/run-now"]["note"] == "why"
    assert found["/schedules/pause"]["note"] == ""
    assert '<details class="choice" name="decision" id="run_now" open>' in answer.text
    assert signed(books, name) == []


def test_what_was_typed_survives_a_sign_in_in_between(person, books, name):
    somebody = person("ops:bob")
    form = {**forms(show(somebody, name))["/schedules/run-now"], "reason": "data_mended"}
    somebody.client.delete_cookie("countersign")
    fields = forms(somebody.post("/schedules/run-now", form))["/sign-in"]
    page = somebody.post(
        "/sign-in", {**fields, "code": "ops:bob", "password": "correct horse battery"}
    )
    kept = forms(page)["/schedules/run-now"]
    assert (kept["reason"], kept["name"]) == ("data_mended", name)
    assert signed(books, name) == []
    assert somebody.post("/schedules/run-now", kept).status_code == 303


@pytest.mark.parametrize("name", ["", "never-was", "x" * 201, "a\0b"], ids=ascii)
def test_a_schedule_that_never_was_has_no_page(alice, name):
    assert show(alice, name).status_code == 404


@pytest.mark.no_cover  # what is walked through here has tests of its own
@hostile
def test_whatever_is_sent_in_any_field(alice, books, name, value):
    form = {**forms(show(alice, name))["/schedules/pause"], "reason": "deploy"}
    for field in ("name", "operator_code", "reason", "note", "seen_act", "next"):
        sent = body({**form, field: value})
        answer = alice.post("/schedules/pause", sent, content_type=FORM)
        check(answer)
        if answer.status_code == 303:
            resume_schedule(books, name, by="ops:bob", reason="mended")
            form = {**forms(show(alice, name))["/schedules/pause"], "reason": "deploy"}


def test_there_may_be_no_more_of_them(alice):
    assert "There are no schedules this far" in words(alice.get("/schedules/?after=zzzz"))
    assert alice.get("/schedules/?after=a&before=b").status_code == 400
    assert alice.get("/schedules/?after=a%00").status_code == 400
