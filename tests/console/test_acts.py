"""The five acts from the job's page: 303, 400, 403, 404, 409, and one commit."""

import threading
import uuid

import pytest

from queue_core import cancel, retry
from queue_core.queries import acts, places
from queue_core.states import ACT_VERBS
from tests.conftest import CANARY
from tests.console.people import Person, forms
from tests.console.test_jobs import words

WAYS = [
    ("cancel", "ready", "cancelled", "cancelled"),
    ("cancel", "waiting", "cancelled", "cancelled"),
    ("cancel", "due", "cancelled", "cancelled"),
    ("cancel", "blocked", "cancelled", "cancelled"),
    ("cancel", "running", "running", "cancel_requested"),
    ("retry", "failed", "ready", "retried"),
    ("release", "needs_review", "ready", "released"),
    ("confirm", "needs_review", "completed", "confirmed"),
    ("close", "needs_review", "cancelled", "closed"),
]


@pytest.mark.parametrize(("verb", "place", "after", "act"), WAYS)
def test_an_act_is_done_and_signed(alice, job_at, stands, books, verb, place, after, act):
    job = job_at(place)
    answer = alice.act(job, verb, reason="customer_asked", note=" They rang.\r\nTwice. ")
    assert (answer.status_code, answer.headers["Location"]) == (303, f"/jobs/{job}")
    assert stands(job) == (after, [act])
    (row,) = acts.acts_of(books, job)
    assert (row.by, row.reason, row.note) == ("ops:alice", "customer_asked", "They rang.\nTwice.")
    via, _, session = row.via.partition(":")
    assert via == "console"
    assert uuid.UUID(session)
    page = alice.get(f"/jobs/{job}").text
    assert f'href="/acts/{row.id}">Act {row.id} in the ledger' in page
    assert f'id="act-{row.id}"' in page
    assert "in the ledger" not in alice.get(f"/jobs/{job}").text


def test_a_cancelled_job_can_be_retried(alice, job_at, stands):
    job = job_at("cancelled")
    assert alice.act(job, "retry").status_code == 303
    assert stands(job) == ("ready", ["cancelled", "retried"])


def test_it_goes_back_to_the_filtered_list_it_came_from(alice, job_at):
    job = job_at("failed")
    there = "/jobs/?state=failed&queue=mail"
    assert alice.act(job, "retry", next=there).headers["Location"] == there


@pytest.mark.parametrize(
    "there", ["//evil.example", "https://evil.example/", "/\\evil.example", "x" * 3_000]
)
def test_it_never_goes_back_to_another_host(alice, job_at, there):
    job = job_at("failed")
    assert alice.act(job, "retry", next=there).headers["Location"] == f"/jobs/{job}"


WRONG = [
    ({"reason": ""}, "Give a reason"),
    ({"reason": "   "}, "Give a reason"),
    ({"reason": "x" * 201}, "Give a reason"),
    ({"reason": "a\nb"}, "Give a reason"),
    ({"reason": "a\0b"}, "Give a reason"),
    ({"reason": "\u202eevil"}, "Give a reason"),
    ({"reason": "\u200b"}, "Give a reason"),
    ({"note": "x" * 2_001}, "A note is at most 2,000"),
    ({"note": "a\0b"}, "A note is at most 2,000"),
    (
        {"operator_code": "ops:bob"},
        "This page was opened by ops:bob; you are signed in as ops:alice",
    ),
    ({"operator_code": ""}, "opened without an operator code; you are signed in as ops:alice"),
    ({"operator_code": "ops:alice "}, "you are signed in as ops:alice"),
    ({"seen_state": ""}, "without the state"),
    ({"seen_state": "done"}, "without the state"),
    ({"seen_attempt": ""}, "without the state"),
    ({"seen_attempt": "-1"}, "without the state"),
    ({"seen_attempt": "1.0"}, "without the state"),
    ({"seen_attempt": "٣"}, "without the state"),
    ({"seen_attempt": "99999999999999999999"}, "without the state"),
]


