"""What operators do to their own account: a new password, and the end of their sessions."""

from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

import psycopg

from queue_core import passwords, tries
from queue_core.database import contention, execute, rows, transaction
from queue_core.errors import OperatorRefusedError

WRONG_PRESENT: Final = "that is not your present password"


@dataclass(frozen=True, slots=True)
class _Own:
    code: str
    password_hash: str = field(repr=False)


def change_password(
    conn: psycopg.Connection[object],
    session: UUID,
    present: str,
    new: str,
    *,
    address: str | None,
) -> int:
    """Give the operator of a session a new password; returns how many other sessions it ended.

    A wrong present one counts as a failed sign-in of their code from `address`. Use a
    connection in autocommit: a failure that is rolled back is not counted. Raises
    OperatorRefusedError where the new one is unfit or the old one, where the present one is
    wrong, or where the session is over, TooManyTriesError, and ContendedError.
    """
    password_hash = passwords.hashed(new)
    own = _own(conn, session)
    counted = tries.tries(own.code, address)
    tries.count(conn, counted)
    if not passwords.matches(own.password_hash, present):
        raise OperatorRefusedError(WRONG_PRESENT)
    tries.uncount(conn, counted)
    if passwords.matches(own.password_hash, new):
        raise OperatorRefusedError("the new password is the old one: choose another")
    return _replace(conn, session, own, password_hash)


OWN = """
SELECT operators.code, operators.password_hash
FROM countersign.sessions
JOIN countersign.operators ON operators.code = sessions.operator
WHERE sessions.id = %(session)s
    AND sessions.ended_at IS NULL
    AND operators.disabled_at IS NULL
"""


def _own(conn: psycopg.Connection[object], session: UUID) -> _Own:
    found = rows(conn, OWN, {"session": session}, _Own)
    if not found:
        raise OperatorRefusedError("your session is over: sign in again")
    return found[0]


# Waits for a sign-in under way with the old password, so that the next statement finds its session.
REPLACE = """
UPDATE countersign.operators
SET password_hash = %(new)s
WHERE operators.code = %(code)s
    AND operators.password_hash = %(old)s
    AND operators.disabled_at IS NULL
"""
END_OTHERS = """
UPDATE countersign.sessions
SET ended_at = now()
FROM countersign.sessions AS own
WHERE own.id = %(session)s
    AND sessions.operator = own.operator
    AND sessions.id <> own.id
    AND sessions.ended_at IS NULL
"""


def _replace(conn: psycopg.Connection[object], session: UUID, own: _Own, password_hash: str) -> int:
    with contention(), transaction(conn):
        given = {"code": own.code, "old": own.password_hash, "new": password_hash}
        if not execute(conn, REPLACE, given):
            raise OperatorRefusedError(WRONG_PRESENT)
        return execute(conn, END_OTHERS, {"session": session})


def end_other_sessions(conn: psycopg.Connection[object], session: UUID) -> int:
    """End every open session of the same operator but this one; returns how many."""
    return execute(conn, END_OTHERS, {"session": session})


END_OTHER = """
UPDATE countersign.sessions
SET ended_at = now()
FROM countersign.sessions AS own
WHERE own.id = %(session)s
    AND sessions.operator = own.operator
    AND sessions.id = %(other)s
    AND sessions.ended_at IS NULL
"""


def end_session(conn: psycopg.Connection[object], session: UUID, other: UUID) -> bool:
    """End one open session of the same operator; False where there is none of that id."""
    return execute(conn, END_OTHER, {"session": session, "other": other}) > 0
