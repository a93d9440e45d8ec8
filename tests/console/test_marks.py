"""Taking a job on, noting what was found, revealing its arguments: signed, and nothing moves."""

import json
import re
from typing import Any

import pytest

from console.database import DatabaseAwayError
from queue_core import release
from queue_core.jobs import MAX_ARGS_BYTES
from queue_core.queries import acts, arguments
from queue_core.states import MARKS
from tests.conftest import CANARY
from tests.console.people import forms

SIGNED: dict[str, Any] = {"by": "ops:bob", "reason": "on_call"}


def words(page):
    """The words of a page, as a reader sees them."""
    return " ".join(re.sub("<[^>]+>", " ", page.text.partition("<main")[2]).split())


@pytest.mark.parametrize("place", ["needs_review", "failed"])
def test_a_job_is_taken_and_its_page_and_the_list_say_by_whom(alice, job_at, stands, place):
    job = job_at(place)
    assert "Nobody looks after it" in words(alice.get(f"/jobs/{job}"))
    answer = alice.act(job, "assign", reason="on_call", next="/review/?list=needs_review")
    assert (answer.status_code, answer.headers["Location"]) == (303, "/review/?list=needs_review")
    assert "Assigned: you look after it." in words(alice.get("/"))
    assert stands(job) == (place, ["assigned"])
    page = words(alice.get(f"/jobs/{job}"))
    assert "ops:alice looks after it" in page
    assert "on_call" in page


def test_whoever_takes_it_last_looks_after_it(alice, person, job_at, stands):
    job = job_at("needs_review")
    alice.act(job, "assign")
    person("ops:bob").act(job, "assign", reason="handed_over")
    assert "ops:bob looks after it" in words(alice.get(f"/jobs/{job}"))
    assert stands(job) == ("needs_review", ["assigned", "assigned"])


def test_a_note_stands_beside_the_job_until_it_runs_again(alice, books, job_at, stands):
    job = job_at("needs_review")
    for text in ("Asked them.", "They say it went through.\nBy hand."):
        assert alice.act(job, "note", reason="asked_the_provider", note=text).status_code == 303
    page = alice.get(f"/jobs/{job}")
    assert "They say it went through. By hand. Noted by ops:alice" in words(page)
    assert stands(job) == ("needs_review", ["noted", "noted"])
    release(books, [job], **SIGNED)
    after = words(alice.get(f"/jobs/{job}"))
    assert "Noted by" not in after.partition("What people did")[0]
    assert "They say it went through." in after.partition("What people did")[2]


@pytest.mark.parametrize("note", ["", "  \n ", "x" * 2_001, "a\0b"])
def test_a_note_has_to_say_something(alice, job_at, stands, note):
    job = job_at("failed")
    answer = alice.act(job, "note", note=note)
    assert answer.status_code == 400
    assert 'id="note-note-fault"' in answer.text
    assert forms(answer)[f"/jobs/{job}/note"]["reason"] == "deploy_error"
    assert stands(job) == ("failed", [])


@pytest.mark.parametrize("verb", MARKS)
@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"reason": ""}, "Give a reason"),
        ({"reason": "\u202eevil"}, "Give a reason"),
        ({"operator_code": "ops:bob"}, "This page was opened by ops:bob"),
        ({"seen_state": ""}, "without the state"),
        ({"seen_attempt": "x"}, "without the state"),
    ],
    ids=str,
)
def test_a_wrong_field_is_said_at_its_field(alice, job_at, stands, verb, changed, sentence):
    job = job_at("failed")
    answer = alice.act(job, verb, **{"note": "as typed", **changed})
    assert answer.status_code == 400
    assert sentence in answer.text
    assert CANARY not in answer.text
    assert forms(answer)[f"/jobs/{job}/{verb}"]["note"] == "as typed"
    assert stands(job) == ("failed", [])


