"""Many jobs at once: chosen in a list, looked at, signed once, and told what came of each."""

import re
import threading
import uuid

import pytest

from console import selection
from console.forms.chosen import TYPED_ABOVE
from queue_core import NewJob, cancel, clear_queue, enqueue_many, retry
from queue_core.acts import MOST_JOBS
from queue_core.queries import acts, bulks
from queue_core.states import STATES, legal_verbs
from tests.console.people import Person, forms
from tests.console.scenes import PASSWORD
from tests.console.test_hostile import FORM, VALUES, body, check

WAYS = [
    ("cancel", "ready", "ready", "cancelled", "cancelled"),
    ("cancel", "due", "ready", "cancelled", "cancelled"),
    ("cancel", "waiting", "waiting", "cancelled", "cancelled"),
    ("cancel", "blocked", "blocked", "cancelled", "cancelled"),
    ("cancel", "running", "running", "running", "cancel_requested"),
    ("retry", "failed", "failed", "ready", "retried"),
    ("retry", "cancelled", "cancelled", "ready", "retried"),
    ("release", "needs_review", "needs_review", "ready", "released"),
    ("confirm", "needs_review", "needs_review", "completed", "confirmed"),
    ("close", "needs_review", "needs_review", "cancelled", "closed"),
]


def ticks(page):
    """The values of a list's checkboxes, and whether each is ticked."""
    found = re.findall(r'name="job"\s+id="tick-[^"]+"\s+value="([^"]+)"\s*(checked)?', page.text)
    return {value: bool(checked) for value, checked in found}


def tick(job, attempt):
    return f"{job.hex}.{attempt}"


def choose(person, state, values, **more):
    """Send a list's form with these boxes ticked."""
    fields = {"seen_state": state, "csrf_token": person.token(), "job": values, **more}
    return person.post("/jobs/chosen/", fields)


def act(person, verb, state, values, **changed):
    """Choose jobs, give a reason, change these fields, and press the button."""
    form = forms(choose(person, state, values))[f"/jobs/chosen/{verb}"]
    fields = {**form, "reason": "deploy_error", **changed}
    if "typed_code" in form:
        fields["typed_code"] = changed.get("typed_code", form["operator_code"])
    return person.post(f"/jobs/chosen/{verb}", fields)


def words(page):
    """The words of a page, as a reader sees them."""
    text = re.sub("<[^>]+>", " ", page.text.partition("<main")[2])
    return re.sub(r" ([,.:])", r"\1", " ".join(text.split()))


@pytest.mark.parametrize(("verb", "place", "state", "after", "done"), WAYS)
def test_an_act_on_chosen_jobs_is_one_commit_under_one_id(
    alice, books, job_at, stands, verb, place, state, after, done
):
    jobs = [job_at(place) for _ in range(3)]
    attempt = 0 if place in {"ready", "due", "waiting", "blocked", "cancelled"} else 1
    values = [tick(job, attempt) for job in jobs]
    answer = act(alice, verb, state, values, reason="customer_asked", note=" They rang. ")
    assert answer.status_code == 303, answer.text
    rows = [acts.acts_of(books, job)[-1] for job in jobs]
    assert [stands(job)[0] for job in jobs] == [after] * 3
    assert {(row.by, row.act, row.reason, row.note) for row in rows} == {
        ("ops:alice", done, "customer_asked", "They rang.")
    }
    (bulk,) = {row.bulk_id for row in rows}
    assert answer.headers["Location"] == f"/jobs/chosen/{bulk}"
    page = alice.get(answer.headers["Location"])
    assert page.status_code == 200
    assert "Done: 3" in words(page)
    assert "customer_asked" in words(page)
    assert all(f"/jobs/{job}" in page.text for job in jobs)


