"""Folding: old tallies are joined to ones of a longer span, so that counting reads few rows."""

from typing import Final, LiteralString

import psycopg

from queue_core.database import execute

MOST_ROWS: Final = 50_000

# Charts show the last hours by minute, a week by hour, and what was before by day.
SPAN: Final[LiteralString] = """
        CASE
            WHEN tallies.minute > now() - interval '3 hours' THEN tallies.minute
            WHEN tallies.minute > now() - interval '8 days'
                THEN date_trunc('hour', tallies.minute, 'UTC')
            WHEN tallies.minute > now() - interval '400 days'
                THEN date_trunc('day', tallies.minute, 'UTC')
            ELSE date_trunc('year', tallies.minute, 'UTC')
        END AS span
"""
# Only rows that this statement deleted are added up, whoever else folds meanwhile; the lock spares
# them the wait. By ctid, since rows of tallies have no key and are never updated.
FOLD = (
    """
WITH alone AS MATERIALIZED (
    SELECT pg_try_advisory_xact_lock(hashtext('countersign.fold')) AS got
),
spanned AS MATERIALIZED (
    SELECT tallies.ctid AS place, tallies.minute, tallies.name, tallies.state,"""
    + SPAN
    + """
    FROM countersign.tallies
    WHERE (SELECT alone.got FROM alone)
),
several AS (
    SELECT spanned.span, spanned.name, spanned.state
    FROM spanned
    GROUP BY spanned.span, spanned.name, spanned.state
    HAVING count(*) > 1 OR min(spanned.minute) <> min(spanned.span)
),
gone AS (
    DELETE FROM countersign.tallies
    WHERE tallies.ctid = ANY(ARRAY(
        SELECT spanned.place
        FROM spanned
        JOIN several USING (span, name, state)
        LIMIT %(most)s
    ))
    RETURNING tallies.minute, tallies.name, tallies.state, tallies.entered, tallies.removed,
        tallies.timed, tallies.seconds
),
folded AS (
    SELECT tallies.name, tallies.state, tallies.entered, tallies.removed, tallies.timed,
        tallies.seconds,"""
    + SPAN
    + """
    FROM gone AS tallies
)
INSERT INTO countersign.tallies (minute, name, state, entered, removed, timed, seconds)
SELECT folded.span, folded.name, folded.state, sum(folded.entered), sum(folded.removed),
    sum(folded.timed), sum(folded.seconds)
FROM folded
GROUP BY folded.span, folded.name, folded.state
"""
)


def fold(conn: psycopg.Connection[object], *, most: int = MOST_ROWS) -> int:
    """Join tallies of one name, state and span, at most `most`; returns how many rows they became.

    A span is a minute for three hours, an hour for eight days, a day for 400, then a year, all
    in UTC. No sum changes. While another folds nothing is done.
    """
    return execute(conn, FOLD, {"most": most})