@pytest.mark.parametrize("verb", MARKS)
def test_a_job_that_moved_on_is_left_alone(alice, books, job_at, stands, verb):
    job = job_at("needs_review")
    form = {**alice.form(job, verb), "reason": "on_call", "note": "as typed"}
    release(books, [job], **SIGNED)
    answer = alice.post(f"/jobs/{job}/{verb}", form)
    assert answer.status_code == 409
    assert "the job has moved on" in answer.text
    assert "as typed" in answer.text
    assert CANARY not in answer.text
    assert stands(job) == ("ready", ["released"])


@pytest.mark.parametrize("verb", ["assign", "note"])
@pytest.mark.parametrize("place", ["ready", "running", "completed", "cancelled"])
def test_what_does_not_wait_for_a_person_is_neither_taken_nor_noted(
    alice, job_at, stands, verb, place
):
    job = job_at(place)
    before = stands(job)
    assert f"/jobs/{job}/{verb}" not in alice.get(f"/jobs/{job}?form={verb}").text
    form = {**alice.form(job, "reveal"), "reason": "on_call", "note": "x"}
    answer = alice.post(f"/jobs/{job}/{verb}", form)
    assert answer.status_code == 409
    assert "from where it stands" in answer.text
    assert stands(job) == before


@pytest.mark.parametrize("verb", MARKS)
def test_a_viewer_is_offered_none_of_it_and_allowed_none(viola, alice, job_at, stands, verb):
    job = job_at("needs_review")
    assert f"/jobs/{job}/{verb}" not in viola.get(f"/jobs/{job}?form={verb}").text
    form = {**alice.form(job, verb), "operator_code": "ops:viola", "reason": "x", "note": "x"}
    answer = viola.post(f"/jobs/{job}/{verb}", {**form, "csrf_token": viola.token()})
    assert answer.status_code == 403
    assert CANARY not in answer.text
    assert stands(job) == ("needs_review", [])


@pytest.mark.parametrize("place", ["ready", "running", "needs_review", "completed", "failed"])
def test_arguments_are_shown_once_by_the_answer_to_a_signed_form(
    alice, books, job_at, stands, place
):
    job = job_at(place)
    assert CANARY not in alice.get(f"/jobs/{job}?form=reveal").text
    answer = alice.act(job, "reveal", reason="looking_for_the_cause", note="Just the address.")
    assert answer.status_code == 200
    assert answer.headers["Cache-Control"] == "no-store"
    assert CANARY in answer.text
    assert stands(job) == (place, ["revealed"])
    (row,) = acts.acts_of(books, job)
    assert (row.by, row.reason) == ("ops:alice", "looking_for_the_cause")
    assert f"Act {row.id} says that they were shown to you" in words(answer)
    for path in (f"/jobs/{job}", f"/jobs/{job}?form=reveal", f"/acts/{row.id}", "/acts/"):
        assert CANARY not in alice.get(path).text


def test_arguments_are_not_read_before_the_act_is_committed(alice, shop, job_at, monkeypatch):
    job = job_at("failed")
    real, committed = arguments.revealed, []

    def look(conn, job_id, act_id):
        with shop.owner() as other:
            query = "SELECT act FROM countersign.acts WHERE id = %s"
            committed.append(other.execute(query, [act_id]).fetchone())
        return real(conn, job_id, act_id)

    monkeypatch.setattr(arguments, "revealed", look)
    alice.act(job, "reveal")
    assert committed == [{"act": "revealed"}]


def test_what_looks_secret_stays_masked_and_the_rest_cannot_be_taken_for_markup(
    alice, shop, job_at
):
    job = job_at("failed")
    args = {
        "order": "<img src=x onerror=alert(1)> </pre>\u202e",
        "auth": {"x": "hunter2"},
        "list": [{"db_password": "hunter2", "url": "https://bob:hunter2@example.org"}],
    }
    with shop.owner() as owner:
        owner.execute(
            "UPDATE countersign.jobs SET args = %s::jsonb WHERE id = %s", [json.dumps(args), job]
        )
    page = alice.act(job, "reveal").text
    assert "hunter2" not in page
    assert page.count("(masked)") == 3
    assert "&lt;img src=x onerror=alert(1)&gt; &lt;/pre&gt;⟨U+202E⟩" in page


