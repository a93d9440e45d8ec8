"""The operator code is typed in full where a lost worker may still be at work on the job."""

import pytest

from queue_core import fleet
from queue_core.outcomes import Completed, Failed, RunReport
from queue_core.queries.unseen import unseen
from queue_core.transitions.claim import Claimable, claim
from queue_core.transitions.dispute import dispute
from queue_core.transitions.fail import fail
from queue_core.transitions.recover import recover
from tests.console.conftest import STALE
from tests.console.people import forms
from tests.console.test_chosen import act, choose, tick, words


@pytest.mark.parametrize("rule", ["stale", "no row"])
def test_a_release_beside_a_run_that_may_go_on_is_typed(alice, lost, stands, rule):
    job = lost(rule)
    page = alice.get(f"/jobs/{job}")
    assert "Attempt 1 may still be at work" in words(page)
    form = forms(page)[f"/jobs/{job}/release"]
    assert form["typed_code"] == ""
    assert "typed_code" not in forms(page)[f"/jobs/{job}/close"]
    answer = alice.act(job, "release", typed_code="ops:alice")
    assert answer.status_code == 303
    assert stands(job) == ("ready", ["released"])


@pytest.mark.parametrize("typed", ["", "ops:bob", "ops:alice ", "OPS:ALICE", "\0"])
def test_what_is_not_typed_is_refused_and_the_page_says_why(alice, lost, stands, typed):
    job = lost("stale")
    answer = alice.act(job, "release", typed_code=typed, note="as typed")
    assert answer.status_code == 400
    assert (
        "Type your own operator code in full, ops:alice: attempt 1 may still be at work, since "
        "nobody has seen its end." in words(answer)
    )
    again = forms(answer)[f"/jobs/{job}/release"]
    assert (again["typed_code"], again["reason"], again["note"]) == ("", "deploy_error", "as typed")
    assert stands(job) == ("needs_review", [])
    assert (
        alice.post(f"/jobs/{job}/release", {**again, "typed_code": "ops:alice"}).status_code == 303
    )


def test_a_form_from_before_that_leaves_it_out_is_refused_too(alice, lost, stands):
    job = lost("stale")
    form = {**alice.form(job, "release"), "reason": "customer_asked"}
    del form["typed_code"]
    assert alice.post(f"/jobs/{job}/release", form).status_code == 400
    assert stands(job) == ("needs_review", [])


def test_typed_by_somebody_else_the_page_says_whose_it_was(alice, lost, stands):
    job = lost("stale")
    answer = alice.act(job, "release", operator_code="ops:bob", typed_code="ops:alice")
    assert answer.status_code == 400
    assert "This page was opened by ops:bob; you are signed in as ops:alice" in words(answer)
    assert stands(job) == ("needs_review", [])


@pytest.mark.parametrize("rule", ["same_host", "gave_up", "stopped"])
def test_where_the_end_was_seen_nothing_is_typed(alice, lost, stands, rule):
    job = lost(rule)
    page = alice.get(f"/jobs/{job}")
    assert "may still be at work" not in words(page)
    assert "typed_code" not in forms(page)[f"/jobs/{job}/release"]
    assert alice.act(job, "release").status_code == 303
    assert stands(job) == ("ready", ["released"])


def test_a_crash_is_an_end_that_its_worker_saw(alice, job_in, books, stands):
    made = job_in(books, "running", on_lost="review")
    fail(books, made.worker, [made.report(Failed("crashed", outcome="crashed", signal=9))])
    assert stands(made.id)[0] == "needs_review"
    assert "typed_code" not in alice.form(made.id, "release")


def test_a_run_that_reported_after_all_is_at_work_no_more(alice, job_in, books, stands):
    made = job_in(books, "running", attempts=2)
    books.execute(STALE, ["stale", made.worker])
    recover(books, worker=made.worker)
    dispute(books, made.worker, [RunReport(made.id, 1, Completed())])
    assert stands(made.id)[0] == "needs_review"
    assert unseen(books, [made.id]) == {}
    assert "typed_code" not in alice.form(made.id, "release")


def test_a_newer_run_that_lost_its_claim_to_a_late_report_may_go_on(alice, job_in, books):
    made = job_in(books, "running", attempts=3)
    books.execute(STALE, ["stale", made.worker])
    recover(books, worker=made.worker)
    newer = fleet.register(books, fleet.Identity("pay-9", 1, "boot", "pid:[1]", "0", [], 1))
    names = [Claimable("mail.send", 3)]
    assert claim(books, worker=newer, names=names, queues=[made.queue], count=1)
    dispute(books, made.worker, [RunReport(made.id, 1, Completed())])
    (open_one,) = unseen(books, [made.id]).values()
    assert (open_one.attempt, open_one.worker) == (2, newer)
    page = alice.get(f"/jobs/{made.id}")
    assert "Attempt 2 may still be at work" in words(page)
    assert "pay-9" in words(page)


def test_of_chosen_jobs_one_is_enough_and_the_page_says_how_many(alice, lost, stands):
    dead, silent = lost("same_host"), lost("stale")
    values = [tick(dead, 1), tick(silent, 1)]
    page = choose(alice, "needs_review", values)
    assert "a run of them may still be at work" in words(page)
    form = forms(page)
    assert form["/jobs/chosen/release"]["typed_code"] == ""
    assert "typed_code" not in form["/jobs/chosen/confirm"]
    answer = act(alice, "release", "needs_review", values, typed_code="")
    assert answer.status_code == 400
    assert "Type your own operator code in full, ops:alice: a run of them may" in words(answer)
    assert [stands(job)[1] for job in (dead, silent)] == [[], []]
    assert act(alice, "release", "needs_review", values).status_code == 303
    assert [stands(job) for job in (dead, silent)] == [("ready", ["released"])] * 2


def test_of_chosen_jobs_whose_ends_were_all_seen_nothing_is_typed(alice, lost, stands):
    jobs = [lost("same_host"), lost("gave_up")]
    values = [tick(job, 1) for job in jobs]
    page = choose(alice, "needs_review", values)
    assert "typed_code" not in forms(page)["/jobs/chosen/release"]
    assert act(alice, "release", "needs_review", values).status_code == 303
    assert [stands(job)[0] for job in jobs] == ["ready", "ready"]


def test_only_jobs_in_review_are_looked_at(books, lost, job_in, alice):
    job = lost("stale")
    assert set(unseen(books, [job, job_in(books, "failed").id])) == {job}
    alice.act(job, "close")
    assert unseen(books, [job]) == {}


def test_what_was_typed_is_typed_again_after_a_sign_in(person, lost, stands):
    somebody, job = person("ops:bob"), lost("stale")
    form = {**somebody.form(job, "release"), "reason": "x", "typed_code": "ops:bob"}
    somebody.client.delete_cookie("countersign")
    kept = forms(somebody.post(f"/jobs/{job}/release", form))["/sign-in"]
    back = somebody.post(
        "/sign-in", {**kept, "code": "ops:bob", "password": "correct horse battery"}
    )
    again = forms(back)[f"/jobs/{job}/release"]
    assert (again["reason"], again["typed_code"]) == ("x", "")
    assert stands(job) == ("needs_review", [])
