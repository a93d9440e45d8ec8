from concurrent.futures import ThreadPoolExecutor

import argon2
import pytest

from queue_core import operators, sessions
from queue_core.errors import OperatorRefusedError, TooManyTriesError
from tests import hashes

quick_hashes = hashes.quick_hashes
PASSWORD = "correct horse battery"
WRONG = "wrong horse battery"
HERE = "203.0.113.7"


def add_operators(conn) -> None:
    signed = {"by": "setup:root", "reason": "set up", "via": "code"}
    operators.add(conn, "ops:gone", "admin", PASSWORD, **signed)
    signed["by"] = "ops:gone"
    operators.add(conn, "ops:alice", "admin", PASSWORD, **signed)
    operators.add(conn, "ops:bob", "viewer", PASSWORD, **signed)
    operators.disable(conn, "ops:gone", **{**signed, "by": "ops:alice"})


@pytest.fixture
def office(conn):
    """Give a connection with two operators and one who is disabled."""
    add_operators(conn)
    return conn


def fail(conn, times: int = 1, code: str = "ops:alice", address: str | None = HERE) -> None:
    for _ in range(times):
        with pytest.raises(OperatorRefusedError):
            sessions.sign_in(conn, code, WRONG, address=address)


def seconds_to_wait(conn, code: str = "ops:alice", address: str | None = HERE) -> float:
    with pytest.raises(TooManyTriesError) as refused:
        sessions.sign_in(conn, code, PASSWORD, address=address)
    return refused.value.seconds


def let_pass(conn, seconds: float) -> None:
    conn.execute(
        "UPDATE countersign.sign_in_failures SET last_at = last_at - make_interval(secs => %s)",
        (seconds,),
    )


def test_the_right_pair_starts_a_session(office):
    signed_in = sessions.sign_in(office, "ops:bob", PASSWORD, address=HERE)

    session = sessions.resume(office, signed_in.token)

    assert session == sessions.Session(signed_in.session, "ops:bob", "viewer")
    assert (signed_in.code, signed_in.role) == ("ops:bob", "viewer")
    assert len(signed_in.token) >= 43


def test_the_token_stands_nowhere(office):
    signed_in = sessions.sign_in(office, "ops:alice", PASSWORD, address=HERE)
    held = office.execute("SELECT token_sha256 FROM countersign.sessions").fetchone()

    assert signed_in.token not in repr(signed_in)
    assert signed_in.token.encode() not in held["token_sha256"]
    assert len(held["token_sha256"]) == 32


def test_each_sign_in_is_a_session_of_its_own(office):
    first = sessions.sign_in(office, "ops:alice", PASSWORD, address=HERE)
    second = sessions.sign_in(office, "ops:alice", PASSWORD, address=HERE)
    sessions.end(office, first.session)

    assert sessions.resume(office, first.token) is None
    assert sessions.resume(office, second.token)


@pytest.mark.parametrize(
    ("code", "password"),
    [
        ("ops:alice", WRONG),
        ("ops:alice", ""),
        ("ops:alice", PASSWORD + "\0"),
        ("ops:nobody", PASSWORD),
        ("ops:gone", PASSWORD),
        ("", PASSWORD),
        ("a\0b", PASSWORD),
        ("\ud800", "\ud800" * 12),
        ("x" * 1_000_000, "x" * 5_000_000),
        ("' OR true --", "' OR true --"),
    ],
)
def test_every_wrong_pair_gets_the_same_words(office, code, password):
    with pytest.raises(OperatorRefusedError) as refused:
        sessions.sign_in(office, code, password, address=HERE)

    assert str(refused.value) == sessions.WRONG_PAIR
    assert office.execute("SELECT FROM countersign.sessions").fetchall() == []


@pytest.mark.parametrize("code", ["ops:alice", "ops:nobody", "ops:gone", "a\0b"])
def test_every_wrong_pair_costs_one_comparison(office, code, monkeypatch):
    compared: list[str | None] = []
    honest = sessions.passwords.matches

    def matches(stored, password):
        compared.append(stored)
        return honest(stored, password)

    monkeypatch.setattr(sessions.passwords, "matches", matches)
    fail(office, code=code)

    assert len(compared) == 1


