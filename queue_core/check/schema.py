"""Whether tables, columns, functions and indexes are as the migrations made them."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import psycopg

from queue_core.check.problem import Problem
from queue_core.database import rows

RESTORE: Final = (
    "the statement that makes it is in `flask queue migrate --sql`, what it held in a backup"
)


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


COLUMNS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "acts": _words(
            "id at by act subject_kind subject_id subject_name attempt reason note kill_after "
            "bulk_id via xid"
        ),
        "blocked": _words("id queue name rank run_at attempt attempts_allowed serial_key"),
        "ended": _words(
            "id state uncertain attempt worker started_at ended_at error error_type error_place "
            "result"
        ),
        "handlers": _words(
            "name queue attempts time_limit on_lost safe_to_repeat most_at_once effects "
            "how_to_check owner runbook first_declared_at declared_at declared_by"
        ),
        "job_states": _words(
            "id name queue state attempt attempts_allowed since worker priority created_at"
        ),
        "jobs": _words("id name queue args priority attempts time_limit created_at schedule"),
        "migrations": _words("number name sha256 applied_at"),
        "operators": _words("code role password_hash added_at disabled_at"),
        "queues": _words("name paused_at"),
        "ready": _words("id queue name rank run_at attempt attempts_allowed"),
        "review": _words(
            "id entered_at why attempt worker claimed_at started_at child_pid signal error"
        ),
        "running": _words(
            "id attempt worker claimed_at queue name rank run_at attempts_allowed on_lost "
            "child_pid started_at stop_requested_at kill_after safe_to_repeat"
        ),
        "runs": _words(
            "job_id attempt outcome worker child_pid signal claimed_at started_at ended_at error "
            "error_type error_place traceback"
        ),
        "seals": _words(
            "number previous at xid system_identifier rebase horizon base count ids digests sha256"
        ),
        "schedule_versions": _words(
            "id schedule fingerprint every job queue args priority attempts time_limit "
            "first_seen_at seen_at present_since"
        ),
        "schedules": _words(
            "name version due_at last_job seen_at paused_at archived_at last_skip last_skip_at "
            "created_at"
        ),
        "sessions": _words("id token_sha256 operator created_at seen_at ended_at address agent"),
        "sign_in_failures": _words("code address failures last_at"),
        "tallies": _words("minute name state entered removed timed seconds"),
        "waiting": _words("id queue name rank run_at attempt attempts_allowed"),
        "workers": _words(
            "id name host pid boot_id pid_namespace version queues slots started_at beat_at "
            "stopped_at lost_at lost_by lost_rule handles draining_at process_start"
        ),
    }
)
BODIES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "act_digest": "5c7d91321e4ebcc53bbc303c19cade203701f8c87a34cf8f7f7c7d6768a546b6",
        "is_code": "98399fbb0aaee90b6f25b9b8d2451691351a223d45124bbcd1cffffa06a3cd7d",
        "lowest_id": "7da0626d02cea7392879a76b486f0c4033e9e3edcdf571785bb8bfe49b59c299",
        "made_at": "4598215e267e26b4a0638c6fa4a02666e66a91f8dd9e9183a2237194823f47c3",
        "make_partitions": "8e0669edab2e066caa1a569a3c526b0903c37714538d07e3bb73c2f56a79a843",
        "new_id": "fab116accc89c5eb77e12200f4dc97983bf6abbef5b55b50c9fede8b87b969f1",
        "seal_digest": "caca42e3883271b69ee7f48c76acc41c9d4dabf4b4a6b6f30e6765adce0e4666",
        "recount": "21c9a0483f06824fac958e91b6b7cc3cf46a321ef6955b2f29d6ebeafbc8ecd7",
        "trim": "1db3e7a55d9c5a474a84b0e1a2bfd06141da0c3c4008956fbf55d78d9ea65343",
    }
)
"""The SHA-256 of each function's body; those of the ledger's triggers are in `guards`."""
INDEXES: Final = frozenset(
    _words(
        "acts_of_bulk acts_of_job acts_of_name acts_pkey acts_to_seal blocked_heads "
        "blocked_of_queue "
        "blocked_pkey ended_listed ended_pkey ended_uncertain handlers_pkey jobs_pkey "
        "migrations_pkey operators_pkey queues_pkey ready_claim ready_pkey review_by_worker "
        "review_listed review_pkey running_pkey running_stops runs_lost runs_pkey "
        "schedule_versions_pkey schedule_versions_schedule_fingerprint_key schedules_pkey "
        "seals_pkey seals_previous_key sessions_open sessions_pkey sessions_token_sha256_key "
        "sign_in_failures_lately sign_in_failures_pkey waiting_due waiting_of_queue waiting_pkey "
        "workers_live workers_lost workers_pkey workers_stopped"
    )
)


@dataclass(frozen=True, slots=True)
class _Table:
    name: str
    columns: list[str]


TABLES = """
SELECT pg_class.relname::text AS name, array_agg(pg_attribute.attname::text) AS columns
FROM pg_catalog.pg_class
JOIN pg_catalog.pg_attribute ON pg_attribute.attrelid = pg_class.oid
    AND pg_attribute.attnum > 0
    AND NOT pg_attribute.attisdropped
