"""Whether tables, constraints, triggers, rights and functions are as the migrations made them."""

import re
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Final

import psycopg

from queue_core.check.guards import GUARDED, TRIGGERS
from queue_core.check.problem import Problem
from queue_core.database import rows

FILE: Final = "shape.txt"
UNDO: Final = (
    "undo it as the schema's owner (the statement as it was is in `flask queue migrate --sql`), "
    "and find out who did it"
)
MAKE_AGAIN: Final = "make it again as in `flask queue migrate --sql`, and find out who took it away"
SAID_ELSEWHERE: Final = frozenset({"column", "index", "function"})
"""What `schema` says is missing."""
LEFT_TO_LEDGER: Final = frozenset({"table", "trigger", "rule", "policy", "child"})
"""What `ledger` says of the tables that are only ever added to."""
TRIGGERED: Final = frozenset(
    wanted.function.partition(".")[2] for guards in TRIGGERS.values() for wanted in guards.values()
)


@dataclass(frozen=True, slots=True)
class Fact:
    """Something of the schema: `kind` and `name` say what it is, `what` how it is."""

    kind: str
    name: str
    what: str

    @property
    def table(self) -> str:
        """The table it belongs to, where it belongs to one."""
        return self.name.partition(".")[0]

    @property
    def key(self) -> tuple[str, str]:
        """What it is of, whatever it is like."""
        return self.kind, self.name

    @property
    def titled(self) -> str:
        """Name it in a sentence."""
        return f"the {self.kind} {self.name}"

    def __str__(self) -> str:
        """Write it as in the file."""
        return f"{self.kind} {self.name}: {self.what}"


