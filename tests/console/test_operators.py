"""Operators' pages: admins add, change, disable and reset, each signed; nobody else sees them."""

import re

import pytest

from queue_core import operators, sessions
from queue_core.errors import OperatorRefusedError
from queue_core.queries import acts
from queue_core.queries import operators as people
from queue_core.queries.ledger import Wanted, list_acts
from tests.console.people import Person, forms
from tests.console.scenes import CODES, NAUGHTY, PASSWORD, add_operators

SECRET = re.compile(r'<p class="secret"><code>([a-z0-9-]{23})</code></p>')


@pytest.fixture
def office(database, app_on):
    """Give a console of the test's own, its admin, and a connection behind it."""
    add_operators(database.owner())
    app = app_on(database.url)
    return app, Person(app, "ops:root"), database.connect()


def signed(conn, code):
    """Return what the ledger says of an operator, the newest act first."""
    page = list_acts(conn, Wanted(kind="operator", name=code))
    return [(row.by, row.act, row.reason, row.note) for row in page.rows]


def fields(person, path, action, **changed):
    """Return a form of a page as it would be sent, with a reason."""
    return {**forms(person.get(path))[action], "reason": "on_call", **changed}


def one(person, code, verb, **changed):
    """Open an operator's page, fill in the form of `verb`, and send it."""
    path = {"change_role": "/operators/role"}.get(verb, f"/operators/{verb}")
    return person.post(path, fields(person, f"/operators/one?code={code}", path, **changed))


def add(person, code, role="operator", **changed):
    """Fill in the form for a new operator, and send it."""
    form = fields(person, "/operators/", "/operators/add", code=code, role=role, **changed)
    return person.post("/operators/add", form)


def test_a_new_operator_gets_a_password_that_is_shown_once(office):
    app, root, conn = office
    answer = add(root, "ops:carol")
    assert answer.status_code == 200
    assert "no-store" in answer.headers["Cache-Control"]
    (password,) = SECRET.findall(answer.text)
    assert Person(app).sign_in("ops:carol", password).status_code == 303
    assert signed(conn, "ops:carol") == [("ops:root", "added", "on_call", "role: operator")]
    for path in ("/operators/", "/operators/one?code=ops:carol", "/acts/"):
        assert password not in root.get(path).text
    assert re.search(r'href="/acts/\d+"', answer.text)


def test_the_act_says_in_which_session_it_was_signed(office):
    _, root, conn = office
    add(root, "ops:carol")
    (row,) = list_acts(conn, Wanted(kind="operator", name="ops:carol")).rows
    assert re.fullmatch(r"console:[0-9a-f-]{36}", row.via)


def test_a_changed_role_counts_at_once_and_signs_nobody_out(office):
    app, root, conn = office
    viola = Person(app, "ops:viola")
    assert viola.get("/operators/").status_code == 403
    answer = one(root, "ops:viola", "change_role", role="admin")
    assert (answer.status_code, answer.headers["Location"]) == (303, "/operators/")
    assert "The role has changed" in root.get("/operators/").text
    assert viola.get("/operators/").status_code == 200
    assert signed(conn, "ops:viola")[0] == (
        "ops:root",
        "role_changed",
        "on_call",
        "role: viewer to admin",
    )


def test_who_is_disabled_is_out_at_once_and_for_good(office):
    app, root, conn = office
    bob = Person(app, "ops:bob")
    assert one(root, "ops:bob", "disable", reason="left").status_code == 303
    assert "Disabled: they are signed out" in root.get("/operators/").text
    assert bob.get("/").status_code == 303
    assert Person(app).sign_in("ops:bob").status_code == 400
    assert signed(conn, "ops:bob")[0][:3] == ("ops:root", "disabled", "left")
    page = root.get("/operators/one?code=ops:bob")
    assert "disabled for good" in page.text
    assert "/operators/reset" not in forms(page)


def test_a_reset_prints_a_new_password_once_and_ends_the_sessions(office):
    app, root, conn = office
    bob = Person(app, "ops:bob")
    answer = one(root, "ops:bob", "reset", reason="forgotten")
    assert answer.status_code == 200
    assert "no-store" in answer.headers["Cache-Control"]
    (password,) = SECRET.findall(answer.text)
    assert bob.get("/").status_code == 303
    assert Person(app).sign_in("ops:bob", PASSWORD).status_code == 400
    assert Person(app).sign_in("ops:bob", password).status_code == 303
    assert signed(conn, "ops:bob")[0] == ("ops:root", "password_reset", "forgotten", None)


