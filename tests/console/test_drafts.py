"""What was typed survives a sign-in in between: every form that signs, by the routes there are."""

from contextlib import suppress
from dataclasses import dataclass, field
from uuid import UUID

import pytest
from werkzeug.exceptions import MethodNotAllowed

from console import drafts
from console.drafts import CHOOSING, Draft
from console.rights import SIGNS, TABLE
from console.views.sign_in import FORMS_OF
from queue_core.queries import ledger
from queue_core.queries.ledger import Wanted
from tests.console.people import Person, forms
from tests.console.scenes import NAUGHTY, PASSWORD
from tests.console.test_chosen import choose, tick

TYPED = {
    "reason": "typed <b>before</b>",
    "note": "Two lines\nof “note”.",
    "next": "/jobs/?state=failed",
}
PLACES = {"cancel": "ready", "retry": "failed", "release": "needs_review"}
PLACES |= {"confirm": "needs_review", "close": "needs_review"}
PLACES |= {"assign": "failed", "note": "needs_review", "reveal": "completed"}
NAMES = {
    "queues.pause": ("/queues/show?name=stock", {}),
    "queues.resume": ("/queues/show?name=reports", {}),
    "schedules.pause": ("/schedules/show?name=stock-check", {}),
    "schedules.resume": ("/schedules/show?name=nightly-report", {}),
    "schedules.run_now": ("/schedules/show?name=stock-check", {}),
    "operators.add": ("/operators/", {"code": f"new:{NAUGHTY[:20]}", "role": "operator"}),
    "operators.change_role": ("/operators/one?code=ops:viola", {"role": "operator"}),
    "operators.disable": ("/operators/one?code=ops:viola", {}),
    "operators.reset": ("/operators/one?code=ops:viola", {}),
}
CHOSEN = [route for route in SIGNS if route.startswith("chosen.")]
ON_JOBS = [route for route in SIGNS if route.startswith(("jobs.", "marks."))]


@dataclass
class Opened:
    """A form on its page: where it is sent, and its fields with what somebody typed in them."""

    action: str
    fields: dict[str, str] = field(default_factory=dict)


@pytest.fixture
def opened(app, job_at):
    """Give a function that opens the form of a route, and types into it."""

    def open_form(somebody: Person, route: str) -> Opened:
        verb = route.rpartition(".")[2]
        more: dict[str, str] = {}
        if route in ON_JOBS:
            action = f"/jobs/{job_at(PLACES[verb])}/{verb}"
            page = somebody.get(f"{action.rpartition('/')[0]}?form={verb}")
        elif route in CHOSEN:
            place = PLACES[verb]
            value = tick(job_at(place), 0 if place == "ready" else 1)
            action, page = f"/jobs/chosen/{verb}", choose(somebody, place, [value])
        else:
            address, more = NAMES[route]
            with app.test_request_context():
                action = app.url_map.bind("").build(route)
            page = somebody.get(address)
        fields = forms(page)[action]
        assert set(TYPED) - set(fields) <= {"note", "next"}, "a form that signs has a reason"
        typed = {name: text for name, text in TYPED.items() if name in fields}
        return Opened(action, {**fields, **typed, **more})

    return open_form


def lapsed(somebody, form):
    """Send a form after the session is over; return the sign-in form that answers."""
    somebody.client.delete_cookie("countersign")
    asked = somebody.post(form.action, form.fields)
    assert asked.status_code == 401
    assert "What you typed is kept" in asked.text
    return forms(asked)["/sign-in"]


def signed_in(somebody, signing, code):
    return somebody.post("/sign-in", {**signing, "code": code, "password": PASSWORD})


def kept(fields):
    """What a person had typed or chosen, and what they had seen."""
    return {
        name: text.replace("\r\n", "\n")
        for name, text in fields.items()
        if name not in {"csrf_token", "operator_code", "typed_code", "role"}
    }


def newest(books):
    (row, *_) = ledger.list_acts(books, Wanted(), limit=1).rows
    return row.id


def test_every_form_that_signs_is_opened_here():
    assert {*ON_JOBS, *CHOSEN, *NAMES} == set(SIGNS)
    assert {route.partition(".")[0] for route in SIGNS} == set(FORMS_OF)


def test_every_form_with_a_reason_signs(app, root, alice, scene, opened):
    """A form that asks for a reason and stands in no table would lose it."""
    pages = [
        "/",
        "/account/",
        "/operators/",
        "/jobs/?state=failed",
        f"/jobs/{scene.failed}?form=reveal",
    ]
    pages += [address for address, _ in NAMES.values()]
    adapter = app.url_map.bind("localhost")
    for page in pages:
        for action, fields in forms(root.get(page)).items():
            with suppress(MethodNotAllowed):  # a filter's
                route, _ = adapter.match(action, method="POST")
                assert ("reason" in fields) == (route in SIGNS), route


