"""What live code says of schedules: rows, versions in force, and what nobody has any more."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass

import psycopg

from queue_core.database import execute, rows
from queue_core.errors import ArgumentsError
from queue_core.rules import Schedule


@dataclass(frozen=True, slots=True)
class _Named:
    """A row that is only a schedule's name."""

    name: str


# A read, so that a schedule known to be in code costs no write for most of a minute.
UNREGISTERED = """
SELECT declared.name
FROM unnest(%(names)s::text[], %(fingerprints)s::text[]) AS declared (name, fingerprint)
LEFT JOIN countersign.schedules ON schedules.name = declared.name
LEFT JOIN countersign.schedule_versions AS held ON held.id = schedules.version
LEFT JOIN countersign.schedule_versions AS mine
    ON mine.schedule = declared.name AND mine.fingerprint = declared.fingerprint
WHERE schedules.name IS NULL
    OR mine.id IS NULL
    OR schedules.archived_at IS NOT NULL
    OR schedules.seen_at < now() - interval '1 minute'
    OR mine.seen_at < now() - interval '1 minute'
    OR mine.id > held.id
    OR (mine.id < held.id
        AND held.seen_at < now() - interval '3 minutes'
        AND mine.present_since < now() - interval '3 minutes')
ORDER BY declared.name
"""


def unregistered(conn: psycopg.Connection[object], schedules: Iterable[Schedule]) -> list[str]:
    """Return the names of schedules whose rows do not say yet that this code has them so."""
    declared = {each.name: each.fingerprint() for each in schedules}
    parameters = {"names": list(declared), "fingerprints": list(declared.values())}
    return [row.name for row in rows(conn, UNREGISTERED, parameters, _Named)]


# The newest version is in force as long as live code has it: older code must not undo what newer
# code says, and a rollback must come through. Older code is believed when it has been here for
# three minutes without the newer: after an outage any of them may be back first.
# Rows that somebody holds are left to the next tick, which waits for nobody; `free` comes after
# `mine` in every process, or two of them could wait for each other.
REGISTER = """
WITH made AS (
    INSERT INTO countersign.schedule_versions (schedule, fingerprint, every, job, queue, args,
        priority, attempts, time_limit)
    VALUES (%(name)s, %(fingerprint)s, make_interval(secs => %(every)s), %(job)s, %(queue)s,
        %(args)s::jsonb, %(priority)s, %(attempts)s, %(time_limit)s)
    ON CONFLICT (schedule, fingerprint) DO NOTHING
    RETURNING schedule_versions.id
),
stale AS MATERIALIZED (
    SELECT schedule_versions.id
    FROM countersign.schedule_versions
    WHERE schedule_versions.schedule = %(name)s
        AND schedule_versions.fingerprint = %(fingerprint)s
        AND schedule_versions.seen_at < now() - interval '1 minute'
    FOR NO KEY UPDATE SKIP LOCKED
),
seen AS (
    UPDATE countersign.schedule_versions
    SET seen_at = now(),
        present_since = CASE
            WHEN schedule_versions.seen_at < now() - interval '3 minutes' THEN now()
            ELSE schedule_versions.present_since
        END
    FROM stale
    WHERE schedule_versions.id = stale.id
),
mine AS (
    SELECT made.id
    FROM made
    UNION ALL
    SELECT schedule_versions.id
    FROM countersign.schedule_versions
    WHERE schedule_versions.schedule = %(name)s
        AND schedule_versions.fingerprint = %(fingerprint)s
),
free AS MATERIALIZED (
    SELECT schedules.name
    FROM mine
    JOIN countersign.schedules ON schedules.name = %(name)s
    FOR NO KEY UPDATE OF schedules SKIP LOCKED
)
INSERT INTO countersign.schedules AS held (name, version, due_at)
SELECT %(name)s, mine.id, COALESCE(%(first_at)s::timestamptz, now())
FROM mine
WHERE EXISTS (SELECT FROM free)
    OR NOT EXISTS (SELECT FROM countersign.schedules WHERE schedules.name = %(name)s)
ON CONFLICT (name) DO UPDATE
SET seen_at = now(),
    archived_at = NULL,
    version = CASE
        WHEN EXCLUDED.version > held.version OR EXISTS (
            SELECT
            FROM countersign.schedule_versions AS newer, countersign.schedule_versions AS older
            WHERE newer.id = held.version
                AND newer.seen_at < now() - interval '3 minutes'
                AND older.id = EXCLUDED.version
                AND older.seen_at >= now() - interval '3 minutes'
                AND older.present_since < now() - interval '3 minutes'
        ) THEN EXCLUDED.version
        ELSE held.version
    END
WHERE held.archived_at IS NOT NULL
    OR held.seen_at < now() - interval '1 minute'
    OR held.version <> EXCLUDED.version
"""


def register(conn: psycopg.Connection[object], schedule: Schedule) -> None:
    """Make the schedule's row, or say that it is in code: restored, seen, perhaps in force."""
    try:
        execute(conn, REGISTER, asdict(schedule) | {"fingerprint": schedule.fingerprint()})
    except psycopg.DataError:
        # The server's text would carry the arguments.
        raise ArgumentsError(schedule.job, {"": "cannot be stored by Postgres"}) from None


ARCHIVE = """
UPDATE countersign.schedules
SET archived_at = now()
WHERE schedules.archived_at IS NULL
    AND schedules.seen_at < now() - interval '1 hour'
    AND schedules.name <> ALL(%(names)s)
"""
FORGET = """
DELETE FROM countersign.schedule_versions
WHERE schedule_versions.seen_at < now() - interval '30 days'
    AND NOT EXISTS (
        SELECT FROM countersign.schedules WHERE schedules.version = schedule_versions.id
    )
"""


def archive_schedules(conn: psycopg.Connection[object], schedules: Iterable[Schedule]) -> int:
    """Archive the schedules that no process has had in code for an hour; return how many.

    Those of this process's own code (`schedules`) stay. An archived schedule enqueues
    nothing; a tick of a process that has it restores it as it was. Versions of schedules
    that nobody has had for 30 days are forgotten.
    """
    execute(conn, FORGET, {})
    return execute(conn, ARCHIVE, {"names": [each.name for each in schedules]})