@pytest.mark.parametrize("code", ["ops:alice", "ops:nobody", "a\0b"])
def test_after_five_failures_the_next_try_waits(office, code):
    fail(office, 5, code)

    assert seconds_to_wait(office, code) == 2.0


def test_the_wait_doubles_up_to_a_quarter_of_an_hour(office):
    fail(office, 5)
    waits = [seconds_to_wait(office)]
    for _ in range(10):
        let_pass(office, waits[-1])
        fail(office)
        waits.append(seconds_to_wait(office))

    assert waits == [2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900]


def test_a_try_that_must_wait_is_not_looked_at_and_not_counted(office, monkeypatch):
    fail(office, 5)
    monkeypatch.setattr(sessions.passwords, "matches", pytest.fail)

    assert [seconds_to_wait(office) for _ in range(20)] == [2.0] * 20


def test_a_wait_that_is_over_lets_the_right_password_in(office):
    fail(office, 5)
    let_pass(office, 2)

    assert sessions.sign_in(office, "ops:alice", PASSWORD, address=HERE)


def test_a_stranger_cannot_lock_an_operator_out(office):
    fail(office, 5, address="198.51.100.1")

    assert sessions.sign_in(office, "ops:alice", PASSWORD, address=HERE)


def test_other_operators_at_the_address_are_let_in(office):
    fail(office, 5)

    assert sessions.sign_in(office, "ops:bob", PASSWORD, address=HERE)


def test_an_address_that_tries_many_codes_waits_as_a_whole(office):
    for number in range(30):
        fail(office, code=f"guess-{number}")

    assert seconds_to_wait(office, "ops:bob") == 2.0
    assert sessions.sign_in(office, "ops:bob", PASSWORD, address="198.51.100.1")


def test_success_forgets_the_pairs_failures(office):
    fail(office, 4)
    sessions.sign_in(office, "ops:alice", PASSWORD, address=HERE)

    fail(office, 5)
    assert seconds_to_wait(office) == 2.0


def test_success_does_not_forget_what_the_address_did(office):
    for number in range(29):
        fail(office, code=f"guess-{number}")
    sessions.sign_in(office, "ops:alice", PASSWORD, address=HERE)
    fail(office, code="guess-29")

    assert seconds_to_wait(office) == 2.0


def test_success_costs_the_address_nothing(office):
    for _ in range(40):
        sessions.sign_in(office, "ops:alice", PASSWORD, address=HERE)


def test_failures_are_forgotten_after_an_hour_of_quiet(office):
    fail(office, 5)
    let_pass(office, 3_600)

    fail(office, 5)
    assert seconds_to_wait(office) == 2.0


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("2001:db8:1:2::1", "2001:db8:1:2:ffff::9"),
        ("::ffff:203.0.113.7", "203.0.113.7"),
        (None, "not an address"),
        (" 203.0.113.7", "203.0.113.7"),
    ],
)
def test_spellings_of_one_place_are_one_address(office, first, second):
    fail(office, 5, address=first)

    assert seconds_to_wait(office, address=second) == 2.0


def test_another_network_is_another_address(office):
    fail(office, 5, address="2001:db8:1:2::1")

    assert sessions.sign_in(office, "ops:alice", PASSWORD, address="2001:db8:1:3::1")


def test_what_was_typed_as_a_code_is_not_kept(office):
    """People type their password into the wrong field."""
    fail(office, code=PASSWORD)

    kept = office.execute("SELECT * FROM countersign.sign_in_failures").fetchall()
    assert PASSWORD not in str(kept)


def test_old_rows_of_failures_are_swept_out(office):
    fail(office, code="guess")
    let_pass(office, 100_000)
    sessions.sign_in(office, "ops:bob", PASSWORD, address="198.51.100.1")

    rows = office.execute("SELECT address FROM countersign.sign_in_failures").fetchall()
    assert {row["address"] for row in rows} == {"198.51.100.1"}


def test_fifty_tries_at_once_are_no_more_than_five(database):
    add_operators(database.connect())

    def guess(number: int) -> str:
        conn = database.connect()
        try:
            sessions.sign_in(conn, "ops:alice", f"guess number {number}", address=HERE)
        except (OperatorRefusedError, TooManyTriesError) as error:
            return type(error).__name__
        finally:
            conn.close()
        return "in"

    with ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(guess, range(50)))

    assert answers.count("OperatorRefusedError") == 5
    assert answers.count("TooManyTriesError") == 45


