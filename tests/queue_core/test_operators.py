import threading
import time
from typing import Any

import psycopg
import pytest

from queue_core import operators, sessions
from queue_core.errors import ContendedError, NotACodeError, OperatorRefusedError, OptionError
from queue_core.queries import operators as people
from tests import hashes

quick_hashes = hashes.quick_hashes
PASSWORD = "correct horse battery"
SIGNED = {"by": "ops:alice", "reason": "on-call", "via": "code"}
SETUP = {"by": "setup:root", "reason": "first operator", "via": "cli:root@pay-3"}


def add(conn, code: str, role: operators.Role = "admin", **signature: str) -> None:
    operators.add(conn, code, role, PASSWORD, **{**SIGNED, **signature})


@pytest.fixture
def alice(conn):
    """Add the first admin to the connection that is rolled back."""
    operators.add(conn, "ops:alice", "admin", PASSWORD, **SETUP)
    return conn


def acts(conn) -> list[tuple[Any, ...]]:
    found = conn.execute(
        "SELECT by, act, subject_kind, subject_name, reason, via FROM countersign.acts ORDER BY id"
    ).fetchall()
    return [tuple(row.values()) for row in found]


def codes(conn) -> dict[str, bool]:
    return {row.code: row.disabled_at is None for row in people.list_operators(conn)}


def test_the_first_admin_is_signed_for_by_whoever_sets_up(conn):
    operators.add(conn, "ops:alice", "admin", PASSWORD, **SETUP)

    assert acts(conn) == [
        ("setup:root", "added", "operator", "ops:alice", "first operator", "cli:root@pay-3")
    ]
    assert people.admin_enabled(conn)


def test_setting_up_is_over_once_an_admin_is_enabled(alice):
    with pytest.raises(OperatorRefusedError, match="while no admin is enabled"):
        operators.add(alice, "ops:bob", "viewer", PASSWORD, **SETUP)

    assert codes(alice) == {"ops:alice": True}
    assert len(acts(alice)) == 1


def test_an_operator_alone_does_not_end_setting_up(conn):
    operators.add(conn, "ops:bob", "operator", PASSWORD, **SETUP)
    operators.add(conn, "ops:alice", "admin", PASSWORD, **SETUP)

    assert codes(conn) == {"ops:alice": True, "ops:bob": True}


@pytest.mark.parametrize("change", ["disable", "reset_password"])
def test_setting_up_signs_for_nothing_but_adding(conn, change):
    operators.add(conn, "ops:bob", "operator", PASSWORD, **SETUP)
    call = getattr(operators, change)
    arguments = ["ops:bob", PASSWORD][: 1 if change == "disable" else 2]

    with pytest.raises(OperatorRefusedError, match="while no admin is enabled"):
        call(conn, *arguments, **SETUP)

    assert len(acts(conn)) == 1


def test_each_change_leaves_its_act(alice):
    add(alice, "ops:bob", "operator")
    operators.reset_password(alice, "ops:bob", "another password", **SIGNED)
    operators.disable(alice, "ops:bob", **SIGNED)

    assert acts(alice)[1:] == [
        ("ops:alice", act, "operator", "ops:bob", "on-call", "code")
        for act in ("added", "password_reset", "disabled")
    ]


@pytest.mark.parametrize("change", [operators.add, operators.disable, operators.reset_password])
def test_without_its_act_no_change_stands(database, change):
    conn, owner = database.connect(), database.owner()
    operators.add(conn, "ops:alice", "admin", PASSWORD, **SETUP)
    add(conn, "ops:bob")
    before = conn.execute("SELECT * FROM countersign.operators ORDER BY code").fetchall()
    owner.execute(
        "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'no act today'; END $$"
    )
    owner.execute(
        "CREATE TRIGGER zz BEFORE INSERT ON countersign.acts FOR EACH ROW EXECUTE FUNCTION fail()"
    )
    arguments = {
        operators.add: ("ops:carol", "viewer", PASSWORD),
        operators.disable: ("ops:bob",),
        operators.reset_password: ("ops:bob", "another password"),
    }[change]

    with pytest.raises(psycopg.errors.RaiseException, match="no act today"):
        change(conn, *arguments, **SIGNED)

    assert conn.execute("SELECT * FROM countersign.operators ORDER BY code").fetchall() == before


def test_the_callers_transaction_decides_whether_a_change_stands(database):
    conn, other = database.connect(autocommit=False), database.connect()
    operators.add(conn, "ops:alice", "admin", PASSWORD, **SETUP)

    assert people.find(other, "ops:alice") is None
    conn.rollback()
    assert people.find(other, "ops:alice") is None
    assert acts(other) == []


