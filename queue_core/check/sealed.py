"""Whether the acts are those that were sealed, and came in when they say."""

from dataclasses import dataclass
from typing import Final

import psycopg

from queue_core.check.chain import FIND_OUT, Window
from queue_core.check.problem import MOST_PROBLEMS, Problem
from queue_core.database import rows

# Dates as text: Python has none for `infinity`, which somebody may have put in.
NEWEST_ACTS: Final = 1_000
TOLERANCE_SECONDS: Final = 300
"""Acts of racing clients get ids and dates in slightly different orders."""


def differing(conn: psycopg.Connection[object], seen: Window) -> dict[int, Problem]:
    """Return, by the act's id, a problem for each sealed act that was changed or removed."""
    asked = {"after": seen.after, "problems": MOST_PROBLEMS}
    found = rows(conn, DIFFERING, dict[str, object](asked), _Differing)
    return {act.id: _removed(act) if act.removed else _changed(act) for act in found}


@dataclass(frozen=True, slots=True)
class _Differing:
    id: int
    seal: int
    removed: bool


# What a changed seal says of acts is nothing.
DIFFERING = """
SELECT sealed.id, seals.number AS seal, acts.id IS NULL AS removed
FROM countersign.seals
CROSS JOIN LATERAL unnest(seals.ids, seals.digests) AS sealed (id, digest)
LEFT JOIN countersign.acts ON acts.id = sealed.id
WHERE seals.number > %(after)s
    AND seals.sha256 = countersign.seal_digest(seals)
    AND (acts.id IS NULL OR countersign.act_digest(acts) IS DISTINCT FROM sealed.digest)
ORDER BY sealed.id
LIMIT %(problems)s
"""


def _removed(act: _Differing) -> Problem:
    what = f"act {act.id}, which seal {act.seal} holds, was removed"
    return Problem("ledger.act_removed", what, FIND_OUT)


def _changed(act: _Differing) -> Problem:
    what = f"act {act.id} was changed after seal {act.seal} was made"
    return Problem("ledger.act_changed", what, FIND_OUT)


@dataclass(frozen=True, slots=True)
class _Stray:
    id: int
    xid: int


STRAYS = """
SELECT acts.id, acts.xid::text::bigint AS xid
FROM countersign.acts
WHERE (
        (acts.xid >= %(low)s::xid8 AND acts.xid < %(high)s::xid8 AND acts.id > %(base)s)
        OR (
            acts.xid >= pg_snapshot_xmax(pg_current_snapshot())
            AND acts.xid IS DISTINCT FROM pg_current_xact_id_if_assigned()
            AND acts.id > %(base)s
        )
        OR (%(full)s AND acts.id <= %(base)s)
    )
    AND NOT EXISTS (
        SELECT
        FROM (
            SELECT unnest(seals.ids) AS id
            FROM countersign.seals
            WHERE seals.number > %(low_seal)s
        ) AS sealed
        WHERE sealed.id = acts.id
    )
ORDER BY acts.id
LIMIT %(problems)s
"""


def strays(conn: psycopg.Connection[object], seen: Window, *, full: bool) -> list[Problem]:
    """Return a problem for each act that would be sealed if it had come in as acts do."""
    if seen.due:
        return []  # transactions of another server are compared with nothing here
    asked = {
        "low": seen.low,
        "high": seen.high,
        "base": seen.base,
        "low_seal": seen.low_seal,
        "full": full,
        "problems": MOST_PROBLEMS,
    }
    return [
        _inserted(f"act {act.id} is in no seal, though transaction {act.xid} was sealed long ago")
        for act in rows(conn, STRAYS, dict[str, object](asked), _Stray)
    ]


@dataclass(frozen=True, slots=True)
class _Misdated:
    id: int
    at: str
    since: str | None
    until: str