@pytest.mark.parametrize(("changed", "sentence"), WRONG, ids=lambda value: str(value)[:60])
def test_a_wrong_field_is_said_at_the_field_and_what_was_typed_stays(
    alice, job_at, stands, changed, sentence
):
    job = job_at("failed")
    typed = {"reason": "provider_outage", "note": "Two lines\nof note."}
    answer = alice.act(job, "retry", **{**typed, **changed})
    assert answer.status_code == 400
    assert sentence in answer.text
    assert "Nothing was done" in answer.text
    form = forms(answer)[f"/jobs/{job}/retry"]
    kept = {key: changed.get(key, text).strip(" ") for key, text in typed.items()}
    assert {key: form[key].replace("\r\n", "\n") for key in kept} == kept
    assert form["operator_code"] == "ops:alice"
    assert stands(job) == ("failed", [])


@pytest.mark.parametrize("missing", ["operator_code", "reason", "seen_state", "seen_attempt"])
def test_a_missing_field_is_a_wrong_one(alice, job_at, stands, missing):
    job = job_at("failed")
    form = {**alice.form(job, "retry"), "reason": "deploy_error"}
    del form[missing]
    assert alice.post(f"/jobs/{job}/retry", form).status_code == 400
    assert stands(job) == ("failed", [])


def test_the_form_works_again_after_a_wrong_field(alice, job_at, stands):
    job = job_at("failed")
    form = forms(alice.act(job, "retry", reason=""))[f"/jobs/{job}/retry"]
    assert alice.post(f"/jobs/{job}/retry", {**form, "reason": "deploy_error"}).status_code == 303
    assert stands(job) == ("ready", ["retried"])


@pytest.mark.parametrize("verb", ACT_VERBS)
def test_a_job_that_never_was_is_not_found(alice, job_at, verb):
    form = {**alice.form(job_at("failed"), "retry"), "reason": "deploy_error"}
    assert alice.post(f"/jobs/{uuid.uuid4()}/{verb}", form).status_code == 404


@pytest.mark.parametrize(
    ("verb", "place"),
    [
        ("retry", "ready"),
        ("retry", "running"),
        ("retry", "completed"),
        ("retry", "needs_review"),
        ("release", "failed"),
        ("release", "ready"),
        ("confirm", "failed"),
        ("confirm", "running"),
        ("close", "completed"),
        ("close", "ready"),
        ("cancel", "completed"),
        ("cancel", "failed"),
        ("cancel", "cancelled"),
        ("cancel", "needs_review"),
    ],
)
def test_an_act_that_the_state_does_not_allow_is_refused_in_a_sentence(
    alice, job_at, stands, verb, place
):
    job, other = job_at(place), job_at("failed")
    before = stands(job)
    form = {**alice.form(other, "retry"), "reason": "deploy_error", "note": "as typed"}
    attempt = "0" if place in {"ready", "cancelled"} else "1"
    answer = alice.post(
        f"/jobs/{job}/{verb}", {**form, "seen_state": place, "seen_attempt": attempt}
    )
    assert answer.status_code == 409
    assert "Nothing was done" in answer.text
    assert "deploy_error" in answer.text
    assert "as typed" in answer.text
    assert stands(job) == before


def test_a_job_that_moved_on_is_left_alone_and_the_page_says_what_changed(
    alice, books, job_at, stands
):
    job = job_at("failed")
    form = {**alice.form(job, "retry"), "reason": "deploy_error", "note": "as typed"}
    retry(books, [job], by="ops:bob", reason="provider_outage", via="console:1")
    answer = alice.post(f"/jobs/{job}/retry", form)
    assert answer.status_code == 409
    for sentence in (
        "the job has moved on",
        "You saw it failed after attempt 1.",
        "It is ready after attempt 1 now.",
        "ops:bob",
        "provider_outage",
        "deploy_error",
        "as typed",
    ):
        assert sentence in answer.text
    assert forms(answer)[f"/jobs/{job}/cancel"]["reason"] == ""
    assert stands(job) == ("ready", ["retried"])


def test_a_job_that_failed_again_meanwhile_keeps_what_was_typed_in_its_form(
    alice, books, shop, job_at, stands
):
    job = job_at("failed")
    form = {**alice.form(job, "retry"), "reason": "deploy_error", "note": "as typed"}
    with shop.owner() as owner:
        owner.execute("UPDATE countersign.ended SET attempt = 2 WHERE id = %s", [job])
    answer = alice.post(f"/jobs/{job}/retry", form)
    assert answer.status_code == 409
    again = forms(answer)[f"/jobs/{job}/retry"]
    assert (again["reason"], again["note"], again["seen_attempt"]) == (
        "deploy_error",
        "as typed",
        "2",
    )
    assert alice.post(f"/jobs/{job}/retry", again).status_code == 303
    assert stands(job) == ("ready", ["retried"])


