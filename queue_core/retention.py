"""Retention: what ended long ago is trimmed, and weeks that are over go with their tables."""

from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, LiteralString

import psycopg
from psycopg import sql
from psycopg.rows import scalar_row

from queue_core.clauses import TALLIED
from queue_core.database import (
    LOCK_STATES,
    execute,
    rows,
    transaction,
    try_lock,
    unlock,
    value,
)
from queue_core.queries.weeks import Week, weeks_over
from queue_core.settings import DEFAULT_KEEP_DAYS, DEFAULT_KEEP_FAILED_DAYS

BATCH: Final = 1_000
MOST_BATCHES: Final = 20
LOCK_KEY: Final = 0x72657461696E
"""The advisory lock of whoever drops weeks: `retain` in bytes."""
_LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Keep:
    """How many days jobs are kept after their end: completed and cancelled ones, and failed ones.

    Jobs that may have run in part, and those in review, are kept whatever their age.
    """

    days: int = DEFAULT_KEEP_DAYS
    failed_days: int = DEFAULT_KEEP_FAILED_DAYS

    def of(self, state: str) -> int:
        """Return the days for a state that jobs end in."""
        return self.failed_days if state == "failed" else self.days


@dataclass(frozen=True, slots=True)
class _Trimmed:
    removed: int
    reached: datetime | None


TRIM = """
SELECT trimmed.removed, trimmed.reached
FROM countersign.trim(%(state)s, make_interval(days => %(days)s), %(since)s, %(most)s) AS trimmed
"""


def trim(conn: psycopg.Connection[object], keep: Keep, *, batches: int = MOST_BATCHES) -> int:
    """Take away jobs past their age, with bodies and runs; returns how many went.

    At most so many batches of 1,000 for each state; a batch waits for nobody, and on an
    autocommit connection each is a commit of its own. Acts stay. Any service may.
    """
    return sum(
        _trim_state(conn, state, keep.of(state), batches)
        for state in ("completed", "cancelled", "failed")
    )


def _trim_state(conn: psycopg.Connection[object], state: str, days: int, batches: int) -> int:
    # From where the last batch ended: dead entries of the index are not walked again and again.
    since, total = _LONG_AGO, 0
    for _ in range(batches):
        parameters = {"state": state, "days": days, "since": since, "most": BATCH}
        (batch,) = rows(conn, TRIM, parameters, _Trimmed)
        total += batch.removed
        if batch.removed < BATCH or batch.reached is None:
            break
        since = batch.reached
    return total


MAY_DROP = """
SELECT pg_has_role(CURRENT_USER, pg_class.relowner, 'USAGE') AS may
FROM pg_catalog.pg_class
WHERE pg_class.oid = 'countersign.jobs'::regclass
"""


def may_drop(conn: psycopg.Connection[object]) -> bool:
    """Say whether this role owns the tables, so that it may drop weeks that are over."""
    return bool(value(conn, MAY_DROP, {}))


def drop_weeks(conn: psycopg.Connection[object], keep: Keep) -> list[str]:
    """Drop the partitions of weeks of which nothing is to be kept; returns the tables dropped.

    `conn` must be in autocommit and the owner's; its lock_timeout is how long this waits for
    anybody. A week that somebody uses is left for another time, and so is all of it while
    another process is at it. What was begun and cut off, at any point, is gone on with.
    """
    with _alone(conn) as alone:
        if not alone:
            return []
        dropped = _finish(conn)
        for week in weeks_over(conn):  # last week's tables stay: they would be made again
            with suppress(*LOCK_STATES):
                if _clear(conn, week, keep):
                    dropped += _drop(conn, week)
    return dropped


@contextmanager
def _alone(conn: psycopg.Connection[object]) -> Generator[bool]:
    alone = try_lock(conn, LOCK_KEY)
    try:
        yield alone
    finally:
        if alone:
            unlock(conn, LOCK_KEY)


@dataclass(frozen=True, slots=True)
class _Table:
    name: str
    pending_in: str | None


# Detached half-way, or detached and not dropped yet.
CUT_OFF = """
SELECT pg_class.relname::text AS name, parent.relname::text AS pending_in
FROM pg_catalog.pg_class
LEFT JOIN pg_catalog.pg_inherits ON pg_inherits.inhrelid = pg_class.oid
LEFT JOIN pg_catalog.pg_class AS parent ON parent.oid = pg_inherits.inhparent
WHERE pg_class.relnamespace = 'countersign'::regnamespace
    AND pg_class.relkind = 'r'
    AND pg_class.relname ~ '^(jobs|ended)_[0-9]{4}w[0-9]{2}$'
    AND (pg_inherits.inhrelid IS NULL OR pg_inherits.inhdetachpending)
ORDER BY pg_class.relname
"""


def _finish(conn: psycopg.Connection[object]) -> list[str]:
    """Finish what was begun; a table that holds rows was detached by a person, and stays."""
    dropped: list[str] = []
    for table in rows(conn, CUT_OFF, {}, _Table):
        with suppress(*LOCK_STATES):
            if table.pending_in:
                _run(conn, FINALIZE, table.pending_in, table.name)
            dropped += _drop_empty(conn, table.name)
    return dropped