# A transaction that begins after a seal's own cannot bring an act that is older than the seal. Of
# the seals before, the newest few are asked: the others are older still.
MISDATED = """
WITH dated AS (
    SELECT sealed.id, seals.number, seals.at AS until
    FROM countersign.seals
    CROSS JOIN LATERAL unnest(seals.ids) AS sealed (id)
    WHERE seals.number > %(after)s
    UNION ALL
    SELECT acts.id, (SELECT max(seals.number) FROM countersign.seals) + 1, clock_timestamp()
    FROM countersign.acts
    WHERE acts.xid >= %(high)s::xid8
        AND acts.id > %(base)s
)
SELECT acts.id, acts.at::text AS at, dated.until::text AS until,
    CASE WHEN acts.at < earlier.at THEN earlier.at::text END AS since
FROM dated
JOIN countersign.acts ON acts.id = dated.id
LEFT JOIN LATERAL (
    SELECT seals.at
    FROM countersign.seals
    WHERE seals.number BETWEEN dated.number - 8 AND dated.number - 1
        AND seals.xid < acts.xid
    ORDER BY seals.number DESC
    LIMIT 1
) AS earlier ON true
WHERE (
        acts.at > dated.until + make_interval(secs => %(tolerance)s)
        OR acts.at < earlier.at - make_interval(secs => %(tolerance)s)
    )
    AND acts.id <> ALL (%(known)s::bigint[])
ORDER BY acts.id
LIMIT %(problems)s
"""


def misdated(conn: psycopg.Connection[object], seen: Window, known: list[int]) -> list[Problem]:
    """Return a problem for each act, but the `known`, whose date the seals around it belie."""
    asked = {
        "after": seen.after,
        "high": seen.high,
        "base": seen.base,
        "known": known,
        "tolerance": TOLERANCE_SECONDS,
        "problems": MOST_PROBLEMS,
    }
    return [
        _inserted(f"act {act.id} is dated {act.at}, but came in {_when(act)}")
        for act in rows(conn, MISDATED, dict[str, object](asked), _Misdated)
    ]


def _when(act: _Misdated) -> str:
    return f"after the seal of {act.since}" if act.since else f"before {act.until}"


@dataclass(frozen=True, slots=True)
class _Disordered:
    before: int
    first: int
    last: int
    count: int


DISORDERED = """
WITH asked AS (
    SELECT acts.id AS act, acts.at
    FROM countersign.acts
    WHERE acts.id <> ALL (%(known)s::bigint[])
    ORDER BY acts.id DESC
    LIMIT %(most)s
),
dated AS (
    SELECT asked.act, asked.at, max(asked.at) OVER (ORDER BY asked.act) AS latest
    FROM asked
),
late AS (
    SELECT dated.latest, min(dated.act) AS first, max(dated.act) AS last, count(*) AS count
    FROM dated
    WHERE dated.at < dated.latest - make_interval(secs => %(tolerance)s)
    GROUP BY dated.latest
)
SELECT late.first, late.last, late.count,
    (SELECT min(asked.act) FROM asked WHERE asked.at = late.latest) AS before
FROM late
ORDER BY late.first
LIMIT %(problems)s
"""


def disordered(conn: psycopg.Connection[object], known: list[int], *, full: bool) -> list[Problem]:
    """Return a problem for acts whose ids and dates are in different orders, by over 5 minutes."""
    asked = {
        "known": known,
        "most": None if full else NEWEST_ACTS,
        "tolerance": TOLERANCE_SECONDS,
        "problems": MOST_PROBLEMS,
    }
    return [
        _inserted(f"{_named(acts)} dated over five minutes before act {acts.before}")
        for acts in rows(conn, DISORDERED, dict[str, object](asked), _Disordered)
    ]


def _named(acts: _Disordered) -> str:
    if acts.count == 1:
        return f"act {acts.first} is"
    return f"{acts.count} acts from {acts.first} to {acts.last} are"


def _inserted(what: str) -> Problem:
    return Problem(
        "ledger.act_inserted",
        what,
        f"unless the server's clock was set, somebody put it in past the triggers: {FIND_OUT}",
    )
