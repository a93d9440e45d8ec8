"""Who may sign in, and who ever did."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, get_args

import psycopg

from queue_core.codes import check_code
from queue_core.database import rows, value

Role = Literal["viewer", "operator", "admin"]
ROLES: Final[tuple[Role, ...]] = get_args(Role)
"""From the least to the most allowed: viewers read, operators act, admins manage operators."""


@dataclass(frozen=True, slots=True)
class OperatorRow:
    """An operator as lists show one. `disabled_at` is None while they may sign in."""

    code: str
    role: Role
    added_at: datetime
    disabled_at: datetime | None


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
