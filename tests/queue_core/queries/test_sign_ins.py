"""Which sign-ins failed lately: by operators' codes, and never what else was typed."""

import pytest

from queue_core import operators, sessions
from queue_core.errors import OperatorRefusedError
from queue_core.queries.sign_ins import failed_lately

PASSWORD = "correct horse battery"
TYPED = "my-password-in-the-wrong-field"


@pytest.fixture
def office(conn):
    """Give a connection with one operator."""
    operators.add(
        conn, "ops:álice", "admin", PASSWORD, by="setup:root", reason="first", via="cli:root@x"
    )
    return conn


def fail(conn, code, address, times=1):
    for _ in range(times):
        with pytest.raises(OperatorRefusedError):
            sessions.sign_in(conn, code, "wrong horse battery", address=address)


def told(conn):
    """Return what is told, in an order of its own."""
    found = [(row.address, row.together, row.code, row.failures) for row in failed_lately(conn)]
    return sorted(found, key=str)


def test_failures_are_told_by_code_and_place_and_by_place_alone(office):
    fail(office, "ops:álice", "203.0.113.7", times=2)
    fail(office, TYPED, "203.0.113.7")
    fail(office, "ops:álice", "2001:db8::1")
    assert told(office) == [
        ("2001:db8::/64", False, "ops:álice", 1),
        ("2001:db8::/64", True, None, 1),
        ("203.0.113.7", False, "ops:álice", 2),
        ("203.0.113.7", False, None, 1),
        ("203.0.113.7", True, None, 3),
    ]
    assert TYPED not in str(failed_lately(office))


def test_what_went_right_is_no_failure(office):
    fail(office, "ops:álice", "203.0.113.7")
    sessions.sign_in(office, "ops:álice", PASSWORD, address="203.0.113.7")
    assert told(office) == [("203.0.113.7", True, None, 1)]
    sessions.sign_in(office, "ops:álice", PASSWORD, address="203.0.113.8")
    assert len(failed_lately(office)) == 1


def test_those_of_the_last_day_come_the_latest_first(office):
    for place in range(1, 4):
        fail(office, "ops:álice", f"203.0.113.{place}")
        office.execute(
            "UPDATE countersign.sign_in_failures SET last_at = last_at - make_interval(hours => 9)"
        )
    found = [row.address for row in failed_lately(office)]
    assert found == ["203.0.113.3"] * 2 + ["203.0.113.2"] * 2
    assert len(failed_lately(office, most=3)) == 3


def test_the_code_of_an_operator_who_is_disabled_is_told_too(office):
    signed = {"by": "ops:álice", "reason": "left", "via": "code"}
    operators.add(office, "ops:gone", "viewer", PASSWORD, **signed)
    operators.disable(office, "ops:gone", **signed)
    fail(office, "ops:gone", "203.0.113.7")
    assert [row.code for row in failed_lately(office) if not row.together] == ["ops:gone"]