def test_ones_own_password_is_not_reset_here(office):
    app, root, conn = office
    page = root.get("/operators/one?code=ops:root")
    assert "/operators/reset" not in forms(page)
    form = fields(root, "/operators/one?code=ops:bob", "/operators/reset", code="ops:root")
    answer = root.post("/operators/reset", form)
    assert answer.status_code == 409
    assert "on the page of your account" in answer.text
    assert not SECRET.search(answer.text)
    assert Person(app).sign_in("ops:root").status_code == 303
    assert len(signed(conn, "ops:root")) == 1


@pytest.mark.parametrize("verb", ["disable", "change_role"])
def test_the_last_admin_is_neither_offered_to_be_nor_disabled_or_demoted(office, verb):
    _, root, conn = office
    page = root.get("/operators/one?code=ops:root")
    assert "the last admin" in page.text
    path = {"change_role": "/operators/role"}.get(verb, f"/operators/{verb}")
    assert path not in forms(page)
    form = fields(root, "/operators/one?code=ops:bob", path, code="ops:root", role="viewer")
    answer = root.post(path, form)
    assert answer.status_code == 409
    assert "last enabled admin" in answer.text
    found = people.find(conn, "ops:root")
    assert found
    assert (found.role, found.disabled_at) == ("admin", None)


def test_two_admins_may_part_one_from_the_other(office):
    _, root, _ = office
    one(root, "ops:bob", "change_role", role="admin")
    assert one(root, "ops:root", "change_role", role="viewer").status_code == 303
    assert root.get("/operators/").status_code == 403


WRONG = [
    ({"reason": ""}, "Give a reason"),
    ({"reason": "a\nb"}, "Give a reason"),
    ({"code": ""}, "Give a code"),
    ({"code": "x" * 201}, "Give a code"),
    ({"code": "ops:\u202eevil"}, "Give a code"),
    ({"code": "setup:root"}, "kept for setting up"),
    ({"role": ""}, "Choose a role"),
    ({"role": "king"}, "Choose a role"),
    ({"operator_code": "ops:alice"}, "opened by ops:alice; you are signed in as ops:root"),
]


def test_a_wrong_field_is_said_at_the_field_and_adds_nobody(office):
    _, root, conn = office
    for changed, sentence in WRONG:
        answer = add(root, **{"code": "ops:carol", **changed})
        assert answer.status_code == 400, changed
        assert sentence in answer.text
        assert "Nothing was done" in answer.text
        form = forms(answer)["/operators/add"]
        assert form["code"] == changed.get("code", "ops:carol")
        assert form["operator_code"] == "ops:root"
    assert len(people.list_operators(conn)) == len(CODES)


@pytest.mark.parametrize("verb", ["change_role", "disable", "reset"])
def test_without_a_reason_nothing_is_done_to_anybody(office, verb):
    app, root, conn = office
    bob, before = Person(app, "ops:bob"), people.list_operators(conn)
    answer = one(root, "ops:bob", verb, reason=" ", role="viewer")
    assert answer.status_code == 400
    assert "Give a reason" in answer.text
    assert people.list_operators(conn) == before
    assert bob.get("/").status_code == 200


def test_what_was_typed_stays_in_its_form_alone(office):
    _, root, _ = office
    answer = one(root, "ops:bob", "change_role", role="king", reason="as_typed")
    sent = forms(answer)
    assert sent["/operators/role"]["reason"] == "as_typed"
    assert sent["/operators/disable"]["reason"] == sent["/operators/reset"]["reason"] == ""


def test_a_code_is_never_given_out_again(office):
    _, root, conn = office
    one(root, "ops:bob", "disable")
    answer = add(root, "ops:bob")
    assert answer.status_code == 409
    assert "codes are never reused" in answer.text
    assert not SECRET.search(answer.text)
    assert len(signed(conn, "ops:bob")) == 2


