"""A double click: the same signed form twice, at once or after each other, is one act."""

import threading
import time

import pytest

from queue_core.queries import acts
from tests.console.people import Person, forms
from tests.console.test_acts import WAYS
from tests.console.test_jobs import words
from tests.console.test_operators import SECRET, add, fields, office, one, signed

__all__ = ["office"]
SAID = "It was done already, by the same form: nothing was done twice."


def twice_at_once(app, somebody, path, form):
    """Send a form from two tabs of one browser at the same time; return both answers."""
    tabs = [somebody, Person(app)]
    tabs[1].client.set_cookie("countersign", somebody.cookie())
    gate, answers = threading.Barrier(2), []

    def press(tab):
        gate.wait()
        answers.append(tab.post(path, form))

    threads = [threading.Thread(target=press, args=[tab]) for tab in tabs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


@pytest.mark.parametrize(("verb", "place", "after", "act"), WAYS)
def test_two_presses_at_once_are_one_act_and_both_lead_on(
    app, person, job_at, stands, verb, place, after, act
):
    alice, job = person("ops:alice"), job_at(place)
    form = {**alice.form(job, verb), "reason": "customer_asked", "note": " They rang.\r\nTwice. "}
    answers = twice_at_once(app, alice, f"/jobs/{job}/{verb}", form)
    assert [(each.status_code, each.headers["Location"]) for each in answers] == [
        (303, f"/jobs/{job}")
    ] * 2
    assert stands(job) == (after, [act])


def test_a_press_that_kills_is_not_the_one_before_that_did_not(alice, job_at, stands):
    job = job_at("running")
    form = {**alice.form(job, "cancel"), "reason": "takes_too_long"}
    killing = {**form, "kill_after": "30"}
    for sent, said in ((form, False), (killing, False), (killing, True)):
        assert alice.post(f"/jobs/{job}/cancel", sent).status_code == 303
        assert (SAID in words(alice.get(f"/jobs/{job}"))) == said
    answer = alice.post(f"/jobs/{job}/cancel", {**form, "kill_after": "60"})
    assert (answer.status_code, SAID in words(answer)) == (409, False)
    assert stands(job) == ("running", ["cancel_requested", "cancel_requested"])


@pytest.mark.parametrize(("verb", "act"), [("assign", "assigned"), ("note", "noted")])
@pytest.mark.parametrize("place", ["needs_review", "failed"])
def test_a_note_sent_twice_at_once_is_one_note(app, person, job_at, stands, verb, act, place):
    alice, job = person("ops:alice"), job_at(place)
    form = {**alice.form(job, verb), "reason": "on_call", "note": "Asked them."}
    answers = twice_at_once(app, alice, f"/jobs/{job}/{verb}", form)
    assert [each.status_code for each in answers] == [303, 303]
    assert stands(job) == (place, [act])


def test_the_next_page_says_so_and_which_act_it_was(alice, books, job_at):
    job = job_at("failed")
    form = {**alice.form(job, "retry"), "reason": "deploy_error"}
    alice.post(f"/jobs/{job}/retry", form)
    alice.get(f"/jobs/{job}")
    alice.post(f"/jobs/{job}/retry", form)
    page = alice.get(f"/jobs/{job}")
    (act,) = acts.acts_of(books, job)
    assert SAID in page.text
    assert f'href="/acts/{act.id}">Act {act.id} in the ledger' in page.text
    assert SAID not in alice.get(f"/jobs/{job}").text


@pytest.mark.parametrize(
    "changed", [{"reason": "another"}, {"note": "another"}, {"seen_attempt": "0"}], ids=str
)
def test_another_form_is_no_second_press(alice, job_at, stands, changed):
    job = job_at("failed")
    form = {**alice.form(job, "retry"), "reason": "deploy_error"}
    alice.post(f"/jobs/{job}/retry", form)
    answer = alice.post(f"/jobs/{job}/retry", {**form, **changed})
    assert answer.status_code == 409
    assert stands(job) == ("ready", ["retried"])


def test_what_somebody_else_did_is_no_press_of_ones_own(alice, person, job_at):
    job = job_at("failed")
    form = {**alice.form(job, "retry"), "reason": "deploy_error"}
    person("ops:bob").act(job, "retry")
    assert alice.post(f"/jobs/{job}/retry", form).status_code == 409


def test_what_others_did_since_is_told_instead(alice, person, job_at):
    job = job_at("failed")
    form = {**alice.form(job, "retry"), "reason": "deploy_error"}
    alice.post(f"/jobs/{job}/retry", form)
    person("ops:bob").act(job, "cancel")
    answer = alice.post(f"/jobs/{job}/retry", form)
    assert answer.status_code == 409
    assert "ops:bob" in answer.text


def test_whoever_takes_a_job_back_takes_it_though_they_had_it_before(alice, person, job_at, stands):
    job = job_at("failed")
    for somebody in (alice, person("ops:bob"), alice):
        assert somebody.act(job, "assign", reason="on_call").status_code == 303
    assert stands(job) == ("failed", ["assigned"] * 3)


def test_a_job_cancelled_in_between_is_retried_again_at_the_same_attempt(alice, job_at, stands):
    job = job_at("failed")
    for verb in ("retry", "cancel", "retry"):
        assert alice.act(job, verb).status_code == 303
    assert stands(job) == ("ready", ["retried", "cancelled", "retried"])


def test_who_looks_at_arguments_twice_signs_twice(app, person, job_at, stands):
    alice, job = person("ops:alice"), job_at("failed")
    form = {**alice.form(job, "reveal"), "reason": "looking_for_the_cause"}
    answers = twice_at_once(app, alice, f"/jobs/{job}/reveal", form)
    assert [each.status_code for each in answers] == [200, 200]
    assert stands(job) == ("failed", ["revealed", "revealed"])


def test_a_queue_is_paused_once(app, person, books):
    alice = person("ops:alice")
    name = f"line-{time.monotonic_ns()}"
    form = forms(alice.get(f"/queues/show?name={name}"))["/queues/pause"]
    answers = twice_at_once(app, alice, "/queues/pause", {**form, "reason": "deploy"})
    assert [each.status_code for each in answers] == [303, 303]
    assert [act.act for act in acts.acts_on(books, "queue", name, limit=9)] == ["paused"]
    again = alice.post("/queues/pause", {**form, "reason": "another"})
    assert again.status_code == 409


def test_a_schedule_is_run_now_once(app, person, books):
    alice = person("ops:alice")
    before = len(acts.acts_on(books, "schedule", "stock-check", limit=99))
    form = forms(alice.get("/schedules/show?name=stock-check"))["/schedules/pause"]
    answers = twice_at_once(app, alice, "/schedules/pause", {**form, "reason": "maintenance"})
    assert [each.status_code for each in answers] == [303, 303]
    assert len(acts.acts_on(books, "schedule", "stock-check", limit=99)) == before + 1
    form = forms(alice.get("/schedules/show?name=stock-check"))["/schedules/resume"]
    alice.post("/schedules/resume", {**form, "reason": "needed_again"})


def test_who_was_added_twice_is_told_where_the_password_went(office):
    app, root, conn = office
    form = fields(root, "/operators/", "/operators/add", code="ops:carol", role="operator")
    answers = twice_at_once(app, root, "/operators/add", form)
    first, second = sorted(answers, key=lambda answer: answer.status_code)
    assert (first.status_code, second.status_code) == (200, 409)
    assert SECRET.findall(first.text)
    assert "They were added already: this form was sent twice" in second.text
    assert "reset the password" in second.text
    assert [act[1] for act in signed(conn, "ops:carol")] == ["added"]
    assert "codes are never reused" in add(root, "ops:carol", reason="another").text


def test_a_password_is_reset_once_and_again_only_from_a_page_opened_since(office):
    app, root, conn = office
    page, path = "/operators/one?code=ops:bob", "/operators/reset"
    form = fields(root, page, path)
    answers = twice_at_once(app, root, path, form)
    first, second = sorted(answers, key=lambda answer: answer.status_code)
    assert (first.status_code, second.status_code) == (200, 409)
    (password,) = SECRET.findall(first.text)
    assert not SECRET.search(second.text)
    assert "It was reset already: this form was sent twice" in second.text
    assert Person(app).sign_in("ops:bob", password).status_code == 303
    assert root.post(path, form).status_code == 409
    assert root.post(path, forms(second)[path]).status_code == 200  # its page shows the first
    assert root.post(path, {**form, "reason": "another"}).status_code == 200
    assert [act[1] for act in signed(conn, "ops:bob")][:-1] == ["password_reset"] * 3


@pytest.mark.parametrize("sent", ["", "-1", "x"])
def test_a_reset_that_does_not_say_what_was_seen_is_none(office, sent):
    _, root, conn = office
    form = fields(root, "/operators/one?code=ops:bob", "/operators/reset", seen_act=sent)
    answer = root.post("/operators/reset", form)
    assert answer.status_code == 400
    assert "The form came without what it was opened for" in answer.text
    assert [act[1] for act in signed(conn, "ops:bob")] == ["added"]


@pytest.mark.parametrize(
    ("verb", "changed", "act"),
    [("change_role", {"role": "viewer"}, "role_changed"), ("disable", {}, "disabled")],
)
def test_what_is_done_to_an_operator_twice_is_one_act(office, verb, changed, act):
    app, root, conn = office
    path = {"change_role": "/operators/role"}.get(verb, f"/operators/{verb}")
    form = fields(root, "/operators/one?code=ops:bob", path, **changed)
    answers = twice_at_once(app, root, path, form)
    assert [each.status_code for each in answers] == [303, 303]
    assert [each[1] for each in signed(conn, "ops:bob")][:-1] == [act]


@pytest.mark.parametrize("verbs", [("disable", "disable"), ("change_role", "disable")], ids=str)
def test_of_two_admins_who_turn_on_each_other_at_once_one_stays(office, verbs):
    app, root, conn = office
    one(root, "ops:bob", "change_role", role="admin")
    bob, gate, answers = Person(app, "ops:bob"), threading.Barrier(2), []
    sent = []
    for somebody, code, verb in ((root, "ops:bob", verbs[0]), (bob, "ops:root", verbs[1])):
        path = {"change_role": "/operators/role"}.get(verb, f"/operators/{verb}")
        form = fields(somebody, f"/operators/one?code={code}", path)
        sent.append((somebody, path, {**form, "role": "viewer"}))

    def press(somebody, path, form):
        gate.wait()
        answers.append(somebody.post(path, form).status_code)

    threads = [threading.Thread(target=press, args=each) for each in sent]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    done, refused = sorted(answers)
    assert done == 303
    assert refused in {401, 403, 409}
    query = "SELECT code FROM countersign.operators WHERE role = 'admin' AND disabled_at IS NULL"
    assert len(conn.execute(query).fetchall()) == 1