def test_a_second_request_to_stop_says_who_asked_already(alice, books, job_at, stands):
    job = job_at("running")
    form = {**alice.form(job, "cancel"), "reason": "takes_too_long"}
    cancel(books, [job], by="ops:bob", reason="customer_asked", via="console:1")
    answer = alice.post(f"/jobs/{job}/cancel", form)
    assert answer.status_code == 409
    assert "asked to stop already" in answer.text
    assert "ops:bob" in answer.text
    assert "Cancel: kill it if it does not stop" in words(answer)  # the one thing left to ask
    assert stands(job) == ("running", ["cancel_requested"])


def test_a_run_that_was_asked_and_goes_on_can_be_killed_by_one_more_request(
    app, alice, books, job_at
):
    job = job_at("running")
    cancel(books, [job], by="ops:bob", reason="customer_asked", via="console:1")
    page = words(alice.get(f"/jobs/{job}"))
    assert "Its process is killed if it has not stopped 30 s after its worker hears of this" in page
    assert "it may then have run in part" in page
    assert alice.form(job, "cancel")["kill_after"] == "30"
    assert alice.act(job, "cancel").status_code == 303
    assert [(row.by, row.kill_after) for row in acts.acts_of(books, job)] == [
        ("ops:bob", None),
        ("ops:alice", 30),
    ]
    page = alice.get(f"/jobs/{job}")
    assert "Asked to stop by ops:bob" in words(page)
    assert "ops:alice asked again" in words(page)
    assert "it is killed if it has not ended 30 s after it was told of that" in words(page)
    assert f'/jobs/{job}/cancel"' not in page.text


def test_of_a_run_that_is_to_be_killed_nothing_more_is_asked(alice, books, job_at, stands):
    job = job_at("running")
    form = {**alice.form(job, "cancel"), "reason": "takes_too_long", "kill_after": "9"}
    cancel(books, [job], by="ops:bob", reason="customer_asked", via="console:1", kill_after=60)
    answer = alice.post(f"/jobs/{job}/cancel", form)
    assert answer.status_code == 409
    assert "asked to stop already" in answer.text
    assert "It is killed if it has not ended 60 s after it was told." in words(answer)
    assert f'/jobs/{job}/cancel"' not in answer.text
    assert stands(job) == ("running", ["cancel_requested"])


def test_a_run_may_be_killed_if_whoever_asks_it_to_stop_says_so(alice, books, job_at):
    job = job_at("running")
    page = words(alice.get(f"/jobs/{job}"))
    assert "Kill it if it has not stopped after 30 s: it may then have run in part" in page
    assert "kill_after" not in alice.form(job, "cancel")  # nobody has to untick it
    assert alice.act(job, "cancel", kill_after="30").status_code == 303
    (row,) = acts.acts_of(books, job)
    assert (row.act, row.kill_after) == ("cancel_requested", 30)
    assert "It is killed if it has not ended 30 s after it was told." in words(
        alice.get(f"/jobs/{job}")
    )
    assert "30 s, if it goes on for so long" in words(alice.get(f"/acts/{row.id}"))
    assert "kill after 30 s" in words(alice.get("/acts/"))


def test_without_a_word_of_it_nothing_is_killed(alice, books, job_at):
    job = job_at("running")
    assert alice.act(job, "cancel").status_code == 303
    (row,) = acts.acts_of(books, job)
    assert (row.act, row.kill_after) == ("cancel_requested", None)
    assert "Nothing was killed: it ends when its code does." in words(alice.get(f"/jobs/{job}"))


@pytest.mark.parametrize("seconds", ["0", "-1", "86401", "30.0", "soon", "٣٠", "9" * 30])
def test_seconds_that_cannot_be_are_told_at_their_box(alice, job_at, stands, seconds):
    job = job_at("running")
    answer = alice.act(job, "cancel", kill_after=seconds)
    assert answer.status_code == 400
    assert "1 to 86,400 seconds" in answer.text
    assert stands(job) == ("running", [])


