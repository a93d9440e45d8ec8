"""Sessions: signing in slowly for a guesser, staying signed in, and being signed out."""

import hashlib
import secrets
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

import psycopg

from queue_core import passwords, tries
from queue_core.codes import check_code
from queue_core.database import execute, rows, value
from queue_core.errors import NotACodeError, OperatorRefusedError

IDLE_SECONDS: Final = 12 * 3_600
ABSOLUTE_SECONDS: Final = 7 * 86_400
MOST_TOLD_CHARACTERS: Final = 200
_TOKEN_BYTES: Final = 32
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
    conn: psycopg.Connection[object],
    code: str,
    password: str,
    *,
    address: str | None,
    agent: str | None = None,
) -> SignedIn:
    """Start a session for the operator behind `code` and `password`.

    `address` and `agent`, what the browser calls itself, are kept with it, so that its
    operator can tell their sessions apart.

    Every wrong pair gets the same OperatorRefusedError after the same work, be the code
    unknown, disabled or right. After 5 failures of a code from an address, or 30 of an
    address, each further one doubles the wait, up to 15 minutes; TooManyTriesError says
    how long. Use a connection in autocommit: a failure that is rolled back is not counted.
    """
    passwords.prepare()
    counted = tries.tries(code, address)
    tries.count(conn, counted)
    known = _known(conn, code)
    right = passwords.matches(known.password_hash if known else None, password)
    signed_in = _start(conn, known, address, agent) if known and right else None
    if signed_in is None or known is None:
        raise OperatorRefusedError(WRONG_PAIR)
    tries.uncount(conn, counted)
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
INSERT INTO countersign.sessions (token_sha256, operator, address, agent)
SELECT %(token_sha256)s, operators.code, %(address)s, %(agent)s
FROM countersign.operators
WHERE operators.code = %(code)s
    AND operators.password_hash = %(password_hash)s
    AND operators.disabled_at IS NULL
FOR SHARE
RETURNING sessions.id
"""


def _start(
    conn: psycopg.Connection[object], known: _Known, address: str | None, agent: str | None
) -> SignedIn | None:
    token = secrets.token_urlsafe(_TOKEN_BYTES)
    given = {"code": known.code, "password_hash": known.password_hash}
    where = {"address": _kept(address), "agent": _kept(agent)}
    session = value(conn, START, {"token_sha256": _sha256(token), **given, **where})
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


def _kept(text: str | None) -> str | None:
    """Return what a client says of itself, as far as it is kept: headers can hold anything."""
    kept = "".join(each if each.isprintable() else "?" for each in text or "")
    return kept[:MOST_TOLD_CHARACTERS].strip() or None


def _sha256(text: str) -> bytes:
    return hashlib.sha256(text.encode(errors="surrogatepass")).digest()
