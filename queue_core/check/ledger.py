"""Whether the ledger can still only be added to: its table, its triggers and their functions."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import psycopg

from queue_core.check.problem import Problem
from queue_core.database import rows, value

OWNER: Final = "countersign_owner"
FIXED_PATH: Final = ["search_path=pg_catalog, pg_temp"]
AS_MIGRATED: Final = (
    "make it again as the owner (the statement is in `flask queue migrate --sql`) and find out "
    "who changed it: what the ledger says from then on is not to be relied on"
)
ROW, BEFORE, INSERT, DELETE, UPDATE, TRUNCATE = 1, 2, 4, 8, 16, 32
"""The bits of pg_trigger.tgtype."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A trigger of the ledger as its migration made it; `sha256` is of its function's body."""

    kind: int
    function: str
    sha256: str
    definer: bool


_STAMP: Final = "5080336d3ac40dca0a4434d07f8cd54f9e95d3fa12b09b15f84528bc6423ceff"
_REFUSE: Final = "ab064d9bedd6eb0f0bfbe21b0cdb64fda4707118e30f681e1d57bf79fab0e467"
TRIGGERS: Final[Mapping[str, Wanted]] = MappingProxyType(
    {
        "acts_stamp": Wanted(
            kind=ROW | BEFORE | INSERT,
            function="countersign.stamp_act",
            sha256=_STAMP,
            definer=True,
        ),
        "acts_refuse_row": Wanted(
            kind=ROW | BEFORE | UPDATE | DELETE,
            function="countersign.refuse_change",
            sha256=_REFUSE,
            definer=False,
        ),
        "acts_refuse_statement": Wanted(
            kind=BEFORE | UPDATE | DELETE | TRUNCATE,
            function="countersign.refuse_change",
            sha256=_REFUSE,
            definer=False,
        ),
    }
)
COLUMNS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "id": "bigint NOT NULL",
        "at": "timestamp with time zone NOT NULL",
        "by": "text NOT NULL",
        "act": "text NOT NULL",
        "subject_kind": "text NOT NULL",
        "subject_id": "uuid",
        "subject_name": "text NOT NULL",
        "attempt": "integer",
        "reason": "text NOT NULL",
        "note": "text",
        "bulk_id": "uuid",
        "via": "text NOT NULL",
        "xid": "xid8 NOT NULL",
    }
)
CONSTRAINTS: Final = frozenset(
    {
        *("acts_pkey", "acts_act_check", "acts_by_check", "acts_reason_check", "acts_note_check"),
        *("acts_subject_kind_check", "acts_via_check", "acts_check", "acts_check1"),
    }
)

IS_THERE = """
SELECT to_regclass('countersign.acts') IS NOT NULL
"""


def problems(conn: psycopg.Connection[object]) -> list[Problem]:
    """Return a problem for whatever lets the ledger be changed, or written to unchecked."""
    if not value(conn, IS_THERE, {}):
        return []  # a missing table, said as that
    return [*_triggers(conn), *_table(conn), *_columns(conn), *_constraints(conn)]


@dataclass(frozen=True, slots=True)
class _Trigger:
    name: str
    enabled: str
    kind: int
    narrowed: bool
    function: str
    sha256: str
    definer: bool
    settings: list[str] | None
    owner: str
    lent: bool


EVERY_TRIGGER = """
SELECT pg_trigger.tgname::text AS name,
    pg_trigger.tgenabled::text AS enabled,
    pg_trigger.tgtype::integer AS kind,
    pg_trigger.tgqual IS NOT NULL OR pg_trigger.tgattr::text <> '' AS narrowed,
    pg_namespace.nspname || '.' || pg_proc.proname AS function,
    encode(sha256(convert_to(pg_proc.prosrc, 'UTF8')), 'hex') AS sha256,
    pg_proc.prosecdef AS definer,
    pg_proc.proconfig AS settings,
    pg_get_userbyid(pg_proc.proowner)::text AS owner,
    EXISTS (
        SELECT FROM aclexplode(COALESCE(pg_proc.proacl, acldefault('f', pg_proc.proowner))) AS acl
        WHERE acl.grantee <> pg_proc.proowner
    ) AS lent
FROM pg_catalog.pg_trigger
JOIN pg_catalog.pg_proc ON pg_proc.oid = pg_trigger.tgfoid
JOIN pg_catalog.pg_namespace ON pg_namespace.oid = pg_proc.pronamespace
WHERE pg_trigger.tgrelid = 'countersign.acts'::regclass
    AND NOT pg_trigger.tgisinternal
ORDER BY pg_trigger.tgname
"""


def _triggers(conn: psycopg.Connection[object]) -> list[Problem]:
    have = {trigger.name: trigger for trigger in rows(conn, EVERY_TRIGGER, {}, _Trigger)}
    missing = [_missing(name) for name in TRIGGERS if name not in have]
    changed = [
        _changed(trigger, faults)
        for name, trigger in have.items()
        if name in TRIGGERS and (faults := _faults(trigger, TRIGGERS[name]))
    ]
    return [*missing, *changed, *(_foreign(name) for name in have if name not in TRIGGERS)]


def _faults(trigger: _Trigger, wanted: Wanted) -> list[str]:
    """Say, in words that follow the trigger's name, how it differs from what is wanted."""
    function = (trigger.sha256, trigger.definer, trigger.settings, trigger.owner)
    tests = {
        "does not fire always": trigger.enabled != "A",
        "fires at other events": trigger.kind != wanted.kind,
        "has a condition": trigger.narrowed,
        "calls another function": trigger.function != wanted.function,
        "calls a function that was changed": function
        != (wanted.sha256, wanted.definer, FIXED_PATH, OWNER),
        "calls a function that others may hang on tables of their own": trigger.lent,
    }
    return [fault for fault, holds in tests.items() if holds]