# A body that stands nowhere is not passed over: it is a loss for `check` to tell.
IS_OVER: Final[LiteralString] = """
SELECT NOT EXISTS (SELECT FROM countersign.ready WHERE id >= %(low)s AND id < %(high)s)
    AND NOT EXISTS (SELECT FROM countersign.waiting WHERE id >= %(low)s AND id < %(high)s)
    AND NOT EXISTS (SELECT FROM countersign.blocked WHERE id >= %(low)s AND id < %(high)s)
    AND NOT EXISTS (SELECT FROM countersign.running WHERE id >= %(low)s AND id < %(high)s)
    AND NOT EXISTS (SELECT FROM countersign.review WHERE id >= %(low)s AND id < %(high)s)
    AND NOT EXISTS (
        SELECT FROM countersign.ended
        WHERE ended.id >= %(low)s AND ended.id < %(high)s
            AND (ended.uncertain OR ended.ended_at >= now() - make_interval(days =>
                CASE ended.state WHEN 'failed' THEN %(failed_days)s ELSE %(days)s END))
    )
    AND NOT EXISTS (
        SELECT FROM countersign.jobs
        WHERE jobs.id >= %(low)s AND jobs.id < %(high)s
            AND NOT EXISTS (
                SELECT FROM countersign.ended
                WHERE ended.id = jobs.id AND ended.id >= %(low)s AND ended.id < %(high)s
            )
    ) AS over
"""
CLEARED = (
    """
WITH tally AS (
    SELECT COALESCE(jobs.name, '') AS name, ended.state, 0 AS entered, 1 AS removed,
        NULL::timestamptz AS started_at
    FROM countersign.ended
    LEFT JOIN countersign.jobs
        ON jobs.id = ended.id AND jobs.id >= %(low)s AND jobs.id < %(high)s
    WHERE ended.id >= %(low)s AND ended.id < %(high)s
),
"""
    + TALLIED
    + """
cleared AS (
    SELECT count(*) AS jobs FROM tally
)
SELECT cleared.jobs FROM cleared
"""
)


def _clear(conn: psycopg.Connection[object], week: Week, keep: Keep) -> bool:
    """Empty the tables of a week that is over, in the commit that counts its jobs off.

    Readers are kept out only for the moment of the TRUNCATE. False where something of the
    week is to be kept.
    """
    span = {"low": week.low, "high": week.high}
    age = span | {"days": keep.days, "failed_days": keep.failed_days}
    if not value(conn, IS_OVER, age):
        return False
    tables = [name for name in (week.jobs, week.ended) if name]
    with transaction(conn):
        for name in tables:
            _run(conn, LOCK, name)
        # Again, now that nobody can retry one of them.
        if not value(conn, IS_OVER, age):
            return False
        if value(conn, CLEARED, span):
            for name in tables:
                _run(conn, TRUNCATE, name)
    return True


RUNS = """
DELETE FROM countersign.runs
WHERE (runs.job_id, runs.attempt, runs.outcome) IN (
    SELECT few.job_id, few.attempt, few.outcome
    FROM countersign.runs AS few
    WHERE few.job_id >= %(low)s AND few.job_id < %(high)s
    LIMIT %(most)s
)
"""


def _drop(conn: psycopg.Connection[object], week: Week) -> list[str]:
    """Drop an empty week: first its runs, then where bodies stood, then where they ended."""
    span = {"low": week.low, "high": week.high, "most": BATCH}
    while execute(conn, RUNS, span) == BATCH:
        pass
    dropped: list[str] = []
    for parent, name in (("jobs", week.jobs), ("ended", week.ended)):
        if name:
            _run(conn, DETACH, parent, name)
            dropped += _drop_empty(conn, name)
    return dropped


LOCK: Final = "LOCK TABLE countersign.{} IN SHARE ROW EXCLUSIVE MODE"
TRUNCATE: Final = "TRUNCATE countersign.{}"
DETACH: Final = "ALTER TABLE countersign.{} DETACH PARTITION countersign.{} CONCURRENTLY"
FINALIZE: Final = "ALTER TABLE countersign.{} DETACH PARTITION countersign.{} FINALIZE"
DROP: Final = "DROP TABLE countersign.{}"
HOLDS_ROWS: Final = "SELECT EXISTS (SELECT FROM countersign.{})"


def _drop_empty(conn: psycopg.Connection[object], name: str) -> list[str]:
    """Drop a detached table, and say so, unless it holds rows."""
    if _run(conn, HOLDS_ROWS, name):
        return []
    _run(conn, DROP, name)
    return [name]


def _run(conn: psycopg.Connection[object], statement: LiteralString, *names: str) -> object:
    """Run a statement about tables of those names; returns what it answers, if anything."""
    composed = sql.SQL(statement).format(*map(sql.Identifier, names))
    with psycopg.Cursor(conn, row_factory=scalar_row) as cursor:
        cursor.execute(composed)
        return cursor.fetchone() if cursor.description else None
