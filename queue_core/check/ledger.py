"""Whether the ledger can still only be added to: its table, its triggers and their functions."""

from dataclasses import dataclass
from typing import Final

import psycopg

from queue_core.check.guards import FIXED_PATH, GUARDED, OWNER, TRIGGERS, Wanted
from queue_core.check.problem import Problem
from queue_core.database import rows, value

AS_MIGRATED: Final = (
    "make it again as the owner (the statement is in `flask queue migrate --sql`) and find out "
    "who changed it: what the ledger says from then on is not to be relied on"
)

IS_THERE = """
SELECT to_regclass(%(table)s) IS NOT NULL
"""


def problems(conn: psycopg.Connection[object]) -> list[Problem]:
    """Return a problem for whatever lets the ledger be changed, or written to unchecked."""
    found: list[Problem] = []
    for table in GUARDED:
        if value(conn, IS_THERE, {"table": f"countersign.{table}"}):  # else said to be missing
            found += [*_triggers(conn, table), *_table(conn, table)]
    return [*found, *_ids(conn)]


@dataclass(frozen=True, slots=True)
class _Ids:
    given: int
    newest: int


IDS_ARE_THERE = """
SELECT COALESCE(
    has_sequence_privilege(to_regclass('countersign.acts_id')::oid, 'SELECT')
        AND has_table_privilege(to_regclass('countersign.acts')::oid, 'SELECT'),
    false
)
"""
IDS = """
SELECT acts_id.last_value AS given, newest.id AS newest
FROM countersign.acts_id
CROSS JOIN (
    SELECT acts.id
    FROM countersign.acts
    ORDER BY acts.id DESC
    LIMIT 1
) AS newest
WHERE newest.id > acts_id.last_value
    OR (newest.id = acts_id.last_value AND NOT acts_id.is_called)
"""


def _ids(conn: psycopg.Connection[object]) -> list[Problem]:
    """Return a problem where the ids that are to come are ids of acts that are there."""
    if not value(conn, IDS_ARE_THERE, {}):
        return []  # a missing sequence, or right, said as that
    return [
        Problem(
            "ledger.ids_set_back",
            f"ids of acts go on from {ids.given}, though act {ids.newest} is there",
            f"run `SELECT setval('countersign.acts_id', {ids.newest})` as the owner, and find out "
            "who set them back, or put in an act with an id of its own",
        )
        for ids in rows(conn, IDS, {}, _Ids)
    ]


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
WHERE pg_trigger.tgrelid = to_regclass(%(table)s)
    AND NOT pg_trigger.tgisinternal
ORDER BY pg_trigger.tgname
"""


def _triggers(conn: psycopg.Connection[object], table: str) -> list[Problem]:
    named = {"table": f"countersign.{table}"}
    have = {trigger.name: trigger for trigger in rows(conn, EVERY_TRIGGER, named, _Trigger)}
    ours = TRIGGERS[table]
    missing = [_missing(table, name) for name in ours if name not in have]
    changed = [
        _changed(table, trigger, faults)
        for name, trigger in have.items()
        if name in ours and (faults := _faults(trigger, ours[name]))
    ]
    return [*missing, *changed, *(_foreign(table, name) for name in have if name not in ours)]


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


def _missing(table: str, name: str) -> Problem:
    what = f"the trigger {name} of the {GUARDED[table]} is missing"
    return Problem("ledger.trigger_missing", what, AS_MIGRATED)


def _changed(table: str, trigger: _Trigger, faults: list[str]) -> Problem:
    mend = AS_MIGRATED
    if trigger.enabled != "A" and len(faults) == 1:
        mend = (
            f"run `ALTER TABLE countersign.{table} ENABLE ALWAYS TRIGGER {trigger.name}` as the "
            "owner and find out who turned it off, and what was changed meanwhile"
        )
    what = f"the trigger {trigger.name} of the {GUARDED[table]} {' and '.join(faults)}"
    return Problem("ledger.trigger_disabled", what, mend)


def _foreign(table: str, name: str) -> Problem:
    return Problem(
        "ledger.trigger_disabled",
        f"the {GUARDED[table]} has a trigger {name!r} that is not ours: it could drop or change "
        "what is added",
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
WHERE pg_class.oid = to_regclass(%(table)s)
"""


def _table(conn: psycopg.Connection[object], name: str) -> list[Problem]:
    (table,) = rows(conn, TABLE, {"table": f"countersign.{name}"}, _Table)
    tests = {
        "is not an ordinary table": not table.ordinary,
        "has children or a parent, past which its triggers do not see": table.related,
        "has rules, which change statements before its triggers see them": table.ruled,
        "has row security, which hides rows": table.secured,
        f"belongs to {table.owner}, not to {OWNER}": table.owner != OWNER,
        "grants others more than to read and to add": table.granted,
    }
    mend = "undo it as the owner and find out who did it, and what was changed meanwhile"
    return [
        Problem("ledger.trigger_disabled", f"the {GUARDED[name]} {fault}", mend)
        for fault, holds in tests.items()
        if holds
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
