"""Pieces of SQL that ticks and acts share."""

from typing import Final, LiteralString

# In numeric, so that not even a thousand years of intervals would round.
NEXT: Final[LiteralString] = """
    schedules.due_at + schedule_versions.every * (div(EXTRACT(EPOCH FROM now() - schedules.due_at),
        EXTRACT(EPOCH FROM schedule_versions.every)) + 1)::double precision
"""
"""The first due time after now, whole intervals from the present one."""

# A row that changed after the statement's snapshot may name a last job that the snapshot does not
# show, and would seem idle: it is left to the next tick.
HELD: Final[LiteralString] = """
WITH seen AS MATERIALIZED (
    SELECT schedules.name, schedules.due_at, schedules.last_job
    FROM countersign.schedules
    WHERE schedules.name = %(name)s
),
held AS MATERIALIZED (
    SELECT schedules.name, schedules.due_at, schedules.last_job, schedules.version,
        schedules.created_at
    FROM countersign.schedules
    JOIN seen ON seen.name = schedules.name
        AND seen.due_at = schedules.due_at
        AND seen.last_job IS NOT DISTINCT FROM schedules.last_job
    WHERE schedules.archived_at IS NULL
"""
"""Begins a statement: the schedule `name`, to be locked. Goes on with more conditions."""

UNFINISHED: Final[LiteralString] = """
),
unfinished AS (
    SELECT 'queued' AS place FROM held JOIN countersign.ready ON ready.id = held.last_job
    UNION ALL
    SELECT 'queued' FROM held JOIN countersign.waiting ON waiting.id = held.last_job
    UNION ALL
    SELECT 'queued' FROM held JOIN countersign.blocked ON blocked.id = held.last_job
    UNION ALL
    SELECT 'running' FROM held JOIN countersign.running ON running.id = held.last_job
),
asked AS MATERIALIZED (
    SELECT countersign.new_id() AS id, version.job AS name, version.queue, version.args,
        version.priority, version.attempts, version.time_limit, held.name AS schedule,
        now() AS run_at
    FROM held
    JOIN countersign.schedule_versions AS version ON version.id = held.version
    WHERE NOT EXISTS (SELECT FROM unfinished)
),
"""
"""Where the last job of `held` stands unless it has ended, and the job that is asked for then."""