# An index, a right to read and a setting of autovacuum may be anybody's; so they are not asked
# for, or not missed. NOT NULL stands with the column: Postgres 18 alone has it as a constraint.
FACTS = """
WITH ours AS (
    SELECT pg_class.oid, pg_class.relname::text AS name, pg_class.relkind, pg_class.relpersistence,
        pg_class.relowner, pg_class.relacl, pg_class.relrowsecurity, pg_class.relispartition,
        CASE WHEN pg_class.relispartition THEN 'partition' END AS partition
    FROM pg_catalog.pg_class
    WHERE pg_class.relnamespace = to_regnamespace('countersign')
        AND pg_class.relkind IN ('r', 'p', 'v', 'S', 'f', 'm')
),
whole AS (
    SELECT ours.* FROM ours WHERE NOT ours.relispartition
)
SELECT 'table' AS kind, whole.name,
    concat_ws(', ',
        CASE whole.relkind
            WHEN 'r' THEN 'table' WHEN 'p' THEN 'partitioned' WHEN 'v' THEN 'view'
            WHEN 'S' THEN 'sequence' ELSE 'other'
        END,
        CASE whole.relpersistence WHEN 'p' THEN NULL ELSE 'not kept after a crash' END,
        'of ' || pg_get_userbyid(whole.relowner),
        CASE WHEN whole.relrowsecurity THEN 'with row security' END
    ) AS what
FROM whole
UNION ALL
SELECT 'partition', ours.name,
    concat_ws(', ',
        CASE ours.relkind WHEN 'r' THEN NULL ELSE 'not a table' END,
        CASE ours.relpersistence WHEN 'p' THEN NULL ELSE 'not kept after a crash' END,
        CASE WHEN ours.relrowsecurity THEN 'with row security' END
    )
FROM ours
WHERE ours.relispartition
    AND (ours.relkind <> 'r' OR ours.relpersistence <> 'p' OR ours.relrowsecurity)
UNION ALL
SELECT 'partition', ours.name, 'of any time: what belongs to a week may not be made any more'
FROM ours
JOIN pg_catalog.pg_class ON pg_class.oid = ours.oid
WHERE pg_get_expr(pg_class.relpartbound, pg_class.oid) = 'DEFAULT'
UNION ALL
SELECT 'partition', ours.name, 'of another week than its name says'
FROM ours
JOIN pg_catalog.pg_class ON pg_class.oid = ours.oid
CROSS JOIN LATERAL (
    SELECT to_date(substring(ours.name FROM '_(....w..)$'), 'IYYY"w"IW')::timestamp
        AT TIME ZONE 'UTC' AS begins
) AS week
WHERE ours.name ~ '^(jobs|ended)_[0-9]{4}w[0-9]{2}$'
    AND ours.relispartition
    AND pg_get_expr(pg_class.relpartbound, pg_class.oid) <> format(
        'FOR VALUES FROM (%%L) TO (%%L)',
        countersign.lowest_id(week.begins),
        countersign.lowest_id(week.begins + interval '168 hours')
    )
UNION ALL
SELECT 'column', whole.name || '.' || pg_attribute.attname,
    concat_ws(' ',
        format_type(pg_attribute.atttypid, pg_attribute.atttypmod),
        CASE WHEN pg_attribute.attnotnull THEN 'NOT NULL' END,
        'DEFAULT ' || pg_get_expr(pg_attrdef.adbin, pg_attrdef.adrelid),
        CASE WHEN pg_attribute.attgenerated <> '' OR pg_attribute.attidentity <> ''
            THEN 'GENERATED' END
    )
FROM whole
JOIN pg_catalog.pg_attribute ON pg_attribute.attrelid = whole.oid
    AND pg_attribute.attnum > 0
    AND NOT pg_attribute.attisdropped
LEFT JOIN pg_catalog.pg_attrdef ON pg_attrdef.adrelid = pg_attribute.attrelid
    AND pg_attrdef.adnum = pg_attribute.attnum
WHERE whole.relkind <> 'S'
UNION ALL
SELECT 'constraint', whole.name || '.' || pg_constraint.conname,
    pg_get_constraintdef(pg_constraint.oid)
FROM whole
JOIN pg_catalog.pg_constraint ON pg_constraint.conrelid = whole.oid
WHERE pg_constraint.contype NOT IN ('n', 't')
UNION ALL
SELECT 'index', whole.name || '.' || indexed.relname, pg_get_indexdef(pg_index.indexrelid)
FROM whole
JOIN pg_catalog.pg_index ON pg_index.indrelid = whole.oid
JOIN pg_catalog.pg_class AS indexed ON indexed.oid = pg_index.indexrelid
UNION ALL
SELECT COALESCE(ours.partition, 'trigger'), ours.name || '.' || pg_trigger.tgname,
    pg_trigger.tgenabled::text
FROM ours
JOIN pg_catalog.pg_trigger ON pg_trigger.tgrelid = ours.oid
WHERE NOT pg_trigger.tgisinternal OR pg_trigger.tgenabled <> 'O'
UNION ALL
SELECT COALESCE(ours.partition, 'rule'), ours.name || '.' || pg_rewrite.rulename,
    pg_rewrite.ev_enabled::text
FROM ours
JOIN pg_catalog.pg_rewrite ON pg_rewrite.ev_class = ours.oid
WHERE ours.relkind <> 'v'
UNION ALL
SELECT COALESCE(ours.partition, 'policy'), ours.name || '.' || pg_policy.polname, ''
FROM ours
JOIN pg_catalog.pg_policy ON pg_policy.polrelid = ours.oid
UNION ALL
SELECT 'child', whole.name || '.' || pg_inherits.inhrelid::regclass, ''
FROM whole
JOIN pg_catalog.pg_inherits ON pg_inherits.inhparent = whole.oid
WHERE whole.relkind <> 'p'
UNION ALL
SELECT COALESCE(ours.partition, 'grant'),
    ours.name || '.' || acl.privilege_type || ' to ' || COALESCE(pg_roles.rolname, 'everybody'), ''
FROM ours
CROSS JOIN LATERAL aclexplode(ours.relacl) AS acl
LEFT JOIN pg_catalog.pg_roles ON pg_roles.oid = acl.grantee
WHERE acl.grantee <> ours.relowner
    AND (acl.privilege_type <> 'SELECT' OR NOT ours.relispartition)
UNION ALL
SELECT COALESCE(ours.partition, 'grant'),
    ours.name || '.' || pg_attribute.attname || '.' || acl.privilege_type || ' to '
        || COALESCE(pg_roles.rolname, 'everybody'),
    ''
FROM ours
JOIN pg_catalog.pg_attribute ON pg_attribute.attrelid = ours.oid
CROSS JOIN LATERAL aclexplode(pg_attribute.attacl) AS acl
LEFT JOIN pg_catalog.pg_roles ON pg_roles.oid = acl.grantee
UNION ALL
SELECT 'schema', 'countersign', 'of ' || pg_get_userbyid(pg_namespace.nspowner)
FROM pg_catalog.pg_namespace
WHERE pg_namespace.oid = to_regnamespace('countersign')
UNION ALL
SELECT 'grant',
    'countersign.' || acl.privilege_type || ' to ' || COALESCE(pg_roles.rolname, 'everybody'), ''
FROM pg_catalog.pg_namespace
CROSS JOIN LATERAL aclexplode(pg_namespace.nspacl) AS acl
LEFT JOIN pg_catalog.pg_roles ON pg_roles.oid = acl.grantee
WHERE pg_namespace.oid = to_regnamespace('countersign')
    AND acl.grantee <> pg_namespace.nspowner
UNION ALL
SELECT 'sequence', pg_class.relname::text,
    concat_ws(' ',
        'by ' || pg_sequence.seqincrement, 'from ' || pg_sequence.seqmin,
        'to ' || pg_sequence.seqmax, 'ahead ' || pg_sequence.seqcache,
        CASE WHEN pg_sequence.seqcycle THEN 'and again' END
    )
FROM pg_catalog.pg_sequence
JOIN pg_catalog.pg_class ON pg_class.oid = pg_sequence.seqrelid
WHERE pg_class.relnamespace = to_regnamespace('countersign')
UNION ALL
SELECT 'function', pg_proc.proname::text,
    concat_ws(' ',
        pg_get_function_identity_arguments(pg_proc.oid), '->',
        pg_get_function_result(pg_proc.oid), pg_language.lanname, pg_proc.provolatile,
        CASE WHEN pg_proc.proisstrict THEN 'strict' END,
        CASE WHEN pg_proc.prosecdef THEN 'definer' END,
        array_to_string(pg_proc.proconfig, ' '),
        'of ' || pg_get_userbyid(pg_proc.proowner),
        CASE WHEN has_function_privilege('public', pg_proc.oid, 'EXECUTE') THEN 'for all' END,
        CASE WHEN has_function_privilege('countersign_runtime', pg_proc.oid, 'EXECUTE')
            THEN 'for services' END
    )
FROM pg_catalog.pg_proc
JOIN pg_catalog.pg_language ON pg_language.oid = pg_proc.prolang
WHERE pg_proc.pronamespace = to_regnamespace('countersign')
"""


