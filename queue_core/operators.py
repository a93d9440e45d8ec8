"""Operators: who may sign in and act; every change to one is signed and kept like any other act."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final, LiteralString

import psycopg

from queue_core import passwords
from queue_core.acts import Signature
from queue_core.clauses import SIGNED_BY_NAME
from queue_core.codes import check_code
from queue_core.database import contention, execute, transaction, value
from queue_core.errors import OperatorRefusedError
from queue_core.queries.operators import ROLES, OperatorRow, Role, admin_enabled, find

SETUP: Final = "setup:"

random_password = passwords.random_password

ADD = (
    """
WITH changed AS (
    INSERT INTO countersign.operators (code, role, password_hash)
    VALUES (%(code)s, %(role)s, %(password_hash)s)
    ON CONFLICT (code) DO NOTHING
    RETURNING operators.code AS name
)
"""
    + SIGNED_BY_NAME
)


def add(
    conn: psycopg.Connection[object],
    code: str,
    role: Role,
    password: str,
    *,
    by: str,
    reason: str,
    via: str,
) -> int:
    """Add an operator; returns the id of the act `added`. Never commits.

    `by` must be an enabled admin's code; only while no admin is enabled may it be
    `setup:<os user>`. Raises NotACodeError where `code`, `by` or `reason` is no code,
    and OperatorRefusedError where the code was ever used, or `by` may not do this.
    """
    check_code(code, "code")
    _check_role(role)
    signed = _signed(by, reason, via, note=f"role: {role}")
    if code.startswith(SETUP):
        raise OperatorRefusedError(f"codes that begin with {SETUP} are kept for setting up")
    password_hash = passwords.hashed(password)
    with _alone(conn):
        _require_admin(conn, by, setting_up=True)
        given = {"code": code, "role": role, "password_hash": password_hash}
        act_id = value(conn, ADD, given | signed | {"act": "added"})
    if act_id is None:
        raise OperatorRefusedError(
            "that code belongs or belonged to an operator: codes are never reused, since "
            "acts are signed with them"
        )
    return int(str(act_id))


SIGNED_OUT: Final[LiteralString] = """
signed_out AS (
    UPDATE countersign.sessions
    SET ended_at = now()
    FROM changed
    WHERE sessions.operator = changed.name
        AND sessions.ended_at IS NULL
)
"""
DISABLE = (
    """
WITH changed AS (
    UPDATE countersign.operators
    SET disabled_at = now()
    WHERE operators.code = %(code)s
        AND operators.disabled_at IS NULL
    RETURNING operators.code AS name
),
"""
    + SIGNED_OUT
    + SIGNED_BY_NAME
)


def disable(conn: psycopg.Connection[object], code: str, *, by: str, reason: str, via: str) -> int:
    """Take an operator's right to sign in, for good, and end their sessions.

    Returns the id of the act `disabled`. Never commits.

    Raises NotACodeError, and OperatorRefusedError where there is no such enabled
    operator, where it is the last enabled admin, or where `by` is no enabled admin.
    """
    check_code(code, "code")
    signed = _signed(by, reason, via)
    with _alone(conn):
        _require_admin(conn, by)
        subject = _require_subject(conn, code)
        _require_another(
            conn, subject, "the last enabled admin cannot be disabled: add another admin first"
        )
        return int(str(value(conn, DISABLE, {"code": code, "act": "disabled"} | signed)))


CHANGE_ROLE = (
    """
WITH changed AS (
    UPDATE countersign.operators
    SET role = %(role)s
    WHERE operators.code = %(code)s
        AND operators.disabled_at IS NULL
    RETURNING operators.code AS name
)
"""
    + SIGNED_BY_NAME
)


def change_role(
    conn: psycopg.Connection[object], code: str, role: Role, *, by: str, reason: str, via: str
) -> int:
    """Give an enabled operator another role, from their next request on.

    Returns the id of the act `role_changed`, whose note says from which to which. Never
    commits. Raises NotACodeError, and OperatorRefusedError where there is no such enabled
    operator, where they have that role, where it is the last enabled admin, or where `by`
    is no enabled admin.
    """
    check_code(code, "code")
    _check_role(role)
    _signed(by, reason, via)
    with _alone(conn):
        _require_admin(conn, by)
        subject = _require_subject(conn, code)
        if subject.role == role:
            raise OperatorRefusedError(f"that operator has the role {role} already")
        _require_another(
            conn, subject, "the last enabled admin stays one: give another operator that role first"
        )
        signed = _signed(by, reason, via, note=f"role: {subject.role} to {role}")
        given = {"code": code, "role": role, "act": "role_changed"}
        return int(str(value(conn, CHANGE_ROLE, given | signed)))


RESET = (
    """
WITH changed AS (
    UPDATE countersign.operators
    SET password_hash = %(password_hash)s
    WHERE operators.code = %(code)s
        AND operators.disabled_at IS NULL
    RETURNING operators.code AS name
),
"""
    + SIGNED_OUT
    + SIGNED_BY_NAME
)


def reset_password(
    conn: psycopg.Connection[object],
    code: str,
    password: str,
    *,
    by: str,
    reason: str,
    via: str,
) -> int:
    """Give an enabled operator a new password and end their sessions.

    Returns the id of the act `password_reset`. Never commits.

    Raises NotACodeError, and OperatorRefusedError where there is no such enabled
    operator, where the password is unfit, or where `by` is no enabled admin.
    """
    check_code(code, "code")
    signed = _signed(by, reason, via)
    password_hash = passwords.hashed(password)
    with _alone(conn):
        _require_admin(conn, by)
        _require_subject(conn, code)
        given = {"code": code, "password_hash": password_hash, "act": "password_reset"}
        return int(str(value(conn, RESET, given | signed)))


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


def _require_another(conn: psycopg.Connection[object], subject: OperatorRow, refusal: str) -> None:
    """Refuse where no admin would be left who may sign in."""
    if subject.role == "admin" and not value(conn, ANOTHER_ADMIN, {"code": subject.code}):
        raise OperatorRefusedError(refusal)


def _signed(by: str, reason: str, via: str, *, note: str | None = None) -> dict[str, object]:
    """Check a signature and return what the clause SIGNED_BY_NAME binds, but for the act."""
    return {**Signature(by, reason, note, via).parameters(), "subject_kind": "operator"}


def _check_role(role: str) -> None:
    if role not in ROLES:
        raise OperatorRefusedError(f"a role is one of {', '.join(ROLES)}")
