"""queued | running | failed -> needs_review: a run that was given up on reports after all."""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

import psycopg

from queue_core.clauses import FAILURE, REPORT, TALLIED
from queue_core.database import contention, rows
from queue_core.errors import ContendedError
from queue_core.outcomes import Moved, RunReport, failure_columns, in_order, report_columns
from queue_core.queries.places import locate
from queue_core.states import MOVES

LOOKS: Final = 20

# Of what ended the states left alone are named, as in retry: no plan may walk history by state.
DISPUTE = (
    REPORT
    + FAILURE
    + """
-- Locked, not only read: where somebody is recovering such a run, whether it holds its claim is
-- known when they commit.
held AS (
    SELECT running.id, running.attempt
    FROM countersign.running
    JOIN report ON report.id = running.id AND report.attempt = running.attempt
    WHERE running.worker = %(worker)s
    FOR UPDATE OF running
),
late AS (
    INSERT INTO countersign.runs (job_id, attempt, outcome, worker, child_pid, signal,
        started_at, error, error_type, error_place, traceback)
    SELECT report.id, report.attempt,
        CASE failure.outcome WHEN 'completed' THEN 'late_completed' ELSE 'late_failed' END,
        %(worker)s, report.child_pid, failure.signal, report.began_at, failure.error,
        failure.error_type, failure.error_place, failure.traceback
    FROM report
    JOIN failure ON failure.id = report.id AND failure.attempt = report.attempt
    WHERE NOT EXISTS (
        SELECT FROM held WHERE held.id = report.id AND held.attempt = report.attempt
    )
    ON CONFLICT (job_id, attempt, outcome) DO NOTHING
),
from_ready AS (
    DELETE FROM countersign.ready
    USING report
    WHERE ready.id = report.id
    RETURNING ready.id, ready.attempt
),
from_waiting AS (
    DELETE FROM countersign.waiting
    USING report
    WHERE waiting.id = report.id
    RETURNING waiting.id, waiting.attempt
),
from_blocked AS (
    DELETE FROM countersign.blocked
    USING report
    WHERE blocked.id = report.id
    RETURNING blocked.id, blocked.attempt
),
from_ended AS (
    DELETE FROM countersign.ended
    USING report
    WHERE ended.id = ANY(%(ids)s)
        AND ended.id = report.id
        AND ended.state NOT IN ('completed', 'cancelled')
    RETURNING ended.id, ended.attempt, ended.state
),
tally AS (
    SELECT COALESCE((SELECT jobs.name FROM countersign.jobs WHERE jobs.id = from_ended.id), '')
        AS name, from_ended.state, 0 AS entered, 1 AS removed, NULL::timestamptz AS started_at
    FROM from_ended
),
from_running AS (
    DELETE FROM countersign.running
    USING report
    WHERE running.id = report.id
        AND (running.attempt <> report.attempt OR running.worker <> %(worker)s)
    RETURNING running.id, running.attempt, running.worker, running.child_pid,
        running.claimed_at, running.started_at
),
newer AS (
    INSERT INTO countersign.runs (job_id, attempt, outcome, worker, child_pid, claimed_at,
        started_at, error)
    SELECT from_running.id, from_running.attempt, 'lost', from_running.worker,
        from_running.child_pid, from_running.claimed_at, from_running.started_at,
        'its claim was taken: an earlier run of the job reported after all'
    FROM from_running
),
moved AS (
    SELECT from_ready.id, from_ready.attempt FROM from_ready
    UNION ALL
    SELECT from_waiting.id, from_waiting.attempt FROM from_waiting
    UNION ALL
    SELECT from_blocked.id, from_blocked.attempt FROM from_blocked
    UNION ALL
    SELECT from_ended.id, from_ended.attempt FROM from_ended
    UNION ALL
    SELECT from_running.id, from_running.attempt FROM from_running
),
told AS (
    SELECT DISTINCT ON (report.id) report.id, report.attempt, report.began_at, report.child_pid,
        failure.signal
    FROM report
    JOIN failure ON failure.id = report.id AND failure.attempt = report.attempt
    ORDER BY report.id, report.attempt DESC
),
"""
    + TALLIED
    + """
review AS (
    INSERT INTO countersign.review (id, why, attempt, worker, started_at, child_pid, signal,
        error)
    SELECT moved.id, 'disputed', moved.attempt, %(worker)s, told.began_at, told.child_pid,
        told.signal, 'attempt ' || told.attempt || ' reported after it was given up'
    FROM moved
    JOIN told ON told.id = moved.id
)
SELECT moved.id, moved.attempt, 'needs_review' AS state
FROM moved
"""
)


def dispute(
    conn: psycopg.Connection[object], worker: UUID, reports: Sequence[RunReport]
) -> list[Moved]:
    """Record the late reports of runs that lost their claim; returns the jobs sent to review.

    Unfenced on purpose. A newer run of the job is ended too, as lost. Completed, cancelled
    and reviewed jobs are left alone; the late report is kept whatever the job's state. For a
    run that holds its claim after all nothing happens. Call it only for runs without a
    record of their own (`own_record`). Raises ContendedError for a job that slips away 20 times.
    """
    moved: list[Moved] = []
    left = in_order(reports)
    for _ in range(LOOKS):
        parameters = report_columns(worker, left) | failure_columns(left)
        with contention():
            moved += rows(conn, DISPUTE, parameters, Moved)
        left = _slipped(conn, left, {each.id for each in moved})
        if not left:
            return moved
    message = "disputed jobs kept moving; look again"
    raise ContendedError(message)


def _slipped(
    conn: psycopg.Connection[object], reports: Sequence[RunReport], moved: set[UUID]
) -> list[RunReport]:
    """Return the reports whose job was missed on its way from one place to another."""
    missed = [each for each in reports if each.id not in moved]
    if not missed:
        return []
    places = locate(conn, [each.id for each in missed])
    movable = MOVES["dispute"].sources
    return [
        each
        for each in missed
        if each.id in places
        and places[each.id].state in movable
        and (places[each.id].state, places[each.id].attempt) != ("running", each.attempt)
    ]
