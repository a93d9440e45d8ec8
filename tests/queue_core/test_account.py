"""One's own account: a new password for who knows the present one, and the end of sessions."""

import threading
import time
import uuid

import pytest

from queue_core import account, operators, sessions
from queue_core.errors import OperatorRefusedError, TooManyTriesError
from queue_core.queries.sessions import open_sessions
from tests import hashes

quick_hashes = hashes.quick_hashes
PASSWORD = "correct horse battery"
NEW = "staple of another kind"
HERE = "203.0.113.7"


def add_operators(conn):
    operators.add(
        conn, "ops:alice", "admin", PASSWORD, by="setup:root", reason="first", via="cli:root@x"
    )
    operators.add(conn, "ops:bob", "viewer", PASSWORD, by="ops:alice", reason="new", via="code")


@pytest.fixture
def office(conn):
    """Give a connection with two operators."""
    add_operators(conn)
    return conn


def enter(conn, code="ops:alice", password=PASSWORD, **more):
    return sessions.sign_in(conn, code, password, address=HERE, **more)


def lives(conn, signed_in):
    return sessions.resume(conn, signed_in.token) is not None


def change(conn, signed_in, present=PASSWORD, new=NEW):
    return account.change_password(conn, signed_in.session, present, new, address=HERE)


def listed(conn, code="ops:alice"):
    return open_sessions(conn, code, idle=sessions.IDLE_SECONDS, absolute=sessions.ABSOLUTE_SECONDS)


def test_a_new_password_takes_the_old_ones_place_and_ends_every_other_session(office):
    mine, other, third, bobs = enter(office), enter(office), enter(office), enter(office, "ops:bob")
    assert change(office, mine) == 2
    assert [lives(office, each) for each in (mine, other, third, bobs)] == [
        True,
        False,
        False,
        True,
    ]
    assert enter(office, password=NEW)
    with pytest.raises(OperatorRefusedError):
        enter(office)


def test_without_the_present_password_nothing_changes(office):
    mine, other = enter(office), enter(office)
    with pytest.raises(OperatorRefusedError, match="not your present"):
        change(office, mine, present="wrong horse battery")
    assert lives(office, other)
    assert enter(office)


def test_whoever_guesses_the_present_password_has_to_wait(office):
    mine = enter(office)
    for _ in range(5):
        with pytest.raises(OperatorRefusedError):
            change(office, mine, present="wrong horse battery")
    with pytest.raises(TooManyTriesError):
        change(office, mine)
    assert lives(office, mine)


def test_a_right_one_is_not_counted(office):
    mine = enter(office)
    for number in range(8):
        change(
            office,
            mine,
            *(PASSWORD, NEW) if number % 2 == 0 else (NEW, PASSWORD),
        )
    assert enter(office)


@pytest.mark.parametrize("new", ["short", "x" * 201, "tab\there and more", "", PASSWORD])
def test_an_unfit_new_password_or_the_same_again_changes_nothing(office, new):
    mine, other = enter(office), enter(office)
    for _ in range(7):
        with pytest.raises(OperatorRefusedError):
            change(office, mine, new=new)
    assert lives(office, other)
    assert enter(office)


def test_a_session_that_is_over_changes_nothing(office):
    mine = enter(office)
    sessions.end(office, mine.session)
    with pytest.raises(OperatorRefusedError, match="session is over"):
        change(office, mine)
    with pytest.raises(OperatorRefusedError, match="session is over"):
        account.change_password(office, uuid.uuid4(), PASSWORD, NEW, address=HERE)


def test_a_sign_in_under_way_with_the_old_password_does_not_outlive_it(database):
    changing, entering = database.connect(), database.connect(autocommit=False)
    add_operators(changing)
    mine = enter(changing)
    # Not committed yet, and from elsewhere, where its tries are counted apart.
    late = sessions.sign_in(entering, "ops:alice", PASSWORD, address="203.0.113.99")
    done = threading.Thread(target=change, args=(changing, mine))
    done.start()
    waiting = "SELECT count(*) AS n FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    watching = database.connect()
    until = time.monotonic() + 20
    while watching.execute(waiting).fetchone() != {"n": 1} and time.monotonic() < until:
        time.sleep(0.02)
    entering.commit()
    done.join(20)
    assert lives(watching, mine)
    assert not lives(watching, late)


def test_one_session_is_ended_and_only_ones_own(office):
    mine, other, bobs = enter(office), enter(office), enter(office, "ops:bob")
    assert not account.end_session(office, mine.session, bobs.session)
    assert not account.end_session(office, mine.session, uuid.uuid4())
    assert account.end_session(office, mine.session, other.session)
    assert not account.end_session(office, mine.session, other.session)
    assert [lives(office, each) for each in (mine, other, bobs)] == [True, False, True]


def test_all_others_are_ended_and_nobody_elses(office):
    mine, other, bobs = enter(office), enter(office), enter(office, "ops:bob")
    assert account.end_other_sessions(office, mine.session) == 1
    assert account.end_other_sessions(office, mine.session) == 0
    assert [lives(office, each) for each in (mine, other, bobs)] == [True, False, True]


def test_open_sessions_say_since_when_and_where_they_were_begun(office):
    first = enter(office, agent="Firefox")
    second = sessions.sign_in(office, "ops:alice", PASSWORD, address=None)
    enter(office, "ops:bob")
    ended = enter(office)
    sessions.end(office, ended.session)
    found = {row.id: row for row in listed(office)}
    assert set(found) == {first.session, second.session}
    told = found[first.session]
    assert (told.address, told.agent) == (HERE, "Firefox")
    assert told.created_at <= told.seen_at
    assert (found[second.session].address, found[second.session].agent) == (None, None)
    assert HERE not in repr(told)
    assert "Firefox" not in repr(told)


@pytest.mark.parametrize(("column", "hours"), [("seen_at", 12.1), ("created_at", 7 * 24 + 0.1)])
def test_a_session_that_has_lapsed_is_open_no_longer(office, column, hours):
    mine = enter(office)
    office.execute(
        f"UPDATE countersign.sessions SET {column} = now() - make_interval(secs => %s)",
        [hours * 3_600],
    )
    assert not lives(office, mine)
    assert listed(office) == []


@pytest.mark.parametrize("agent", ["x" * 5_000, "\x01\x1b[31m\n", "\u202eevil", "   ", "é" * 300])
def test_whatever_a_client_calls_itself_is_kept_in_part(office, agent):
    enter(office, agent=agent)
    (row,) = listed(office)
    assert row.agent is None or (1 <= len(row.agent) <= 200 and row.agent.isprintable())