def test_of_a_queued_job_nothing_can_be_killed(alice, job_at):
    page = alice.get(f"/jobs/{job_at('ready')}").text
    assert "kill_after" not in page


def test_two_operators_on_one_job_at_once_are_one_act_and_one_sentence(app, job_at, stands):
    job = job_at("failed")
    people = [Person(app, code) for code in ("ops:alice", "ops:bob")]
    sent = [{**each.form(job, "retry"), "reason": "deploy_error"} for each in people]
    gate, answers = threading.Barrier(2), []

    def press(somebody, form):
        gate.wait()
        answers.append(somebody.post(f"/jobs/{job}/retry", form))

    threads = [threading.Thread(target=press, args=pair) for pair in zip(people, sent, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    done, refused = sorted(answers, key=lambda answer: answer.status_code)
    assert (done.status_code, refused.status_code) == (303, 409)
    assert "the job has moved on" in refused.text
    assert stands(job) == ("ready", ["retried"])


def test_a_job_that_somebody_is_changing_right_now_is_a_refusal_too(alice, shop, job_at, stands):
    job = job_at("failed")
    form = {**alice.form(job, "retry"), "reason": "deploy_error"}
    with shop.owner(autocommit=False) as holder:
        holder.execute("SELECT FROM countersign.ended WHERE id = %s FOR UPDATE", [job])
        answer = alice.post(f"/jobs/{job}/retry", form)
        holder.rollback()
    assert answer.status_code == 409
    assert "somebody else is changing this job" in answer.text
    assert forms(answer)[f"/jobs/{job}/retry"]["reason"] == "deploy_error"
    assert stands(job) == ("failed", [])


BREAK = """
CREATE FUNCTION public.break_ledger() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    {what};
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER a_break_ledger AFTER INSERT ON countersign.acts
    {when} FOR EACH ROW EXECUTE FUNCTION public.break_ledger()
"""
ACTS = [
    ("cancel", "ready"),
    ("cancel", "running"),
    ("retry", "failed"),
    ("release", "needs_review"),
    ("confirm", "needs_review"),
    ("close", "needs_review"),
    ("assign", "failed"),
    ("note", "needs_review"),
    ("reveal", "failed"),
]
BREAKS = {
    "raises at once": ("RAISE EXCEPTION 'no'", "NOT DEFERRABLE"),
    "raises at the commit": ("RAISE EXCEPTION 'no'", "DEFERRABLE INITIALLY DEFERRED"),
    "is killed at once": ("PERFORM pg_terminate_backend(pg_backend_pid())", "NOT DEFERRABLE"),
    "is killed at the commit": (
        "PERFORM pg_terminate_backend(pg_backend_pid()); PERFORM pg_sleep(1)",
        "DEFERRABLE INITIALLY DEFERRED",
    ),
}


@pytest.fixture
def break_ledger(shop):
    """Give a function that breaks the ledger of the shop in a way, until the test ends."""
    with shop.owner() as owner:
        yield lambda how: owner.execute(
            BREAK.format(what=BREAKS[how][0], when=BREAKS[how][1]).encode()
        )
        owner.execute("DROP FUNCTION public.break_ledger CASCADE")


@pytest.mark.parametrize("how", BREAKS)
@pytest.mark.parametrize(("verb", "place"), ACTS)
def test_a_ledger_that_breaks_leaves_neither_change_nor_act(
    alice, job_at, books, break_ledger, verb, place, how
):
    job = job_at(place)
    form = {**alice.form(job, verb), "reason": "deploy_error", "note": "as typed"}
    break_ledger(how)
    answer = alice.post(f"/jobs/{job}/{verb}", form)
    assert answer.status_code == 503
    assert CANARY not in answer.text
    assert "deploy_error" in answer.text
    assert ("It is not known" in answer.text) == (how == "is killed at the commit")
    assert ("Nothing was done" in answer.text or "nothing was done" in answer.text) == (
        how != "is killed at the commit"
    )
    stands = places.locate(books, [job])[job]
    assert (stands.state, stands.stop_requested_at) == (place, None)
    assert acts.acts_of(books, job) == []
