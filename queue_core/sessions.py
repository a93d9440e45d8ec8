"""Sessions: signing in slowly for a guesser, staying signed in, and being signed out."""

import hashlib
import ipaddress
import secrets
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

import psycopg

from queue_core import passwords
from queue_core.codes import check_code
from queue_core.database import execute, rows, value
from queue_core.errors import NotACodeError, OperatorRefusedError, TooManyTriesError

IDLE_SECONDS: Final = 12 * 3_600
ABSOLUTE_SECONDS: Final = 7 * 86_400
FREE_TRIES: Final = 5
"""Failures of one code from one address before the next try has to wait."""
FREE_TRIES_OF_ADDRESS: Final = 30
LONGEST_WAIT_SECONDS: Final = 900.0
FORGOTTEN_AFTER_SECONDS: Final = 3_600
_TOKEN_BYTES: Final = 32
_WHOLE_ADDRESS: Final = ""
_MOST_DOUBLINGS: Final = 10
_MOST_LOOKS: Final = 100
WRONG_PAIR: Final = "that code and password do not belong to an enabled operator"


@dataclass(frozen=True, slots=True)
class SignedIn:
    """A new session. `token` is for the cookie and stands nowhere else."""

    token: str = field(repr=False)
    session: UUID
    code: str
    role: str


@dataclass(frozen=True, slots=True)
class Session:
    """Who a token speaks for; `role` is today's, not the one at sign-in."""

    id: UUID
    code: str
    role: str


@dataclass(frozen=True, slots=True)
class _Known:
    code: str
    role: str
    password_hash: str = field(repr=False)


def sign_in(
    conn: psycopg.Connection[object], code: str, password: str, *, address: str | None
) -> SignedIn:
    """Start a session for the operator behind `code` and `password`.

    Every wrong pair gets the same OperatorRefusedError after the same work, be the code
    unknown, disabled or right. After 5 failures of a code from an address, or 30 of an
    address, each further one doubles the wait, up to 15 minutes; TooManyTriesError says
    how long. Use a connection in autocommit: a failure that is rolled back is not counted.
    """
    passwords.prepare()
    tries = _tries(code, address)
    _count(conn, tries)
    known = _known(conn, code)
    right = passwords.matches(known.password_hash if known else None, password)
    signed_in = _start(conn, known) if known and right else None
    if signed_in is None or known is None:
        raise OperatorRefusedError(WRONG_PAIR)
    _uncount(conn, tries)
    if passwords.is_outdated(known.password_hash):
        _rehash(conn, known, password)
    return signed_in


RESUME = """
SELECT sessions.id, operators.code, operators.role
FROM countersign.sessions
JOIN countersign.operators ON operators.code = sessions.operator
WHERE sessions.token_sha256 = %(token_sha256)s
    AND sessions.ended_at IS NULL
    AND sessions.seen_at > now() - make_interval(secs => %(idle)s)
    AND sessions.created_at > now() - make_interval(secs => %(absolute)s)
    AND operators.disabled_at IS NULL
"""


def resume(conn: psycopg.Connection[object], token: str) -> Session | None:
    """Return the session behind `token`, or None where it ended, lapsed or never was.

    It lapses after 12 h without a request, after 7 days whatever happens, and at once
    when its operator is disabled.
    """
    limits = {"idle": IDLE_SECONDS, "absolute": ABSOLUTE_SECONDS}
    found = rows(conn, RESUME, {"token_sha256": _sha256(token), **limits}, Session)
    if not found:
        return None
    _see(conn, found[0].id)
    return found[0]


END = """
UPDATE countersign.sessions
SET ended_at = now()
WHERE sessions.id = %(session)s
    AND sessions.ended_at IS NULL
"""


def end(conn: psycopg.Connection[object], session_id: UUID) -> None:
    """End a session; its token is worth nothing from then on. Ended already, nothing happens."""
    execute(conn, END, {"session": session_id})


# At most once a minute: not every request is to be a write.
SEE = """
UPDATE countersign.sessions
SET seen_at = now()
WHERE sessions.id = %(session)s
    AND sessions.ended_at IS NULL
    AND sessions.seen_at < now() - interval '1 minute'
"""


def _see(conn: psycopg.Connection[object], session_id: UUID) -> None:
    execute(conn, SEE, {"session": session_id})


KNOWN = """
SELECT operators.code, operators.role, operators.password_hash
FROM countersign.operators
WHERE operators.code = %(code)s
    AND operators.disabled_at IS NULL
"""


def _known(conn: psycopg.Connection[object], code: str) -> _Known | None:
    with suppress(NotACodeError):
        found = rows(conn, KNOWN, {"code": check_code(code, "code")}, _Known)
        return found[0] if found else None
    return None


# The hash again, and under a lock: a password reset that came between ends sessions, and
# must not miss this one.
START = """
INSERT INTO countersign.sessions (token_sha256, operator)
SELECT %(token_sha256)s, operators.code
FROM countersign.operators
WHERE operators.code = %(code)s
    AND operators.password_hash = %(password_hash)s
    AND operators.disabled_at IS NULL
FOR SHARE
RETURNING sessions.id
"""


def _start(conn: psycopg.Connection[object], known: _Known) -> SignedIn | None:
    token = secrets.token_urlsafe(_TOKEN_BYTES)
    given = {"code": known.code, "password_hash": known.password_hash}
    session = value(conn, START, {"token_sha256": _sha256(token), **given})
    if not isinstance(session, UUID):
        return None
    return SignedIn(token, session, known.code, known.role)


