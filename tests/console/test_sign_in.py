"""Signing in and out, and what a form keeps when its session lapses in between."""

import pytest

from queue_core import operators, retry
from queue_core.queries import acts
from tests.console.people import Person, forms
from tests.console.scenes import PASSWORD

OFF_LOOPBACK = {
    "base_url": "http://queue.example",
    "environ_overrides": {"REMOTE_ADDR": "203.0.113.9"},
}


def test_a_right_pair_opens_the_page_that_was_asked_for(person):
    nobody = person()
    asked = nobody.get("/jobs/?state=failed&queue=a%2Fb")
    assert asked.status_code == 303
    form = forms(nobody.get(asked.headers["Location"]))["/sign-in"]
    answer = nobody.post("/sign-in", {**form, "code": "ops:alice", "password": PASSWORD})
    assert (answer.status_code, answer.headers["Location"]) == (
        303,
        "/jobs/?state=failed&queue=a%2Fb",
    )
    assert "ops:alice" in nobody.get("/").text


@pytest.mark.parametrize(
    ("code", "password"),
    [
        ("ops:alice", "wrong"),
        ("ops:nobody", PASSWORD),
        ("", ""),
        ("ops:alice\0", PASSWORD),
        ("x" * 300, PASSWORD),
    ],
)
def test_every_wrong_pair_gets_the_same_sentence_and_no_session(person, code, password):
    nobody = person(REMOTE_ADDR="203.0.113.77")
    answer = nobody.sign_in(code, password)
    assert answer.status_code == 400
    assert "do not belong to an operator who may sign in" in answer.text
    assert password not in answer.text or not password
    assert nobody.get("/").status_code == 303


def test_a_guesser_has_to_wait_and_is_told_how_long(person):
    guesser = person(REMOTE_ADDR="203.0.113.78")
    answers = [guesser.sign_in("ops:alice", f"guess-number-{n}") for n in range(7)]
    assert answers[-1].status_code == 429
    assert int(answers[-1].headers["Retry-After"]) >= 1
    assert "Too many tries" in answers[-1].text
    assert person(REMOTE_ADDR="203.0.113.79").sign_in("ops:alice").status_code == 303


def test_signing_in_gives_a_new_token_and_a_new_session(app):
    somebody = Person(app)
    before = somebody.token()
    somebody.sign_in("ops:alice")
    session = somebody.cookie()
    assert somebody.post("/sign-out", {"csrf_token": before}).status_code == 400
    somebody.post("/sign-out", forms(somebody.get("/"))["/sign-out"])
    somebody.sign_in("ops:alice")
    assert somebody.cookie() != session


def test_a_session_planted_before_the_sign_in_is_not_the_one_after_it(app):
    attacker, victim = Person(app), Person(app)
    planted = attacker.get("/sign-in") and attacker.cookie()
    victim.client.set_cookie("countersign", planted)
    victim.sign_in("ops:alice")
    assert attacker.get("/").status_code == 303


def test_signing_out_ends_the_session_for_every_copy_of_its_cookie(app):
    somebody, thief = Person(app, "ops:bob"), Person(app)
    thief.client.set_cookie("countersign", somebody.cookie())
    assert thief.get("/").status_code == 200
    answer = somebody.post("/sign-out", forms(somebody.get("/"))["/sign-out"])
    assert (answer.status_code, answer.headers["Location"]) == (303, "/sign-in")
    assert somebody.get("/").status_code == 303
    assert thief.get("/").status_code == 303


def test_a_forged_session_is_nobody(person):
    forger = person()
    for cookie in ("eyJ0b2tlbiI6ImEifQ.awyR-w.Fd49WAoPgn3tBbPs8T0_KS98fEA", "x", "a.b.c"):
        forger.client.set_cookie("countersign", cookie)
        assert forger.get("/").status_code == 303


def test_a_session_in_the_secure_cookie_is_not_taken_from_the_other_name(app):
    somebody, thief = Person(app, "ops:bob"), Person(app)
    session = somebody.cookie()
    answer = thief.get(
        "/", base_url="https://localhost", headers={"Cookie": f"countersign={session}"}
    )
    assert answer.status_code == 303


def test_an_operator_who_is_disabled_is_out_at_once(app, shop):
    with shop.owner() as owner:
        add_carol(owner)
        carol = Person(app, "ops:carol")
        assert carol.get("/").status_code == 200
        operators.disable(owner, "ops:carol", by="ops:root", reason="left", via="cli:x@y")
    assert carol.get("/").status_code == 303
    assert Person(app).sign_in("ops:carol").status_code == 400


def add_carol(owner):
    operators.add(
        owner, "ops:carol", "operator", PASSWORD, by="ops:root", reason="new", via="cli:x@y"
    )


def test_whoever_is_signed_in_already_goes_straight_on(alice):
    answer = alice.get("/sign-in?next=/jobs/")
    assert (answer.status_code, answer.headers["Location"]) == (303, "/jobs/")


def test_plain_http_from_elsewhere_is_told_why_there_is_no_form(app_on, shop, scene):

    nobody = Person(app_on(shop.url, QUEUE_HOSTS="queue.example"))
    page = nobody.get("/sign-in", **OFF_LOOPBACK)
    assert "Not over this connection" in page.text
    assert "password" not in forms(page).get("/sign-in", {})
    secure = nobody.get("/sign-in", base_url="https://queue.example")
    token = forms(secure)["/sign-in"]["csrf_token"]
    cookie = secure.headers["Set-Cookie"].partition(";")[0]
    answer = nobody.post(
        "/sign-in",
        {"code": "ops:alice", "password": PASSWORD, "csrf_token": token},
        **OFF_LOOPBACK,
        headers={"Cookie": cookie},
    )
    assert answer.status_code == 403
    assert "Set-Cookie" not in answer.headers or "token" not in answer.headers["Set-Cookie"]