@pytest.mark.parametrize("route", SIGNS)
def test_what_was_typed_survives_a_sign_in_in_between(app, opened, books, route):
    code = "ops:root" if TABLE[route] == "admin" else "ops:bob"
    somebody = Person(app, code)
    form, before = opened(somebody, route), newest(books)
    page = signed_in(somebody, lapsed(somebody, form), code)
    assert page.status_code == 200
    assert "Nothing was done yet" in page.text
    assert "<b>before</b>" not in page.text
    again = forms(page)[form.action]
    assert kept(again) == kept(form.fields)
    assert "role" not in form.fields or '<option value="operator" selected' in page.text
    assert again["operator_code"] == code
    assert again["csrf_token"] != form.fields["csrf_token"]
    assert newest(books) == before


@pytest.mark.parametrize("route", SIGNS)
def test_a_tab_of_an_earlier_session_keeps_what_was_typed(app, opened, books, route):
    code = "ops:root" if TABLE[route] == "admin" else "ops:bob"
    somebody = Person(app, code)
    form, before = opened(somebody, route), newest(books)
    somebody.client.delete_cookie("countersign")
    somebody.sign_in(code)
    page = somebody.post(form.action, form.fields)
    assert page.status_code == 400
    assert "opened before you signed in again" in page.text
    assert kept(forms(page)[form.action]) == kept(form.fields)
    assert newest(books) == before


@pytest.mark.parametrize("route", SIGNS)
def test_whoever_may_not_do_it_sees_what_was_typed_and_no_form(app, opened, books, route):
    code = "ops:root" if TABLE[route] == "admin" else "ops:bob"
    somebody = Person(app, code)
    form, before = opened(somebody, route), newest(books)
    page = signed_in(somebody, lapsed(somebody, form), "ops:viola")
    assert page.status_code == (403 if TABLE[route] == "admin" else 200)
    assert "typed &lt;b&gt;before&lt;/b&gt;" in page.text
    assert form.action not in forms(page)
    assert newest(books) == before


@pytest.mark.parametrize("route", ["jobs.retry", "queues.pause", "operators.disable"])
def test_somebody_else_who_signs_in_is_told_whose_page_it_was(app, opened, route):
    code = "ops:root" if TABLE[route] == "admin" else "ops:bob"
    somebody = Person(app, code)
    form = opened(somebody, route)
    form.fields["operator_code"] = "ops:somebody"
    page = signed_in(somebody, lapsed(somebody, form), code)
    assert "opened by ops:somebody; you are signed in as" in page.text


GONE = {
    "jobs.retry": {},
    "schedules.pause": {"name": "no-such-schedule"},
    "operators.disable": {"code": "ops:never-was"},
}


@pytest.mark.parametrize("route", GONE)
def test_what_has_no_page_any_more_is_told_with_what_was_typed(app, opened, shop, route):
    code = "ops:root" if TABLE[route] == "admin" else "ops:bob"
    somebody = Person(app, code)
    form = opened(somebody, route)
    if route == "jobs.retry":
        with shop.owner() as owner:
            job = UUID(form.action.split("/")[2])
            owner.execute("DELETE FROM countersign.ended WHERE id = %s", [job])
            owner.execute("DELETE FROM countersign.jobs WHERE id = %s", [job])
    form.fields |= GONE[route]
    page = signed_in(somebody, lapsed(somebody, form), code)
    assert page.status_code == 404
    assert "typed &lt;b&gt;before&lt;/b&gt;" in page.text


def test_an_act_that_is_not_offered_any_more_shows_what_was_typed(app, opened):
    root = Person(app, "ops:root")
    form = opened(root, "operators.disable")
    form.fields["code"] = "ops:root"  # the last admin
    page = signed_in(root, lapsed(root, form), "ops:root")
    assert page.status_code == 200
    assert "typed &lt;b&gt;before&lt;/b&gt;" in page.text
    assert "/operators/disable" not in forms(page)


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/account/password", {"present": "secret-1", "new": "secret-2", "again": "secret-2"}),
        ("/account/sessions/end-others", {}),
    ],
)
def test_a_password_is_not_kept_and_the_way_leads_back_to_the_account(app, path, fields):
    somebody = Person(app)
    asked = somebody.post(path, fields)
    assert asked.status_code == 401
    assert "secret-" not in asked.text
    assert "is kept" not in asked.text
    answer = signed_in(somebody, forms(asked)["/sign-in"], "ops:bob")
    assert (answer.status_code, answer.headers["Location"]) == (303, "/account/")


def test_only_what_the_console_kept_itself_is_taken_back(app):
    with app.test_request_context("/"):
        draft = Draft("jobs.retry", "6f9619ff-8b86-d011-b42d-00cf4fc964ff", {"reason": "x"})
        text = draft.signed()
        assert drafts.read(text) == draft
        for forged in (None, "", "x", text[:-2], "W10.x", text + "\0", text.replace(".", "", 1)):
            assert drafts.read(forged) is None


def test_what_is_too_long_for_any_field_is_cut(app):
    fields = {
        "reason": "r" * 9_000,
        "password": "secret",
        "typed_code": "ops:bob",
        "job": ["a.1", "b.2"],
    }
    with app.test_request_context("/jobs/chosen/", method="POST", data=fields):
        draft = drafts.of_request()
    assert draft
    assert draft.endpoint == CHOOSING
    assert draft.fields == {"reason": "r" * 4_000, "jobs": "a.1 b.2"}
