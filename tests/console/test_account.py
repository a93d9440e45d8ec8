"""One's own account: the password, and the sessions that are open."""

import pytest

from queue_core import passwords
from tests.console.people import Person, forms
from tests.console.scenes import PASSWORD, add_operators

NEW = "staple of another kind"


@pytest.fixture
def office(database, app_on):
    """Give a console of the test's own."""
    add_operators(database.owner())
    return app_on(database.url)


def change(somebody, present=PASSWORD, new=NEW, again=None, **more):
    """Fill in the form for a new password, and send it."""
    form = forms(somebody.get("/account/"))["/account/password"]
    typed = {"present": present, "new": new, "again": new if again is None else again}
    return somebody.post("/account/password", {**form, **typed, **more})


@pytest.mark.parametrize("code", ["ops:viola", "ops:alice", "ops:root"])
def test_everybody_changes_their_own_password_and_every_other_session_ends(office, code):
    here, there, stranger = Person(office, code), Person(office, code), Person(office, "ops:bob")
    answer = change(here)
    assert (answer.status_code, answer.headers["Location"]) == (303, "/account/")
    page = here.get("/account/").text
    assert "Your password has changed. 1 other session has ended." in page
    assert there.get("/").status_code == 303
    assert stranger.get("/").status_code == 200
    assert Person(office).sign_in(code, PASSWORD).status_code == 400
    assert Person(office).sign_in(code, NEW).status_code == 303


def test_without_the_present_password_nothing_changes(office):
    here, there = Person(office, "ops:alice"), Person(office, "ops:alice")
    answer = change(here, present="wrong horse battery")
    assert answer.status_code == 400
    assert "that is not your present password" in answer.text
    assert there.get("/").status_code == 200
    assert Person(office).sign_in("ops:alice").status_code == 303


def test_a_guesser_at_an_open_session_has_to_wait(office):
    here = Person(office, "ops:alice", REMOTE_ADDR="203.0.113.60")
    answers = [change(here, present=f"guess number {n}") for n in range(7)]
    assert [answer.status_code for answer in answers] == [400] * 5 + [429] * 2
    assert int(answers[-1].headers["Retry-After"]) >= 1
    assert "Too many tries" in answers[-1].text
    assert change(here).status_code == 429
    assert here.get("/").status_code == 200


@pytest.mark.parametrize(
    ("typed", "sentence"),
    [
        ({"present": ""}, "Type your present password"),
        ({"new": "tiny"}, "A password has 10 to 200 characters"),
        ({"new": "x" * 201}, "A password has 10 to 200 characters"),
        ({"new": ""}, "A password has 10 to 200 characters"),
        ({"new": "tab\there, and more"}, "of any kind but control characters"),
        ({"new": PASSWORD}, "the new password is the old one"),
        ({"again": "something else"}, "not the same as the one above"),
        ({"again": ""}, "not the same as the one above"),
    ],
)
def test_a_wrong_field_is_said_at_the_field_and_no_password_comes_back(office, typed, sentence):
    here = Person(office, "ops:alice")
    answer = change(here, **typed)
    assert answer.status_code == 400
    assert sentence in answer.text
    for text in (PASSWORD, NEW, *filter(None, typed.values())):
        assert text not in answer.text
    assert Person(office).sign_in("ops:alice").status_code == 303


def test_sessions_are_listed_with_where_and_since_when(office):
    here = Person(office)
    here.client.environ_base |= {"HTTP_USER_AGENT": "Desk/1.0"}
    here.sign_in("ops:alice")
    there = Person(office, REMOTE_ADDR="203.0.113.61")
    there.client.environ_base |= {"HTTP_USER_AGENT": "<img src=x>Phone/2.0"}
    there.sign_in("ops:alice")
    Person(office, "ops:bob", REMOTE_ADDR="203.0.113.62")
    page = here.get("/account/").text
    assert "This session" in page
    for text in ("Desk/1.0", "203.0.113.61", "&lt;img src=x&gt;Phone/2.0", "UTC"):
        assert text in page
    assert "203.0.113.62" not in page
    assert "<img" not in page


def other(somebody):
    """Return the form that ends the one other session."""
    return forms(somebody.get("/account/"))["/account/sessions/end"]


def test_one_session_is_ended_from_another(office):
    here, there = Person(office, "ops:alice"), Person(office, "ops:alice")
    form = other(here)
    assert here.post("/account/sessions/end", form).status_code == 303
    assert "That session has ended" in here.get("/account/").text
    assert there.get("/").status_code == 303
    assert here.post("/account/sessions/end", form).status_code == 303
    assert "over already" in here.get("/account/").text


def test_nobody_ends_the_session_of_somebody_else(office):
    alice, also_alice = Person(office, "ops:alice"), Person(office, "ops:alice")
    bob, also_bob = Person(office, "ops:bob"), Person(office, "ops:bob")
    form = {**other(bob), "session": other(alice)["session"]}
    assert bob.post("/account/sessions/end", form).status_code == 303
    assert [each.get("/").status_code for each in (alice, also_alice, bob, also_bob)] == [200] * 4


@pytest.mark.parametrize("session", ["", "x", "\0", "0" * 36, "own"])
def test_what_is_no_other_session_is_not_ended(office, session):
    here, there = Person(office, "ops:alice"), Person(office, "ops:alice")
    form = other(here)
    mine = other(there)["session"]
    answer = here.post(
        "/account/sessions/end", {**form, "session": mine if session == "own" else session}
    )
    assert answer.status_code == 400
    assert [each.get("/").status_code for each in (here, there)] == [200, 200]


def test_all_others_are_ended_at_once(office):
    here = Person(office, "ops:alice")
    others = [Person(office, "ops:alice") for _ in range(3)]
    bob = Person(office, "ops:bob")
    form = forms(here.get("/account/"))["/account/sessions/end-others"]
    assert here.post("/account/sessions/end-others", form).status_code == 303
    page = here.get("/account/")
    assert "3 other sessions have ended" in page.text
    assert "Nowhere else" in page.text
    assert [each.get("/").status_code for each in others] == [303] * 3
    assert bob.get("/").status_code == 200


def test_a_password_longer_than_any_is_not_hashed(office, monkeypatch):
    here = Person(office, "ops:alice")
    monkeypatch.setattr(passwords, "hashed", lambda _: pytest.fail("hashed"))
    assert change(here, new="x" * 5_000).status_code == 400