@pytest.mark.parametrize("wrong", ["", " ", "a\nb", "a\u202eb", "a\0b", "\ud800", "x" * 201])
@pytest.mark.parametrize("field", ["code", "by", "reason"])
def test_codes_are_checked_before_anything_is_written(alice, field, wrong):
    given = {"code": "ops:bob", **SIGNED, field: wrong}

    with pytest.raises(NotACodeError) as refused:
        operators.add(alice, given.pop("code"), "viewer", PASSWORD, **given)

    assert refused.value.what == field
    assert codes(alice) == {"ops:alice": True}


def test_an_unfit_password_or_role_adds_nobody(alice):
    with pytest.raises(OperatorRefusedError, match="10 to 200"):
        operators.add(alice, "ops:bob", "viewer", "short", **SIGNED)
    with pytest.raises(OperatorRefusedError, match="viewer, operator, admin"):
        add(alice, "ops:bob", "root")  # pyright: ignore[reportArgumentType]
    with pytest.raises(OptionError, match="via"):
        add(alice, "ops:bob", "viewer", via="")

    assert codes(alice) == {"ops:alice": True}


def test_codes_that_look_like_setting_up_cannot_be_taken(alice):
    with pytest.raises(OperatorRefusedError, match="setup:"):
        add(alice, "setup:root")


@pytest.mark.parametrize("disabled", [False, True])
def test_a_code_is_never_given_twice(alice, disabled):
    add(alice, "ops:bob")
    if disabled:
        operators.disable(alice, "ops:bob", **SIGNED)

    with pytest.raises(OperatorRefusedError, match="never reused"):
        add(alice, "ops:bob")

    assert codes(alice)["ops:bob"] is not disabled


@pytest.mark.parametrize(
    ("by", "why"),
    [
        ("ops:nobody", "enabled operator"),
        ("ops:gone", "enabled operator"),
        ("ops:viewer", "role admin"),
        ("ops:operator", "role admin"),
    ],
)
def test_only_an_enabled_admin_signs_for_operators(alice, by, why):
    add(alice, "ops:viewer", "viewer")
    add(alice, "ops:operator", "operator")
    add(alice, "ops:gone", "admin")
    operators.disable(alice, "ops:gone", **SIGNED)
    before = acts(alice)
    signature = {**SIGNED, "by": by}

    for change in (
        lambda: add(alice, "ops:new", **signature),
        lambda: operators.disable(alice, "ops:viewer", **signature),
        lambda: operators.reset_password(alice, "ops:alice", PASSWORD, **signature),
    ):
        with pytest.raises(OperatorRefusedError, match=why):
            change()

    assert acts(alice) == before
    assert "ops:new" not in codes(alice)


@pytest.mark.parametrize("code", ["ops:nobody", "ops:gone"])
def test_only_an_enabled_operator_can_be_changed(alice, code):
    add(alice, "ops:gone")
    operators.disable(alice, "ops:gone", **SIGNED)
    before = acts(alice)

    with pytest.raises(OperatorRefusedError):
        operators.disable(alice, code, **SIGNED)
    with pytest.raises(OperatorRefusedError):
        operators.reset_password(alice, code, PASSWORD, **SIGNED)

    assert acts(alice) == before


def test_the_last_enabled_admin_stays(alice):
    add(alice, "ops:bob")
    add(alice, "ops:carol", "operator")
    operators.disable(alice, "ops:bob", **SIGNED)

    with pytest.raises(OperatorRefusedError, match="last enabled admin"):
        operators.disable(alice, "ops:alice", **SIGNED)

    assert codes(alice) == {"ops:alice": True, "ops:bob": False, "ops:carol": True}


def test_the_last_admin_may_disable_others(alice):
    add(alice, "ops:carol", "operator")

    operators.disable(alice, "ops:carol", **SIGNED)

    assert codes(alice) == {"ops:alice": True, "ops:carol": False}


def test_of_two_admins_who_disable_each_other_one_stays(database):
    first = database.connect()
    operators.add(first, "ops:alice", "admin", PASSWORD, **SETUP)
    add(first, "ops:bob")
    holding, waiting = database.connect(autocommit=False), database.connect()
    operators.disable(holding, "ops:bob", **SIGNED)
    refused: list[Exception] = []

    def disable_alice() -> None:
        try:
            operators.disable(waiting, "ops:alice", **{**SIGNED, "by": "ops:bob"})
        except OperatorRefusedError as error:
            refused.append(error)

    thread = threading.Thread(target=disable_alice)
    thread.start()
    wait_until_it_waits(first, waiting)
    holding.commit()
    thread.join(10)

    assert "enabled operator" in str(refused)
    assert codes(first) == {"ops:alice": True, "ops:bob": False}