def test_what_came_of_it_can_be_looked_at_again_and_again_and_nothing_is_repeated(
    alice, viola, job_at, stands
):
    jobs = [job_at("failed") for _ in range(2)]
    there = act(alice, "retry", "failed", [tick(job, 1) for job in jobs]).headers["Location"]
    for somebody in (alice, alice, viola):
        page = somebody.get(there)
        assert page.status_code == 200
        assert "2 jobs queued for one more attempt" in words(page)
        assert "Ready 2" in words(page)
    assert [stands(job) for job in jobs] == [("ready", ["retried"])] * 2
    without = alice.get(there.partition("?")[0])
    assert "Done: 2" in words(without)


def test_a_job_that_moved_on_is_left_alone_and_told_of_and_the_others_are_done(
    alice, books, job_at, stands
):
    done, again, gone, asked = (job_at("failed") for _ in range(4))
    form = forms(choose(alice, "failed", [tick(job, 1) for job in (done, again, gone, asked)]))
    form = {**form["/jobs/chosen/retry"], "reason": "provider_outage"}
    retry(books, [again], by="ops:bob", reason="deploy_error", via="console:1")
    form["jobs"] += f" {uuid.uuid4().hex}.1 {job_at('completed').hex}.1"
    answer = alice.post("/jobs/chosen/retry", form)
    assert answer.status_code == 303
    page = alice.get(answer.headers["Location"])
    for sentence in (
        "3 jobs queued for one more attempt",
        "3 left alone",
        "It had moved on: it was ready after attempt 1.",
        "There is no such job, or it was deleted by retention.",
        "It had moved on: it was completed after attempt 1.",
    ):
        assert sentence in words(page)
    assert stands(again) == ("ready", ["retried"])
    assert stands(done) == ("ready", ["retried"])
    assert words(alice.get(answer.headers["Location"])) == words(page)


def test_a_job_that_failed_again_meanwhile_is_another_one(alice, shop, job_at, stands):
    job, other = job_at("failed"), job_at("failed")
    form = forms(choose(alice, "failed", [tick(job, 1), tick(other, 1)]))["/jobs/chosen/retry"]
    with shop.owner() as owner:
        owner.execute("UPDATE countersign.ended SET attempt = 2 WHERE id = %s", [job])
    looked = choose(alice, "failed", [tick(job, 1), tick(other, 1)])
    assert "1 of them has moved on since the list was opened" in words(looked)
    page = alice.get(alice.post("/jobs/chosen/retry", {**form, "reason": "x"}).headers["Location"])
    assert "It had moved on: it was failed after attempt 2." in words(page)
    assert stands(job) == ("failed", [])
    assert stands(other) == ("ready", ["retried"])


def test_where_every_job_is_refused_nothing_is_done_and_the_answer_says_so(
    alice, books, job_at, stands
):
    jobs = [job_at("running") for _ in range(2)]
    form = forms(choose(alice, "running", [tick(job, 1) for job in jobs]))["/jobs/chosen/cancel"]
    cancel(books, jobs, by="ops:bob", reason="customer_asked", via="console:1")
    answer = alice.post("/jobs/chosen/cancel", {**form, "reason": "takes_too_long"})
    assert answer.status_code == 409
    assert "Nothing was done" in words(answer)
    assert words(answer).count("It had been asked to stop already.") == 2
    assert [stands(job)[1] for job in jobs] == [["cancel_requested"]] * 2


def test_pressing_twice_does_it_once(alice, job_at, stands):
    job = job_at("failed")
    form = forms(choose(alice, "failed", [tick(job, 1)]))["/jobs/chosen/retry"]
    form["reason"] = "deploy_error"
    first = alice.post("/jobs/chosen/retry", form)
    again = alice.post("/jobs/chosen/retry", form)
    assert (first.status_code, again.status_code) == (303, 303)
    assert again.headers["Location"] == first.headers["Location"]
    page = words(alice.get(again.headers["Location"]))
    assert "It was done already, by the same form: nothing was done twice." in page
    assert "1 job queued for one more attempt" in page
    assert stands(job) == ("ready", ["retried"])
    other = alice.post("/jobs/chosen/retry", {**form, "reason": "another"})
    assert other.status_code == 409
    assert "It had moved on: it was ready after attempt 1." in words(other)