REHASH = """
UPDATE countersign.operators
SET password_hash = %(new)s
WHERE operators.code = %(code)s
    AND operators.password_hash = %(old)s
"""


def _rehash(conn: psycopg.Connection[object], known: _Known, password: str) -> None:
    new = passwords.hashed(password)
    execute(conn, REHASH, {"code": known.code, "old": known.password_hash, "new": new})


@dataclass(frozen=True, slots=True)
class _Tries:
    """A row of failures: `code` is a digest, since people type passwords into the wrong field."""

    code: str
    address: str
    free: int


@dataclass(frozen=True, slots=True)
class _Failures:
    failures: int
    age: float


def _tries(code: str, address: str | None) -> tuple[_Tries, _Tries]:
    place = _place(address)
    return (
        _Tries(_WHOLE_ADDRESS, place, FREE_TRIES_OF_ADDRESS),
        _Tries(_sha256(code).hex(), place, FREE_TRIES),
    )


def _place(address: str | None) -> str:
    """An IPv6 customer has 2**64 addresses: they are one place."""
    try:
        parsed = ipaddress.ip_address((address or "").strip())
    except ValueError:
        return "unknown"
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped:
        return str(parsed.ipv4_mapped)
    if isinstance(parsed, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((int(parsed), 64), strict=False))
    return str(parsed)


def _wait(row: _Tries, seen: _Failures) -> float:
    """Seconds still to wait after `seen.failures`: 2, 4, 8 … up to 900 past the free ones."""
    if seen.failures < row.free:
        return 0.0
    doublings = min(seen.failures - row.free + 1, _MOST_DOUBLINGS)
    return max(min(2.0**doublings, LONGEST_WAIT_SECONDS) - seen.age, 0.0)


def _count(conn: psycopg.Connection[object], tries: tuple[_Tries, _Tries]) -> None:
    """Count a failure before the password is looked at: a hundred tries at once are a hundred.

    Raises TooManyTriesError, counting nothing, where either row has to wait.
    """
    for row in tries:
        _require_no_wait(row, _look(conn, row))
    for row in tries:
        _add(conn, row)


def _require_no_wait(row: _Tries, seen: _Failures) -> None:
    seconds = _wait(row, seen)
    if seconds > 0:
        raise TooManyTriesError(max(seconds, 1.0))


def _add(conn: psycopg.Connection[object], row: _Tries) -> None:
    for _ in range(_MOST_LOOKS):
        seen = _look(conn, row)
        _require_no_wait(row, seen)
        if _add_to(conn, row, seen.failures):
            return
    raise TooManyTriesError(1.0)


LOOK = """
SELECT sign_in_failures.failures,
    EXTRACT(EPOCH FROM now() - sign_in_failures.last_at)::double precision AS age
FROM countersign.sign_in_failures
WHERE sign_in_failures.code = %(code)s
    AND sign_in_failures.address = %(address)s
    AND sign_in_failures.last_at > now() - make_interval(secs => %(forgotten)s)
"""


def _look(conn: psycopg.Connection[object], row: _Tries) -> _Failures:
    given: dict[str, object] = {"code": row.code, "address": row.address}
    found = rows(conn, LOOK, {**given, "forgotten": FORGOTTEN_AFTER_SECONDS}, _Failures)
    return found[0] if found else _Failures(0, 0.0)


# Only on top of what was seen: of two tries at once one finds the other's and looks again.
ADD_TO = """
INSERT INTO countersign.sign_in_failures AS counted (code, address, failures, last_at)
VALUES (%(code)s, %(address)s, 1, now())
ON CONFLICT (code, address) DO UPDATE
SET failures = %(seen)s + 1,
    last_at = now()
WHERE counted.failures = %(seen)s
    OR counted.last_at <= now() - make_interval(secs => %(forgotten)s)
"""


def _add_to(conn: psycopg.Connection[object], row: _Tries, seen: int) -> int:
    given: dict[str, object] = {"code": row.code, "address": row.address, "seen": seen}
    return execute(conn, ADD_TO, {**given, "forgotten": FORGOTTEN_AFTER_SECONDS})


# Only the pair's: were the address's forgotten too, one good account would let an address guess
# for ever.
FORGET = """
DELETE FROM countersign.sign_in_failures
WHERE sign_in_failures.code = %(code)s
    AND sign_in_failures.address = %(address)s
"""
TAKE_BACK = """
UPDATE countersign.sign_in_failures
SET failures = sign_in_failures.failures - 1
WHERE sign_in_failures.code = %(code)s
    AND sign_in_failures.address = %(address)s
    AND sign_in_failures.failures > 0
"""
TIDY = """
DELETE FROM countersign.sign_in_failures
WHERE ctid = ANY(ARRAY(
    SELECT sign_in_failures.ctid
    FROM countersign.sign_in_failures
    WHERE sign_in_failures.last_at < now() - interval '1 day'
    LIMIT 1000
    FOR UPDATE SKIP LOCKED
))
"""


def _uncount(conn: psycopg.Connection[object], tries: tuple[_Tries, _Tries]) -> None:
    whole_address, pair = tries
    execute(conn, TAKE_BACK, {"code": whole_address.code, "address": whole_address.address})
    execute(conn, FORGET, {"code": pair.code, "address": pair.address})
    execute(conn, TIDY, {})


def _sha256(text: str) -> bytes:
    return hashlib.sha256(text.encode(errors="surrogatepass")).digest()