def wait_until_it_waits(conn, waiting) -> None:
    """Return once the backend of `waiting` waits for a lock."""
    give_up = time.monotonic() + 10
    while time.monotonic() < give_up:
        row = conn.execute(
            "SELECT wait_event_type AS on_what FROM pg_stat_activity WHERE pid = %s",
            (waiting.info.backend_pid,),
        ).fetchone()
        if row["on_what"] == "Lock":
            return
        time.sleep(0.01)
    pytest.fail("the second change did not wait for the first")


def test_two_set_ups_at_once_make_one_admin(database):
    holding, waiting = database.connect(autocommit=False), database.connect()
    operators.add(holding, "ops:alice", "admin", PASSWORD, **SETUP)
    refused: list[Exception] = []

    def add_bob() -> None:
        try:
            operators.add(waiting, "ops:bob", "admin", PASSWORD, **SETUP)
        except OperatorRefusedError as error:
            refused.append(error)

    thread = threading.Thread(target=add_bob)
    thread.start()
    watching = database.connect()
    wait_until_it_waits(watching, waiting)
    holding.commit()
    thread.join(10)

    assert len(refused) == 1
    assert codes(watching) == {"ops:alice": True}


def test_a_change_that_must_not_wait_says_that_it_is_contended(database):
    holding, waiting = database.connect(autocommit=False), database.connect()
    operators.add(holding, "ops:alice", "admin", PASSWORD, **SETUP)
    waiting.execute("SET lock_timeout = '50ms'")

    with pytest.raises(ContendedError):
        operators.add(waiting, "ops:bob", "admin", PASSWORD, **SETUP)


@pytest.mark.parametrize("change", ["disable", "reset_password"])
def test_disabling_and_resetting_end_the_sessions_of_that_operator_alone(alice, change):
    add(alice, "ops:bob")
    mine = sessions.sign_in(alice, "ops:alice", PASSWORD, address="10.0.0.1")
    theirs = sessions.sign_in(alice, "ops:bob", PASSWORD, address="10.0.0.1")
    arguments = ["ops:bob", "another password"][: 1 if change == "disable" else 2]

    getattr(operators, change)(alice, *arguments, **SIGNED)

    assert sessions.resume(alice, theirs.token) is None
    assert sessions.resume(alice, mine.token)
    ended = alice.execute(
        "SELECT operator FROM countersign.sessions WHERE ended_at IS NOT NULL"
    ).fetchall()
    assert [row["operator"] for row in ended] == ["ops:bob"]


def test_a_reset_waits_for_a_sign_in_under_way_and_ends_its_session(database):
    first = database.connect()
    operators.add(first, "ops:alice", "admin", PASSWORD, **SETUP)
    signing_in, resetting = database.connect(autocommit=False), database.connect()
    signed_in = sessions.sign_in(signing_in, "ops:alice", PASSWORD, address=None)

    def reset() -> None:
        operators.reset_password(resetting, "ops:alice", "another password", **SIGNED)

    thread = threading.Thread(target=reset)
    thread.start()
    wait_until_it_waits(first, resetting)
    signing_in.commit()
    thread.join(10)

    assert sessions.resume(first, signed_in.token) is None


def test_a_reset_password_takes_the_old_ones_place(alice):
    operators.reset_password(alice, "ops:alice", "another password", **SIGNED)

    assert sessions.sign_in(alice, "ops:alice", "another password", address=None)
    with pytest.raises(OperatorRefusedError):
        sessions.sign_in(alice, "ops:alice", PASSWORD, address=None)


def test_operators_are_listed_by_code_with_the_disabled_ones(alice):
    add(alice, "ops:bob", "viewer")
    add(alice, "a-first", "operator")
    operators.disable(alice, "ops:bob", **SIGNED)

    listed = people.list_operators(alice)

    assert [(row.code, row.role, row.disabled_at is None) for row in listed] == [
        ("a-first", "operator", True),
        ("ops:alice", "admin", True),
        ("ops:bob", "viewer", False),
    ]
    assert all(row.added_at.utcoffset() is not None for row in listed)


def test_require_enabled_takes_the_role_asked_for_or_more(alice):
    add(alice, "ops:viewer", "viewer")

    operators.require_enabled(alice, "ops:alice")
    operators.require_enabled(alice, "ops:alice", role="operator")
    operators.require_enabled(alice, "ops:viewer")
    with pytest.raises(OperatorRefusedError, match="role operator"):
        operators.require_enabled(alice, "ops:viewer", role="operator")
    with pytest.raises(OperatorRefusedError, match="enabled operator"):
        operators.require_enabled(alice, "ops:nobody")
    with pytest.raises(NotACodeError):
        operators.require_enabled(alice, "a\0b")