def test_nobody_is_nobody(office):
    _, root, conn = office
    before = people.list_operators(conn)
    for code in ("ops:nobody", "", "a\0b", "\u202e", "x" * 300):
        for path in ("/operators/role", "/operators/disable", "/operators/reset"):
            form = fields(root, "/operators/one?code=ops:bob", path, code=code, role="viewer")
            assert root.post(path, form).status_code == 404, (code, path)
        assert root.get("/operators/one", query_string={"code": code}).status_code == 404, code
    assert people.list_operators(conn) == before


def test_an_admin_who_is_disabled_meanwhile_changes_nothing(office):
    app, root, conn = office
    one(root, "ops:alice", "change_role", role="admin")
    alice = Person(app, "ops:alice")
    form = fields(alice, "/operators/one?code=ops:bob", "/operators/disable")
    operators.disable(conn, "ops:alice", by="ops:root", reason="left", via="code")
    assert alice.post("/operators/disable", form).status_code == 401
    bob = people.find(conn, "ops:bob")
    assert bob
    assert bob.disabled_at is None


def test_while_another_admin_changes_operators_the_page_says_so(office, database):
    _, root, conn = office
    form = fields(root, "/operators/one?code=ops:bob", "/operators/disable", reason="as_typed")
    with database.owner(autocommit=False) as holder:
        holder.execute("LOCK TABLE countersign.operators IN SHARE ROW EXCLUSIVE MODE")
        answer = root.post("/operators/disable", form)
        holder.rollback()
    assert answer.status_code == 409
    assert "another admin is changing operators" in answer.text
    assert forms(answer)["/operators/disable"]["reason"] == "as_typed"
    bob = people.find(conn, "ops:bob")
    assert bob
    assert bob.disabled_at is None


def test_failed_sign_ins_are_told_by_code_and_address_and_never_what_was_typed(office):
    _, root, conn = office
    assert "None." in root.get("/operators/").text
    typed = "My-Password-In-The-Wrong-Field"
    for code in ("ops:bob", "ops:bob", typed):
        with pytest.raises(OperatorRefusedError):
            sessions.sign_in(conn, code, "wrong horse battery", address="203.0.113.99")
    page = root.get("/operators/").text
    told = page.partition('id="failures"')[2]
    assert "203.0.113.99" in told
    assert 'href="/operators/one?code=ops:bob"' in told
    assert "no operator’s code" in told
    assert "all codes together" in told
    for text in (typed, typed.lower(), "wrong horse"):
        assert text not in page


def test_case_86_a_code_is_shown_and_never_taken_for_markup(office):
    _, root, _ = office
    answer = add(root, NAUGHTY)
    assert answer.status_code == 200
    listed = root.get("/operators/")
    shown = root.get("/operators/one", query_string={"code": NAUGHTY})
    assert shown.status_code == 200
    for page in (answer, listed, shown):
        assert "<img" not in page.text
        assert "&lt;img src=x onerror" in page.text
    assert forms(shown)["/operators/disable"]["code"] == NAUGHTY


@pytest.mark.parametrize("code", ["ops:alice", "ops:viola"])
def test_who_is_no_admin_sees_no_way_there_and_gets_403_by_hand(office, code):
    app, root, conn = office
    somebody = Person(app, code)
    assert "/operators/" not in somebody.get("/").text
    for path in ("/operators/", "/operators/one?code=ops:bob"):
        assert somebody.get(path).status_code == 403
    before = people.list_operators(conn)
    for verb in ("role", "disable", "reset"):
        form = fields(root, "/operators/one?code=ops:bob", f"/operators/{verb}", role="viewer")
        form |= {"operator_code": code, "csrf_token": somebody.token()}
        assert somebody.post(f"/operators/{verb}", form).status_code == 403
    form = fields(root, "/operators/", "/operators/add", code="ops:mallory", role="admin")
    form |= {"operator_code": code, "csrf_token": somebody.token()}
    assert somebody.post("/operators/add", form).status_code == 403
    assert people.list_operators(conn) == before


def test_nothing_of_operators_stands_in_the_acts_of_a_job(alice, job_at, books):
    job = job_at("failed")
    alice.act(job, "retry")
    assert [row.subject_kind for row in acts.acts_of(books, job)] == ["job"]