def test_arguments_that_cannot_be_read_are_not_shown(alice, shop, job_at):
    job = job_at("failed")
    with shop.owner() as owner:
        owner.execute("UPDATE countersign.jobs SET args = '[\"hunter2\"]' WHERE id = %s", [job])
    page = alice.act(job, "reveal")
    assert page.status_code == 200
    assert "They cannot be read as JSON here" in words(page)
    assert "hunter2" not in page.text


def test_the_largest_arguments_are_shown_whole(alice, shop, job_at):
    job = job_at("failed")
    with shop.owner() as owner:
        owner.execute(
            "UPDATE countersign.jobs SET args = jsonb_build_object('x', repeat('y', %s))"
            " WHERE id = %s",
            [MAX_ARGS_BYTES - 20, job],
        )
    assert "y" * (MAX_ARGS_BYTES - 20) in alice.act(job, "reveal").text


def test_a_job_whose_body_is_gone_has_nothing_to_reveal(alice, shop, job_at, stands):
    job = job_at("needs_review")
    form = {**alice.form(job, "reveal"), "reason": "on_call"}
    with shop.owner() as owner:
        owner.execute("DELETE FROM countersign.jobs WHERE id = %s", [job])
    assert "Arguments" not in words(alice.get(f"/jobs/{job}?form=reveal"))
    assert alice.post(f"/jobs/{job}/reveal", form).status_code == 404
    assert stands(job) == ("needs_review", [])


@pytest.mark.parametrize("gone", [DatabaseAwayError("x")], ids=str)
def test_where_nothing_can_be_shown_any_more_the_page_says_that_the_act_stands(
    alice, job_at, stands, monkeypatch, gone
):
    def away(*_):
        raise gone

    job = job_at("failed")
    form = {**alice.form(job, "reveal"), "reason": "on_call"}
    monkeypatch.setattr(arguments, "revealed", away)
    answer = alice.post(f"/jobs/{job}/reveal", form)
    assert answer.status_code == 503
    assert "Signed, but not shown" in answer.text
    assert "nothing was done" not in answer.text.lower()
    assert stands(job) == ("failed", ["revealed"])


def test_a_connection_that_dies_between_the_act_and_the_reading_shows_nothing(
    alice, shop, job_at, stands, monkeypatch
):
    job = job_at("failed")
    form, real = {**alice.form(job, "reveal"), "reason": "on_call"}, arguments.revealed

    def dies(conn, *asked):
        with shop.owner() as owner:
            owner.execute("SELECT pg_terminate_backend(%s, 10000)", [conn.info.backend_pid])
        return real(conn, *asked)

    monkeypatch.setattr(arguments, "revealed", dies)
    answer = alice.post(f"/jobs/{job}/reveal", form)
    assert answer.status_code == 503
    assert "Signed, but not shown" in answer.text
    assert CANARY not in answer.text
    assert stands(job) == ("failed", ["revealed"])


@pytest.mark.parametrize("verb", MARKS)
def test_what_was_typed_outlives_a_session_that_ended(person, job_at, stands, verb):
    somebody, job = person("ops:bob"), job_at("failed")
    form = {**somebody.form(job, verb), "reason": "on_call", "note": "as typed"}
    somebody.client.delete_cookie("countersign")
    kept = forms(somebody.post(f"/jobs/{job}/{verb}", form))["/sign-in"]
    assert stands(job) == ("failed", [])
    back = somebody.post(
        "/sign-in", {**kept, "code": "ops:bob", "password": "correct horse battery"}
    )
    assert back.status_code == 200
    assert CANARY not in back.text
    again = forms(back)[f"/jobs/{job}/{verb}"]
    assert (again["reason"], again["note"]) == ("on_call", "as typed")
    assert stands(job) == ("failed", [])