def test_a_hash_with_old_settings_is_renewed_at_sign_in(office):
    weaker = argon2.PasswordHasher(time_cost=1, memory_cost=32, parallelism=1)
    office.execute(
        "UPDATE countersign.operators SET password_hash = %s WHERE code = 'ops:bob'",
        (weaker.hash(PASSWORD),),
    )

    sessions.sign_in(office, "ops:bob", PASSWORD, address=HERE)

    row = office.execute(
        "SELECT password_hash FROM countersign.operators WHERE code = 'ops:bob'"
    ).fetchone()
    assert argon2.extract_parameters(row["password_hash"]).memory_cost == 64
    assert sessions.sign_in(office, "ops:bob", PASSWORD, address=HERE)


def test_a_password_reset_during_a_sign_in_wins(database, monkeypatch):
    conn, other = database.connect(), database.connect()
    add_operators(conn)
    honest = sessions.passwords.matches

    def matches(stored, password):
        operators.reset_password(
            other, "ops:bob", "another password", by="ops:alice", reason="leaked", via="code"
        )
        return honest(stored, password)

    monkeypatch.setattr(sessions.passwords, "matches", matches)
    with pytest.raises(OperatorRefusedError):
        sessions.sign_in(conn, "ops:bob", PASSWORD, address=HERE)

    assert conn.execute("SELECT FROM countersign.sessions").fetchall() == []


def age(conn, column: str, seconds: float) -> None:
    conn.execute(
        f"UPDATE countersign.sessions SET {column} = now() - make_interval(secs => {seconds})"
    )


@pytest.mark.parametrize(
    ("column", "seconds", "alive"),
    [
        ("seen_at", 12 * 3_600 - 60, True),
        ("seen_at", 12 * 3_600 + 60, False),
        ("created_at", 7 * 86_400 - 60, True),
        ("created_at", 7 * 86_400 + 60, False),
    ],
)
def test_a_session_lapses_when_idle_for_12_hours_or_after_7_days(office, column, seconds, alive):
    signed_in = sessions.sign_in(office, "ops:alice", PASSWORD, address=HERE)
    age(office, column, seconds)

    assert bool(sessions.resume(office, signed_in.token)) is alive


def test_a_session_does_not_outlive_its_operator(office):
    signed_in = sessions.sign_in(office, "ops:bob", PASSWORD, address=HERE)
    office.execute("UPDATE countersign.operators SET disabled_at = now() WHERE code = 'ops:bob'")

    assert sessions.resume(office, signed_in.token) is None


def test_a_session_has_the_role_that_its_operator_has_today(office):
    signed_in = sessions.sign_in(office, "ops:bob", PASSWORD, address=HERE)
    office.execute("UPDATE countersign.operators SET role = 'operator' WHERE code = 'ops:bob'")

    session = sessions.resume(office, signed_in.token)
    assert session
    assert session.role == "operator"


@pytest.mark.parametrize(("seconds", "written"), [(30, False), (90, True)])
def test_being_seen_is_written_at_most_once_a_minute(office, seconds, written):
    signed_in = sessions.sign_in(office, "ops:alice", PASSWORD, address=HERE)
    age(office, "seen_at", seconds)

    sessions.resume(office, signed_in.token)

    row = office.execute("SELECT seen_at = now() AS fresh FROM countersign.sessions").fetchone()
    assert row["fresh"] is written


@pytest.mark.parametrize("token", ["", "x", "x" * 1_000_000, "a\0b", "\ud800", "' OR true --"])
def test_what_is_no_token_resumes_nothing(office, token):
    sessions.sign_in(office, "ops:alice", PASSWORD, address=HERE)

    assert sessions.resume(office, token) is None


def test_an_ended_session_stays_ended(office):
    signed_in = sessions.sign_in(office, "ops:alice", PASSWORD, address=HERE)
    sessions.end(office, signed_in.session)
    office.execute("UPDATE countersign.sessions SET ended_at = ended_at - interval '1 hour'")
    sessions.end(office, signed_in.session)

    assert sessions.resume(office, signed_in.token) is None
    row = office.execute("SELECT ended_at < now() AS earlier FROM countersign.sessions").fetchone()
    assert row["earlier"]