@pytest.mark.parametrize("host", ["queue.example", "queue.example:8443"])
def test_over_https_from_elsewhere_there_is_a_form(app_on, shop, scene, host):

    page = Person(app_on(shop.url, QUEUE_HOSTS="queue.example")).get(
        "/sign-in", base_url=f"https://{host}"
    )
    assert "password" in forms(page)["/sign-in"]


def test_what_was_typed_survives_a_sign_in_in_between(app, job_at, stands, books):
    job, somebody = job_at("failed"), Person(app, "ops:bob")
    form = {
        **somebody.form(job, "retry"),
        "reason": "provider_outage",
        "note": "Two lines\nof “note”.",
        "next": "/jobs/?state=failed",
    }
    somebody.client.delete_cookie("countersign")
    asked = somebody.post(f"/jobs/{job}/retry", form)
    assert asked.status_code == 401
    assert "Nothing was done" in asked.text
    signing = {**forms(asked)["/sign-in"], "code": "ops:bob", "password": PASSWORD}
    page = somebody.post("/sign-in", signing)
    assert page.status_code == 200
    assert "Nothing was done yet" in page.text
    again = forms(page)[f"/jobs/{job}/retry"]
    assert (again["reason"], again["note"], again["next"]) == (
        "provider_outage",
        "Two lines\nof “note”.",
        "/jobs/?state=failed",
    )
    assert (again["operator_code"], again["csrf_token"] != form["csrf_token"]) == ("ops:bob", True)
    assert stands(job) == ("failed", [])
    assert somebody.post(f"/jobs/{job}/retry", again).headers["Location"] == "/jobs/?state=failed"
    assert [act.note for act in acts.acts_of(books, job)] == ["Two lines\nof “note”."]


def test_it_survives_a_wrong_password_on_the_way_too(app, job_at):
    job, somebody = job_at("failed"), Person(app, "ops:bob", REMOTE_ADDR="203.0.113.80")
    form = {**somebody.form(job, "retry"), "reason": "provider_outage"}
    somebody.client.delete_cookie("countersign")
    first = forms(somebody.post(f"/jobs/{job}/retry", form))["/sign-in"]
    second = forms(somebody.post("/sign-in", {**first, "code": "ops:bob", "password": "wrong"}))[
        "/sign-in"
    ]
    page = somebody.post("/sign-in", {**second, "code": "ops:bob", "password": PASSWORD})
    assert forms(page)[f"/jobs/{job}/retry"]["reason"] == "provider_outage"


def test_somebody_else_who_signs_in_is_told_whose_page_it_was(app, job_at):
    job, somebody = job_at("failed"), Person(app, "ops:bob")
    form = {**somebody.form(job, "retry"), "reason": "provider_outage"}
    somebody.client.delete_cookie("countersign")
    signing = forms(somebody.post(f"/jobs/{job}/retry", form))["/sign-in"]
    page = somebody.post("/sign-in", {**signing, "code": "ops:alice", "password": PASSWORD})
    assert "opened by ops:bob; you are signed in as ops:alice" in page.text
    assert forms(page)[f"/jobs/{job}/retry"]["operator_code"] == "ops:alice"


def test_a_viewer_who_signs_in_sees_what_was_typed_and_no_form(app, job_at):
    job, somebody = job_at("failed"), Person(app, "ops:bob")
    form = {**somebody.form(job, "retry"), "reason": "provider_outage"}
    somebody.client.delete_cookie("countersign")
    signing = forms(somebody.post(f"/jobs/{job}/retry", form))["/sign-in"]
    page = somebody.post("/sign-in", {**signing, "code": "ops:viola", "password": PASSWORD})
    assert "provider_outage" in page.text
    assert f"/jobs/{job}/retry" not in forms(page)


def test_a_tab_from_before_the_sign_in_keeps_what_was_typed(app, job_at, stands):
    job, somebody = job_at("failed"), Person(app, "ops:bob")
    form = {**somebody.form(job, "retry"), "reason": "provider_outage", "note": "typed before"}
    somebody.post("/sign-out", forms(somebody.get("/"))["/sign-out"])
    somebody.sign_in("ops:alice")
    answer = somebody.post(f"/jobs/{job}/retry", form)
    assert answer.status_code == 400
    assert "opened by ops:bob; you are signed in as ops:alice" in answer.text
    again = forms(answer)[f"/jobs/{job}/retry"]
    assert (again["reason"], again["note"]) == ("provider_outage", "typed before")
    assert stands(job) == ("failed", [])
    assert somebody.post(f"/jobs/{job}/retry", again).status_code == 303


def test_the_job_that_moved_on_in_between_is_shown_as_it_is(app, job_at, books):
    job, somebody = job_at("failed"), Person(app, "ops:bob")
    form = {**somebody.form(job, "retry"), "reason": "provider_outage"}
    somebody.client.delete_cookie("countersign")
    signing = forms(somebody.post(f"/jobs/{job}/retry", form))["/sign-in"]
    retry(books, [job], by="ops:alice", reason="deploy_error", via="console:1")
    page = somebody.post("/sign-in", {**signing, "code": "ops:bob", "password": PASSWORD})
    assert "The job has moved on since you opened it" in page.text
    assert "provider_outage" in page.text
    assert forms(page)[f"/jobs/{job}/cancel"]["reason"] == ""