def test_two_operators_at_once_share_the_jobs_between_them(app, job_at, stands):
    jobs = [job_at("failed") for _ in range(12)]
    people = [Person(app, code) for code in ("ops:alice", "ops:bob")]
    values = [tick(job, 1) for job in jobs]
    sent = [forms(choose(each, "failed", values))["/jobs/chosen/retry"] for each in people]
    gate, answers = threading.Barrier(2), []

    def press(somebody, form):
        gate.wait()
        answers.append(somebody.post("/jobs/chosen/retry", {**form, "reason": "deploy_error"}))

    threads = [threading.Thread(target=press, args=pair) for pair in zip(people, sent, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {answer.status_code for answer in answers} <= {303, 409}
    assert all(stands(job) == ("ready", ["retried"]) for job in jobs)


def many(books, number):
    """So many jobs that are ready, in a queue of their own."""
    queue = f"line-{uuid.uuid4().hex[:12]}"
    jobs = enqueue_many(books, [NewJob("mail.send", queue=queue)] * number)
    return queue, [job.id for job in jobs]


def test_a_thousand_are_done_at_once_and_one_more_is_too_many(alice, books, registry):
    queue, jobs = many(books, MOST_JOBS + 1)
    page = alice.get(f"/jobs/?state=ready&queue={queue}&rows=1000&tick=all")
    values = list(ticks(page))
    assert len(values) == 1_000
    assert set(ticks(page).values()) == {True}
    answer = act(alice, "cancel", "ready", values)
    assert answer.status_code == 303
    page = alice.get(answer.headers["Location"])
    assert "1,000 jobs cancelled" in words(page)
    assert "Done: 1,000" in words(page)
    answer = choose(alice, "ready", [tick(job, 0) for job in jobs])
    assert answer.status_code == 400
    assert "Choose 1 to 1,000 jobs" in words(answer)
    assert forms(answer).keys() == {"/sign-out"}


def test_more_refusals_than_an_address_holds_are_told_at_once(alice, books, registry):
    _, jobs = many(books, selection.MOST_IN_ADDRESS + 3)
    cancel(books, jobs[1:], by="ops:bob", reason="duplicate", via="console:1")
    values = [tick(job, 0) for job in jobs]
    answer = act(alice, "cancel", "ready", values)
    assert answer.status_code == 409
    assert words(answer).count("It had moved on: it was cancelled") == len(jobs) - 1
    assert "1 job cancelled" in words(answer)
    own = re.search(r'href="(/jobs/chosen/[^"]+)">This page’s own address', answer.text)
    assert own
    assert "Done: 1" in words(alice.get(own[1].replace("&amp;", "&")))
    _, jobs = many(books, selection.MOST_IN_ADDRESS + 1)
    cancel(books, jobs[1:], by="ops:bob", reason="duplicate", via="console:1")
    answer = act(alice, "cancel", "ready", [tick(job, 0) for job in jobs])
    assert answer.status_code == 303
    assert len(answer.headers["Location"]) < 3_500
    assert "60 left alone" in words(alice.get(answer.headers["Location"]))


@pytest.mark.parametrize(
    ("typed", "status"), [("", 400), ("ops:bob", 400), ("ops:alice ", 400), ("ops:alice", 303)]
)
def test_above_a_hundred_the_code_is_typed_in_full(alice, books, registry, typed, status):
    assert TYPED_ABOVE == 100
    _, jobs = many(books, TYPED_ABOVE + 1)
    values = [tick(job, 0) for job in jobs]
    page = choose(alice, "ready", values)
    assert 'name="typed_code"' in page.text
    assert 'value="ops:alice"' not in page.text.partition('name="typed_code"')[2][:200]
    answer = act(alice, "cancel", "ready", values, typed_code=typed)
    assert answer.status_code == status
    if status == 400:
        assert (
            "Type your own operator code in full, ops:alice: this is for more than 100 jobs."
            in words(answer)
        )
        assert forms(answer)["/jobs/chosen/cancel"]["reason"] == "deploy_error"
        assert acts.acts_of(books, jobs[0]) == []
    assert 'name="typed_code"' not in choose(alice, "ready", values[:TYPED_ABOVE]).text


WRONG = [
    ({"reason": ""}, "Give a reason"),
    ({"reason": "a\0b"}, "Give a reason"),
    ({"note": "x" * 2_001}, "A note is at most 2,000"),
    ({"operator_code": "ops:bob"}, "This page was opened by ops:bob; you are signed in as"),
    ({"seen_state": ""}, "That cannot be done to jobs in this state"),
    ({"seen_state": "completed"}, "That cannot be done to jobs in this state"),
    ({"seen_state": "needs_review"}, "That cannot be done to jobs in this state"),
    ({"jobs": ""}, "No job was chosen"),
    ({"jobs": "x"}, "Choose 1 to 1,000 jobs"),
    ({"jobs": f"{'0' * 32}.1 {'0' * 32}.-1"}, "Choose 1 to 1,000 jobs"),
    ({"jobs": f"{'0' * 32}.9999999999"}, "Choose 1 to 1,000 jobs"),
    ({"jobs": f"{'٣' * 32}.1"}, "Choose 1 to 1,000 jobs"),
]


@pytest.mark.parametrize(("changed", "sentence"), WRONG, ids=lambda value: str(value)[:60])
def test_a_wrong_field_is_said_and_what_was_typed_stays(alice, job_at, stands, changed, sentence):
    job = job_at("failed")
    typed = {"reason": "provider_outage", "note": "Two lines\nof note."}
    answer = act(alice, "retry", "failed", [tick(job, 1)], **{**typed, **changed})
    assert answer.status_code == 400
    assert sentence in words(answer)
    assert "Nothing was done" in words(answer)
    if "reason" not in changed:
        assert "provider_outage" in answer.text
    if changed.keys() & {"reason", "note", "operator_code"}:
        form = forms(answer)["/jobs/chosen/retry"]
        assert form["jobs"] == tick(job, 1)
        answer = alice.post("/jobs/chosen/retry", {**form, "reason": "x", "note": ""})
        assert answer.status_code == 303
    else:
        assert stands(job) == ("failed", [])


def test_nothing_chosen_is_said_with_the_way_back(alice):
    answer = choose(alice, "failed", [], next="/jobs/?state=failed&queue=mail")
    assert answer.status_code == 400
    assert "No job was chosen" in words(answer)
    assert 'href="/jobs/?state=failed&amp;queue=mail">Back to the list' in answer.text


@pytest.mark.parametrize("state", STATES)
def test_just_what_the_state_allows_is_offered_and_the_server_refuses_the_rest(
    alice, job_at, stands, state
):
    job = job_at(state)
    before = stands(job)
    offered = legal_verbs(state)
    page = alice.get(f"/jobs/?state={state}")
    assert bool(ticks(page)) == bool(offered)
    answer = choose(alice, state, [tick(job, 0 if state in {"ready", "cancelled"} else 1)])
    shown = {path.rpartition("/")[2] for path in forms(answer) if "chosen" in path}
    assert shown == set(offered)
    assert answer.status_code == (200 if offered else 400)
    fields = {"operator_code": "ops:alice", "typed_code": "ops:alice", "reason": "x"}
    fields |= {"csrf_token": alice.token(), "jobs": tick(job, 1), "seen_state": state}
    for verb in {"cancel", "retry", "release", "confirm", "close"} - set(offered):
        assert alice.post(f"/jobs/chosen/{verb}", fields).status_code == 400
    assert stands(job) == before


def test_a_job_that_no_act_applies_to_has_no_box(alice, books, shop, job_at):
    stopping, gone, whole = job_at("running"), job_at("failed"), job_at("failed")
    cancel(books, [stopping], by="ops:bob", reason="customer_asked", via="console:1")
    lost = job_at("needs_review")
    with shop.owner() as owner:
        owner.execute("DELETE FROM countersign.jobs WHERE id = ANY(%s)", [[gone, lost]])
    boxes = {
        uuid.UUID(hex=value[:32])
        for state in ("running", "failed", "needs_review")
        for value in ticks(alice.get(f"/jobs/?state={state}&rows=1000"))
    }
    assert {whole, lost} <= boxes
    assert not {stopping, gone} & boxes


def test_a_list_is_ticked_as_a_whole_and_unticked_again(alice, viola):
    path = "/jobs/?state=failed&queue=mail"
    page = alice.get(path)
    assert set(ticks(page).values()) == {False}
    (there,) = re.findall(r'href="([^"]+tick=all[^"]*)"', page.text)
    page = alice.get(there.replace("&amp;", "&"))
    assert set(ticks(page).values()) == {True}
    assert f'href="{path.replace("&", "&amp;")}">Untick all' in page.text
    assert ticks(viola.get(path)) == {}
    assert "chosen" not in viola.get(path).text
    completed = alice.get("/jobs/?state=completed")
    assert ticks(completed) == {}
    assert "Tick all" not in completed.text


def test_each_box_has_a_label_of_its_own(alice):
    page = alice.get("/jobs/?state=failed").text
    boxes = re.findall(r'id="(tick-[^"]+)"', page)
    assert boxes
    for box in boxes:
        assert re.search(rf'<label class="aside" for="{box}">Choose \S+', page)


def test_a_job_that_somebody_is_changing_right_now_stops_them_all(alice, shop, job_at, stands):
    jobs = [job_at("failed") for _ in range(2)]
    values = [tick(job, 1) for job in jobs]
    form = forms(choose(alice, "failed", values))["/jobs/chosen/retry"]
    with shop.owner(autocommit=False) as holder:
        holder.execute("SELECT FROM countersign.ended WHERE id = %s FOR UPDATE", [jobs[0]])
        answer = alice.post("/jobs/chosen/retry", {**form, "reason": "deploy_error"})
        holder.rollback()
    assert answer.status_code == 409
    assert "somebody else is changing some of these jobs" in words(answer)
    assert forms(answer)["/jobs/chosen/retry"]["reason"] == "deploy_error"
    assert [stands(job) for job in jobs] == [("failed", [])] * 2


def test_a_session_that_ended_meanwhile_costs_neither_the_choice_nor_what_was_typed(
    app, job_at, stands
):
    bob, job, other = Person(app, "ops:bob"), job_at("failed"), job_at("failed")
    values = [tick(job, 1), tick(other, 1)]
    form = forms(choose(bob, "failed", values))["/jobs/chosen/retry"]
    form |= {"reason": "provider_outage", "note": "as typed"}
    bob.post("/sign-out", {"csrf_token": form["csrf_token"]})
    answer = bob.post("/jobs/chosen/retry", form)
    assert answer.status_code == 401
    assert stands(job) == ("failed", [])
    signing = forms(answer)["/sign-in"]
    page = bob.post("/sign-in", {**signing, "code": "ops:bob", "password": PASSWORD})
    assert page.status_code == 200
    again = forms(page)["/jobs/chosen/retry"]
    assert (again["reason"], again["note"], again["jobs"]) == (
        "provider_outage",
        "as typed",
        " ".join(values),
    )
    assert bob.post("/jobs/chosen/retry", again).status_code == 303
    assert stands(job) == stands(other) == ("ready", ["retried"])


def test_a_choice_made_without_a_session_is_kept_too(app, job_at):
    bob, job = Person(app, "ops:bob"), job_at("failed")
    token = bob.token()
    bob.post("/sign-out", {"csrf_token": token})
    fields = {"seen_state": "failed", "csrf_token": token, "job": [tick(job, 1)]}
    answer = bob.post("/jobs/chosen/", fields)
    assert answer.status_code == 401
    signing = forms(answer)["/sign-in"]
    page = bob.post("/sign-in", {**signing, "code": "ops:bob", "password": PASSWORD})
    assert forms(page)["/jobs/chosen/retry"]["jobs"] == tick(job, 1)


def test_a_form_of_an_earlier_session_is_shown_again_with_what_was_typed(alice, job_at, stands):
    job = job_at("failed")
    form = forms(choose(alice, "failed", [tick(job, 1)]))["/jobs/chosen/retry"]
    form |= {"reason": "provider_outage", "csrf_token": "of yesterday"}
    answer = alice.post("/jobs/chosen/retry", form)
    assert answer.status_code == 400
    again = forms(answer)["/jobs/chosen/retry"]
    assert again["reason"] == "provider_outage"
    assert alice.post("/jobs/chosen/retry", again).status_code == 303
    stale = {"seen_state": "failed", "csrf_token": "x", "job": [tick(job_at("failed"), 1)]}
    answer = alice.post("/jobs/chosen/", stale)
    assert answer.status_code == 400
    assert forms(answer)["/jobs/chosen/retry"]["jobs"] == stale["job"][0]


def test_a_viewer_neither_chooses_nor_acts_by_hand(viola, job_at, stands):
    job = job_at("failed")
    fields = {"csrf_token": viola.token(), "seen_state": "failed", "jobs": tick(job, 1)}
    fields |= {"operator_code": "ops:viola", "reason": "deploy_error", "job": tick(job, 1)}
    for path in ("", "retry", "cancel"):
        assert viola.post(f"/jobs/chosen/{path}", fields).status_code == 403
    assert stands(job) == ("failed", [])


@pytest.mark.no_cover  # what is walked through here has tests of its own
@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_whatever_a_field_holds_the_answer_is_clear(alice, job_at, stands, value):
    job = job_at("failed")
    form = forms(choose(alice, "failed", [tick(job, 1)]))["/jobs/chosen/retry"]
    turn = [*VALUES.values()].index(value)
    for number, name in enumerate((*form, "job", "typed_code"), start=turn):
        verb = ("retry", "cancel", "release")[number % 3]
        if (name, verb) != ("reason", "retry"):
            sent = body({**form, name: value})
            check(alice.post(f"/jobs/chosen/{verb}", sent, content_type=FORM))
    for name in ("job", "seen_state", "next"):
        sent = {"seen_state": "failed", "csrf_token": form["csrf_token"], "job": tick(job, 1)}
        check(alice.post("/jobs/chosen/", body({**sent, name: value}), content_type=FORM))
    assert stands(job) == ("failed", [])


def test_a_bulk_that_never_was_is_not_found(alice):
    answer = alice.get(f"/jobs/chosen/{uuid.uuid4()}")
    assert answer.status_code == 404
    assert "The ledger has every act" in answer.text


def test_nobody_can_make_up_what_was_refused(alice, scene):
    there = f"/jobs/chosen/{scene.bulk}"
    page = alice.get(f"{there}?refused=WyJ4Il0.made-up")
    assert "left alone" not in words(page)
    assert "3 jobs cancelled" in words(page)
    assert "The warehouse counts again tonight." in words(page)


def test_an_act_of_a_bulk_leads_to_what_came_of_it_however_old(alice, books, scene):
    found = bulks.acts_of_bulk(books, scene.bulk)
    assert len(found) == 3
    assert bulks.acts_of_bulk(books, scene.bulk, limit=2) == found[:2]
    assert bulks.acts_of_bulk(books, uuid.uuid4()) == []
    for row in found:
        page = alice.get(f"/acts/{row.id}")
        assert f'href="/jobs/chosen/{scene.bulk}"' in page.text
    assert "Done: 3" in words(alice.get(f"/jobs/chosen/{scene.bulk}"))


def test_an_act_by_itself_leads_to_no_bulk(alice, books, job_at):
    job = job_at("cancelled")
    (row,) = acts.acts_of(books, job)
    assert "/jobs/chosen/" not in alice.get(f"/acts/{row.id}").text


def test_a_bulk_of_more_than_a_thousand_says_so(alice, books, registry, monkeypatch):
    queue, _ = many(books, 3)
    bulk = uuid.uuid4()
    clear_queue(books, queue, bulk_id=bulk, by="ops:bob", reason="duplicate", via="cli:x@y")
    monkeypatch.setattr(selection, "MOST_JOBS", 2)
    page = words(alice.get(f"/jobs/chosen/{bulk}"))
    assert "Done: 2" in page
    assert "It was done to more jobs than these" in page
    assert "in one commit" not in page
