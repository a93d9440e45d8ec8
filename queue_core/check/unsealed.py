"""Why acts are not being sealed."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

import psycopg

from queue_core.check.problem import Problem
from queue_core.database import rows, value

LONGEST_SECONDS: Final = 300


@dataclass(frozen=True, slots=True)
class _Oldest:
    id: int
    minutes: int
    held: bool
    due: bool


# Where a rebase is due, transactions tell nothing: what has a higher id than the last seal's
# acts is unsealed.
OLDEST = """
WITH last AS (
    SELECT COALESCE(seals.horizon, '0') AS horizon, COALESCE(seals.base, 0) AS base,
        (SELECT max(sealed.act) FROM unnest(seals.ids) AS sealed (act)) AS newest,
        seals.number IS NOT NULL AND (
            seals.system_identifier <> control.system_identifier
            OR seals.horizon > pg_snapshot_xmax(pg_current_snapshot())
        ) AS due
    FROM pg_control_system() AS control
    LEFT JOIN (
        SELECT seals.*
        FROM countersign.seals
        ORDER BY seals.number DESC
        LIMIT 1
    ) AS seals ON true
),
-- Beside that one row, so that each look begins in its index where the sealed acts end.
unsealed AS (
    SELECT settled.id, settled.at, settled.xid, last.due
    FROM last
    CROSS JOIN LATERAL (
        SELECT acts.id, acts.at, acts.xid
        FROM countersign.acts
        WHERE NOT last.due AND acts.xid >= last.horizon AND acts.id > last.base
        ORDER BY acts.xid, acts.id
        LIMIT 1
    ) AS settled
    UNION ALL
    SELECT added.id, added.at, added.xid, last.due
    FROM last
    CROSS JOIN LATERAL (
        SELECT acts.id, acts.at, acts.xid
        FROM countersign.acts
        WHERE last.due AND acts.id > COALESCE(last.newest, last.base)
        ORDER BY acts.id
        LIMIT 1
    ) AS added
)
SELECT unsealed.id, (EXTRACT(EPOCH FROM clock_timestamp() - unsealed.at) / 60)::integer AS minutes,
    unsealed.xid >= pg_snapshot_xmin(pg_current_snapshot()) AS held, unsealed.due
FROM unsealed
WHERE unsealed.at < clock_timestamp() - make_interval(secs => %(longest)s)
"""


def warnings(conn: psycopg.Connection[object]) -> list[Problem]:
    """Return a warning, with its cause, where an act has waited for over 5 minutes to be sealed."""
    oldest = rows(conn, OLDEST, {"longest": LONGEST_SECONDS}, _Oldest)
    return [_warning(conn, act) for act in oldest]


def _warning(conn: psycopg.Connection[object], oldest: _Oldest) -> Problem:
    holders = rows(conn, HOLDERS, {"held": oldest.held or oldest.due}, _Holder)
    if holders:
        cause, mend = _held(holders[0])
    elif oldest.held:
        cause, mend = "a transaction that has just ended held it back", "look again"
    elif value(conn, LIVE_WORKER, {}):
        cause = "the workers' maintenance does not come to it"
        mend = "see their logs for `a chore failed` with the chore `seal`"
    else:
        cause = "no worker is running, whose maintenance would do it"
        mend = "start a worker (`flask queue work`)"
    what = f"act {oldest.id} has waited for {oldest.minutes} minutes to be sealed: {cause}"
    return Problem("ledger.unsealed", what, mend)


@dataclass(frozen=True, slots=True)
class _Holder:
    kind: Literal["prepared", "session", "sealer"]
    name: str
    database: str | None
    role: str | None
    since: datetime | None


# A transaction with a number holds a lock on it, a prepared one without a pid. Numbers are the
# cluster's: a transaction of another database holds acts back all the same.
HOLDERS = """
WITH oldest AS (
    SELECT pg_snapshot_xmin(pg_current_snapshot())::xid AS xid
)
SELECT 'prepared' AS kind, quote_literal(pg_prepared_xacts.gid) AS name,
    pg_prepared_xacts.database::text AS database, pg_prepared_xacts.owner::text AS role,
    pg_prepared_xacts.prepared AS since
FROM pg_catalog.pg_prepared_xacts
JOIN oldest ON oldest.xid = pg_prepared_xacts.transaction
WHERE %(held)s
UNION ALL
SELECT 'session', pg_locks.pid::text, pg_stat_activity.datname::text,
    pg_stat_activity.usename::text, pg_stat_activity.xact_start
FROM pg_catalog.pg_locks
JOIN oldest ON oldest.xid = pg_locks.transactionid
LEFT JOIN pg_catalog.pg_stat_activity ON pg_stat_activity.pid = pg_locks.pid
WHERE %(held)s
    AND pg_locks.granted
    AND pg_locks.pid <> pg_backend_pid()
UNION ALL
SELECT 'sealer', pg_locks.pid::text, pg_stat_activity.datname::text,
    pg_stat_activity.usename::text, pg_stat_activity.xact_start
FROM pg_catalog.pg_locks
JOIN pg_catalog.pg_database ON pg_database.oid = pg_locks.database
    AND pg_database.datname = current_database()
LEFT JOIN pg_catalog.pg_stat_activity ON pg_stat_activity.pid = pg_locks.pid
WHERE pg_locks.locktype = 'advisory'
    AND pg_locks.granted
    AND ((pg_locks.classid::bigint << 32) | pg_locks.objid::bigint)
        = hashtext('countersign.seal')::bigint
LIMIT 1
"""
LIVE_WORKER = """
SELECT EXISTS (
    SELECT FROM countersign.workers
    WHERE workers.stopped_at IS NULL
        AND workers.lost_at IS NULL
        AND workers.beat_at > now() - make_interval(secs => 60)
)
"""


def _held(holder: _Holder) -> tuple[str, str]:
    where = f"by {holder.role or 'somebody'} in database {holder.database or 'of another name'}"
    since = f", since {holder.since}" if holder.since else ""
    match holder.kind:
        case "prepared":
            return (
                f"the transaction prepared as {holder.name} {where} has no end{since}",
                f"COMMIT PREPARED or ROLLBACK PREPARED {holder.name} in that database",
            )
        case "session":
            return (
                f"a transaction of pid {holder.name} {where} goes on{since}",
                f"let it end, or end it: SELECT pg_terminate_backend({holder.name})",
            )
        case "sealer":
            return (
                f"pid {holder.name} {where} holds the sealers' lock{since}",
                f"let it end, or end it: SELECT pg_terminate_backend({holder.name})",
            )