WHERE pg_class.relnamespace = to_regnamespace('countersign')
    AND pg_class.relkind IN ('r', 'p', 'v')
    AND NOT pg_class.relispartition
GROUP BY pg_class.relname
"""


def tables(conn: psycopg.Connection[object]) -> list[Problem]:
    """Return a problem for each table, view or column that is not there."""
    have = {table.name: table.columns for table in rows(conn, TABLES, {}, _Table)}
    gone = [_missing(f"countersign.{name}") for name in COLUMNS if name not in have]
    less = [
        _missing(f"the column countersign.{name}.{column}")
        for name, columns in COLUMNS.items()
        for column in columns
        if name in have and column not in have[name]
    ]
    return gone + less


@dataclass(frozen=True, slots=True)
class _Function:
    name: str
    sha256: str


FUNCTIONS = """
SELECT pg_proc.proname::text AS name,
    encode(sha256(convert_to(pg_proc.prosrc, 'UTF8')), 'hex') AS sha256
FROM pg_catalog.pg_proc
WHERE pg_proc.pronamespace = to_regnamespace('countersign')
"""


def functions(conn: psycopg.Connection[object]) -> list[Problem]:
    """Return a problem for each function that is not there or has another body."""
    have = {function.name: function.sha256 for function in rows(conn, FUNCTIONS, {}, _Function)}
    gone = [_missing(f"the function countersign.{name}") for name in BODIES if name not in have]
    other = [
        Problem(
            "migration.edited",
            f"the function countersign.{name} is not the one that its migration made",
            "make it again as in `flask queue migrate --sql`, and find out who changed it",
        )
        for name, sha256 in BODIES.items()
        if have.get(name, sha256) != sha256
    ]
    return gone + other


@dataclass(frozen=True, slots=True)
class _Index:
    name: str
    whole: bool


# An index that is being built just now is not one that failed.
EVERY_INDEX = """
SELECT pg_class.relname::text AS name,
    pg_index.indisvalid OR EXISTS (
        SELECT FROM pg_catalog.pg_stat_progress_create_index
        WHERE pg_stat_progress_create_index.index_relid = pg_index.indexrelid
    ) AS whole
FROM pg_catalog.pg_index
JOIN pg_catalog.pg_class ON pg_class.oid = pg_index.indexrelid
WHERE pg_class.relnamespace = to_regnamespace('countersign')
"""


def indexes(conn: psycopg.Connection[object]) -> list[Problem]:
    """Return a problem for each index that is not there, and for each that is not whole."""
    have = {index.name: index.whole for index in rows(conn, EVERY_INDEX, {}, _Index)}
    gone = [_missing(f"the index countersign.{name}") for name in sorted(INDEXES - set(have))]
    broken = [
        Problem(
            "schema.missing",
            f"the index countersign.{name} is invalid, so nothing uses it",
            f"run `REINDEX INDEX CONCURRENTLY countersign.{name}`, or drop it if it is a left-over",
        )
        for name, whole in have.items()
        if not whole
    ]
    return gone + broken


def _missing(what: str) -> Problem:
    return Problem("schema.missing", f"{what} is missing", RESTORE)