def _missing(name: str) -> Problem:
    what = f"the trigger {name} of the ledger is missing"
    return Problem("ledger.trigger_missing", what, AS_MIGRATED)


def _changed(trigger: _Trigger, faults: list[str]) -> Problem:
    mend = AS_MIGRATED
    if trigger.enabled != "A" and len(faults) == 1:
        mend = (
            f"run `ALTER TABLE countersign.acts ENABLE ALWAYS TRIGGER {trigger.name}` as the "
            "owner and find out who turned it off, and what was changed meanwhile"
        )
    what = f"the trigger {trigger.name} of the ledger {' and '.join(faults)}"
    return Problem("ledger.trigger_disabled", what, mend)


def _foreign(name: str) -> Problem:
    return Problem(
        "ledger.trigger_disabled",
        f"the ledger has a trigger {name!r} that is not ours, and could drop or change acts",
        "drop it as the owner and find out who made it",
    )


@dataclass(frozen=True, slots=True)
class _Table:
    ordinary: bool
    related: bool
    ruled: bool
    secured: bool
    owner: str
    granted: bool


TABLE = """
SELECT pg_class.relkind = 'r' AND pg_class.relpersistence = 'p' AS ordinary,
    pg_class.relispartition OR EXISTS (
        SELECT FROM pg_catalog.pg_inherits
        WHERE pg_class.oid IN (pg_inherits.inhparent, pg_inherits.inhrelid)
    ) AS related,
    EXISTS (
        SELECT FROM pg_catalog.pg_rewrite WHERE pg_rewrite.ev_class = pg_class.oid
    ) AS ruled,
    pg_class.relrowsecurity OR pg_class.relforcerowsecurity AS secured,
    pg_get_userbyid(pg_class.relowner)::text AS owner,
    EXISTS (
        SELECT FROM aclexplode(pg_class.relacl) AS acl
        WHERE acl.grantee <> pg_class.relowner
            AND acl.privilege_type NOT IN ('SELECT', 'INSERT')
    ) OR EXISTS (
        SELECT FROM pg_catalog.pg_attribute, aclexplode(pg_attribute.attacl) AS acl
        WHERE pg_attribute.attrelid = pg_class.oid
            AND acl.privilege_type NOT IN ('SELECT', 'INSERT')
    ) AS granted
FROM pg_catalog.pg_class
WHERE pg_class.oid = 'countersign.acts'::regclass
"""


def _table(conn: psycopg.Connection[object]) -> list[Problem]:
    (table,) = rows(conn, TABLE, {}, _Table)
    tests = {
        "is not an ordinary table": not table.ordinary,
        "has children or a parent, past which its triggers do not see": table.related,
        "has rules, which change statements before its triggers see them": table.ruled,
        "has row security, which hides acts": table.secured,
        f"belongs to {table.owner}, not to {OWNER}": table.owner != OWNER,
        "grants others more than to read and to add": table.granted,
    }
    mend = "undo it as the owner and find out who did it, and what was changed meanwhile"
    return [
        Problem("ledger.trigger_disabled", f"the ledger {fault}", mend)
        for fault, holds in tests.items()
        if holds
    ]


@dataclass(frozen=True, slots=True)
class _Named:
    name: str
    what: str


ACTS_COLUMNS = """
SELECT pg_attribute.attname::text AS name,
    format_type(pg_attribute.atttypid, pg_attribute.atttypmod)
        || CASE WHEN pg_attribute.attnotnull THEN ' NOT NULL' ELSE '' END AS what
FROM pg_catalog.pg_attribute
WHERE pg_attribute.attrelid = 'countersign.acts'::regclass
    AND pg_attribute.attnum > 0
    AND NOT pg_attribute.attisdropped
"""


def _columns(conn: psycopg.Connection[object]) -> list[Problem]:
    have = {column.name: column.what for column in rows(conn, ACTS_COLUMNS, {}, _Named)}
    return [
        Problem("schema.missing", f"the ledger's column {name} is not {wanted}", AS_MIGRATED)
        for name, wanted in COLUMNS.items()
        if have.get(name, wanted) != wanted  # a missing one is said as that
    ]


VALID_CONSTRAINTS = """
SELECT pg_constraint.conname::text AS name, pg_constraint.contype::text AS what
FROM pg_catalog.pg_constraint
WHERE pg_constraint.conrelid = 'countersign.acts'::regclass
    AND pg_constraint.convalidated
"""


def _constraints(conn: psycopg.Connection[object]) -> list[Problem]:
    have = {constraint.name for constraint in rows(conn, VALID_CONSTRAINTS, {}, _Named)}
    return [
        Problem("schema.missing", f"the ledger's constraint {name} is missing", AS_MIGRATED)
        for name in sorted(CONSTRAINTS - have)
    ]


@dataclass(frozen=True, slots=True)
class _Role:
    name: str
    owns: bool


ROLE = """
SELECT CURRENT_USER::text AS name,
    COALESCE(pg_has_role(to_regrole('countersign_owner')::oid, 'MEMBER'), false) AS owns
"""


def warnings(conn: psycopg.Connection[object]) -> list[Problem]:
    """Return a warning where this connection's role could change the ledger by DDL."""
    (role,) = rows(conn, ROLE, {}, _Role)
    if not role.owns:
        return []
    return [
        Problem(
            "ledger.one_role",
            f"services run as {role.name}, which owns the ledger and could rewrite it by DDL",
            "make a role that is a member of countersign_runtime alone, put it into DATABASE_URL, "
            "and keep the owner's in QUEUE_OWNER_URL",
        )
    ]