def facts(conn: psycopg.Connection[object]) -> set[Fact]:
    """Return all facts of this database's schema; the search path must hold nothing of ours."""
    return set(rows(conn, FACTS, {}, Fact))


@cache
def expected() -> frozenset[Fact]:
    """Return the facts of a database that the migrations made."""
    text = (resources.files("queue_core.check") / FILE).read_text()
    lines = (re.fullmatch(r"(\w+) ([^:]+): (.*)", line) for line in text.splitlines())
    return frozenset(Fact(*found.groups()) for found in lines if found)


def problems(conn: psycopg.Connection[object], *, ledger_alone: bool) -> list[Problem]:
    """Return a problem for whatever is missing, other than it was made, or was added.

    Nothing is said twice: missing tables, columns, indexes and functions are `schema`'s,
    triggers and flags of the ledger are `ledger`'s. `ledger_alone` looks at its tables only.
    """
    have, made = facts(conn), expected()
    tables = {fact.name for fact in have if fact.kind in {"table", "schema"}}
    known = {fact.name for fact in made if fact.kind in {"table", "schema"}}
    gone = {
        fact.key: fact for fact in made - have if fact.kind == "function" or fact.table in tables
    }
    more = {fact.key: fact for fact in have - made if _counts(fact, known)}
    looked_at = sorted(key for key in gone | more if _looks_at(key, ledger_alone=ledger_alone))
    found = (_problem(gone.get(key), more.get(key)) for key in looked_at)
    return [problem for problem in found if problem]


def _looks_at(key: tuple[str, str], *, ledger_alone: bool) -> bool:
    kind, name = key
    table = name.partition(".")[0]
    if table in GUARDED and kind in LEFT_TO_LEDGER:
        return False
    if kind == "function" and name in TRIGGERED:
        return False
    return not ledger_alone or (table in GUARDED and kind != "index")


def _counts(fact: Fact, known: set[str]) -> bool:
    """Say whether it matters that something is there that no migration made."""
    if fact.kind == "partition":
        return True
    if fact.kind == "grant" and (fact.table in GUARDED or "SELECT" in fact.name):
        return False  # the ledger's rights are looked at there, and to read does no harm
    return fact.kind == "function" or fact.table in known


def _problem(made: Fact | None, found: Fact | None) -> Problem | None:
    if made and found:
        what = f"{found.titled} is `{found.what}`, and was made as `{made.what}`"
        return Problem("migration.edited", what, UNDO)
    if made:
        if made.kind in SAID_ELSEWHERE:
            return None
        return Problem("schema.missing", f"{made.titled} is missing", MAKE_AGAIN)
    if found and found.kind not in {"index", "function"}:
        what = f"{found.titled} was made by no migration{found.what and f': {found.what}'}"
        return Problem("migration.edited", what, UNDO)
    return None