def test_no_admin_is_enabled_in_a_new_database(conn):
    assert not people.admin_enabled(conn)
    assert people.list_operators(conn) == []
    assert people.find(conn, "ops:alice") is None


def test_passwords_stand_nowhere_but_as_hashes(alice):
    operators.reset_password(alice, "ops:alice", "another password", **SIGNED)

    for table in ("operators", "acts", "sessions"):
        held = alice.execute(f"SELECT * FROM countersign.{table}").fetchall()
        assert PASSWORD not in str(held)
        assert "another password" not in str(held)


def test_a_changed_role_counts_from_the_next_request_on_and_leaves_its_act(alice):
    add(alice, "ops:bob", "viewer")
    signed_in = sessions.sign_in(alice, "ops:bob", PASSWORD, address=None)
    act = operators.change_role(alice, "ops:bob", "operator", **SIGNED)
    session = sessions.resume(alice, signed_in.token)
    assert session
    assert session.role == "operator"
    row = alice.execute("SELECT act, note, by FROM countersign.acts WHERE id = %s", [act])
    assert row.fetchone() == {
        "act": "role_changed",
        "note": "role: viewer to operator",
        "by": "ops:alice",
    }


def test_the_last_enabled_admin_stays_one(alice):
    add(alice, "ops:bob", "operator")
    with pytest.raises(OperatorRefusedError, match="last enabled admin stays one"):
        operators.change_role(alice, "ops:alice", "operator", **SIGNED)
    operators.change_role(alice, "ops:bob", "admin", **SIGNED)
    operators.change_role(alice, "ops:alice", "viewer", **SIGNED)
    with pytest.raises(OperatorRefusedError, match="last enabled admin"):
        operators.change_role(alice, "ops:bob", "viewer", **{**SIGNED, "by": "ops:bob"})


def test_two_admins_who_demote_each_other_do_not_both_succeed(database):
    first, second = database.connect(autocommit=False), database.connect()
    operators.add(second, "ops:alice", "admin", PASSWORD, **SETUP)
    add(second, "ops:bob", "admin")
    operators.change_role(first, "ops:bob", "viewer", **SIGNED)
    refused = []

    def demote():
        try:
            operators.change_role(second, "ops:alice", "viewer", **{**SIGNED, "by": "ops:bob"})
        except OperatorRefusedError as error:
            refused.append(str(error))

    thread = threading.Thread(target=demote)
    thread.start()
    watching = database.connect()
    waiting = "SELECT count(*) AS n FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    until = time.monotonic() + 20
    while watching.execute(waiting).fetchone() != {"n": 1} and time.monotonic() < until:
        time.sleep(0.02)
    first.commit()
    thread.join(20)
    assert len(refused) == 1
    assert {row.code: row.role for row in people.list_operators(watching)} == {
        "ops:alice": "admin",
        "ops:bob": "viewer",
    }


@pytest.mark.parametrize(
    ("code", "role", "by"),
    [
        ("ops:bob", "viewer", "ops:alice"),
        ("ops:bob", "king", "ops:alice"),
        ("ops:bob", "operator", "ops:bob"),
        ("ops:bob", "operator", "ops:nobody"),
        ("ops:bob", "operator", "setup:root"),
        ("ops:nobody", "operator", "ops:alice"),
        ("ops:gone", "operator", "ops:alice"),
    ],
)
def test_a_role_that_cannot_be_changed_is_refused_and_leaves_no_act(alice, code, role, by):
    add(alice, "ops:bob", "viewer")
    add(alice, "ops:gone", "viewer")
    operators.disable(alice, "ops:gone", **SIGNED)
    before = acts(alice)
    with pytest.raises(OperatorRefusedError):
        operators.change_role(alice, code, role, **{**SIGNED, "by": by})
    assert acts(alice) == before


def test_each_change_says_which_act_it_left(alice):
    ids = [
        operators.add(alice, "ops:bob", "viewer", PASSWORD, **SIGNED),
        operators.change_role(alice, "ops:bob", "admin", **SIGNED),
        operators.reset_password(alice, "ops:bob", "another password", **SIGNED),
        operators.disable(alice, "ops:bob", **SIGNED),
    ]
    found = alice.execute("SELECT id FROM countersign.acts ORDER BY id DESC LIMIT 4").fetchall()
    assert [row["id"] for row in found] == ids[::-1]
