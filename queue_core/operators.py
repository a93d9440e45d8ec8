"""Operators: who may sign in and act; every change to one is signed and kept like any other act."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, get_args

import psycopg

from queue_core import passwords
from queue_core.codes import check_code
from queue_core.database import contention, execute, rows, transaction, value
from queue_core.errors import OperatorRefusedError

Role = Literal["viewer", "operator", "admin"]
ROLES: Final[tuple[Role, ...]] = get_args(Role)
"""From the least to the most allowed: viewers read, operators act, admins manage operators."""
SETUP: Final = "setup:"
MAX_VIA_CHARACTERS: Final = 400

random_password = passwords.random_password


@dataclass(frozen=True, slots=True)
class OperatorRow:
    """An operator as lists show one. `disabled_at` is None while they may sign in."""

    code: str
    role: Role
    added_at: datetime
    disabled_at: datetime | None


ADD = """
WITH added AS (
    INSERT INTO countersign.operators (code, role, password_hash)
    VALUES (%(code)s, %(role)s, %(password_hash)s)
    ON CONFLICT (code) DO NOTHING
    RETURNING operators.code
)
INSERT INTO countersign.acts (by, act, subject_kind, subject_name, reason, via)
SELECT %(by)s, 'added', 'operator', added.code, %(reason)s, %(via)s
FROM added
"""


def add(
    conn: psycopg.Connection[object],
    code: str,
    role: Role,
    password: str,
    *,
    by: str,
    reason: str,
    via: str,
) -> None:
    """Add an operator, and the act `added` with it; never commits.

    `by` must be an enabled admin's code; only while no admin is enabled may it be
    `setup:<os user>`. Raises NotACodeError where `code`, `by` or `reason` is no code,
    and OperatorRefusedError where the code was ever used, or `by` may not do this.
    """
    check_code(code, "code")
    _check_signature(by, reason, via)
    _check_role(role)
    if code.startswith(SETUP):
        raise OperatorRefusedError(f"codes that begin with {SETUP} are kept for setting up")
    password_hash = passwords.hashed(password)
    with _alone(conn):
        _require_admin(conn, by, setting_up=True)
        given = {"code": code, "role": role, "password_hash": password_hash}
        if not execute(conn, ADD, {**given, "by": by, "reason": reason, "via": via}):
            raise OperatorRefusedError(
                "that code belongs or belonged to an operator: codes are never reused, since "
                "acts are signed with them"
            )


DISABLE = """
WITH disabled AS (
    UPDATE countersign.operators
    SET disabled_at = now()
    WHERE operators.code = %(code)s
        AND operators.disabled_at IS NULL
    RETURNING operators.code
),
signed_out AS (
    UPDATE countersign.sessions
    SET ended_at = now()
    FROM disabled
    WHERE sessions.operator = disabled.code
        AND sessions.ended_at IS NULL
)
INSERT INTO countersign.acts (by, act, subject_kind, subject_name, reason, via)
SELECT %(by)s, 'disabled', 'operator', disabled.code, %(reason)s, %(via)s
FROM disabled
"""


def disable(conn: psycopg.Connection[object], code: str, *, by: str, reason: str, via: str) -> None:
    """Take an operator's right to sign in, for good, and end their sessions; never commits.

    Raises NotACodeError, and OperatorRefusedError where there is no such enabled
    operator, where it is the last enabled admin, or where `by` is no enabled admin.
    """
    check_code(code, "code")
    _check_signature(by, reason, via)
    with _alone(conn):
        _require_admin(conn, by)
        subject = _require_subject(conn, code)
        if subject.role == "admin" and not _another_admin(conn, code):
            raise OperatorRefusedError(
                "the last enabled admin cannot be disabled: add another admin first"
            )
        execute(conn, DISABLE, {"code": code, "by": by, "reason": reason, "via": via})


RESET = """
WITH changed AS (
    UPDATE countersign.operators
    SET password_hash = %(password_hash)s
    WHERE operators.code = %(code)s
        AND operators.disabled_at IS NULL
    RETURNING operators.code
),
signed_out AS (
    UPDATE countersign.sessions
    SET ended_at = now()
    FROM changed
    WHERE sessions.operator = changed.code
        AND sessions.ended_at IS NULL
)
INSERT INTO countersign.acts (by, act, subject_kind, subject_name, reason, via)
SELECT %(by)s, 'password_reset', 'operator', changed.code, %(reason)s, %(via)s
FROM changed
"""


def reset_password(
    conn: psycopg.Connection[object],
    code: str,
    password: str,
    *,
    by: str,
    reason: str,
    via: str,
) -> None:
    """Give an enabled operator a new password and end their sessions; never commits.

    Raises NotACodeError, and OperatorRefusedError where there is no such enabled
    operator, where the password is unfit, or where `by` is no enabled admin.
    """
    check_code(code, "code")
    _check_signature(by, reason, via)
    password_hash = passwords.hashed(password)
    with _alone(conn):
        _require_admin(conn, by)
        _require_subject(conn, code)
        given = {"code": code, "password_hash": password_hash}
        execute(conn, RESET, {**given, "by": by, "reason": reason, "via": via})


LIST = """
SELECT operators.code, operators.role, operators.added_at, operators.disabled_at
FROM countersign.operators
ORDER BY operators.code
"""


def list_operators(conn: psycopg.Connection[object]) -> list[OperatorRow]:
    """Return every operator there ever was, by code."""
    return rows(conn, LIST, {}, OperatorRow)


FIND = """
SELECT operators.code, operators.role, operators.added_at, operators.disabled_at
FROM countersign.operators
WHERE operators.code = %(code)s
"""


def find(conn: psycopg.Connection[object], code: str) -> OperatorRow | None:
    """Return the operator of this code, disabled ones too. Raises NotACodeError."""
    found = rows(conn, FIND, {"code": check_code(code, "code")}, OperatorRow)
    return found[0] if found else None


ADMIN_ENABLED = """
SELECT EXISTS (
    SELECT FROM countersign.operators
    WHERE operators.role = 'admin'
        AND operators.disabled_at IS NULL
)
"""


def admin_enabled(conn: psycopg.Connection[object]) -> bool:
    """Say whether there is an admin who may sign in; until there is, `add` is setting up."""
    return bool(value(conn, ADMIN_ENABLED, {}))


def require_enabled(conn: psycopg.Connection[object], code: str, *, role: Role = "viewer") -> None:
    """Return only where `code` is an enabled operator's who has `role` or more.

    Raises NotACodeError about `by`, or OperatorRefusedError, which says what is missing.
    """
    check_code(code, "by")
    signer = find(conn, code)
    if signer is None or signer.disabled_at is not None:
        raise OperatorRefusedError("`by` must be the code of an enabled operator")
    if ROLES.index(signer.role) < ROLES.index(role):
        raise OperatorRefusedError(
            f"`by` must be the code of an operator with the role {role}; that one is a "
            f"{signer.role}"
        )


ALONE = """
LOCK TABLE countersign.operators IN SHARE ROW EXCLUSIVE MODE
"""
HOLD_SIGN_INS = """
SELECT operators.code
FROM countersign.operators
WHERE operators.disabled_at IS NULL
ORDER BY operators.code
FOR UPDATE
"""


@contextmanager
def _alone(conn: psycopg.Connection[object]) -> Generator[None]:
    """One change at a time: two admins who disable each other must not both succeed.

    The rows too: a sign-in under way with the old password ends before the change looks
    for sessions to end. Raises ContendedError.
    """
    with contention(), transaction(conn):
        execute(conn, ALONE, {})
        execute(conn, HOLD_SIGN_INS, {})
        yield


def _require_admin(conn: psycopg.Connection[object], by: str, *, setting_up: bool = False) -> None:
    if not by.startswith(SETUP):
        require_enabled(conn, by, role="admin")
    elif not setting_up or admin_enabled(conn):
        raise OperatorRefusedError(
            f"{SETUP} signs only for adding an operator while no admin is enabled; sign with "
            "an admin's code"
        )


def _require_subject(conn: psycopg.Connection[object], code: str) -> OperatorRow:
    subject = find(conn, code)
    if subject is None:
        raise OperatorRefusedError("no operator has that code")
    if subject.disabled_at is not None:
        raise OperatorRefusedError("that operator is disabled already, for good")
    return subject


ANOTHER_ADMIN = """
SELECT EXISTS (
    SELECT FROM countersign.operators
    WHERE operators.role = 'admin'
        AND operators.disabled_at IS NULL
        AND operators.code <> %(code)s
)
"""


def _another_admin(conn: psycopg.Connection[object], code: str) -> bool:
    return bool(value(conn, ANOTHER_ADMIN, {"code": code}))


def _check_signature(by: str, reason: str, via: str) -> None:
    check_code(by, "by")
    check_code(reason, "reason")
    if not 1 <= len(via) <= MAX_VIA_CHARACTERS:
        raise OperatorRefusedError(f"`via` must be 1 to {MAX_VIA_CHARACTERS} characters")


def _check_role(role: str) -> None:
    if role not in ROLES:
        raise OperatorRefusedError(f"a role is one of {', '.join(ROLES)}")
