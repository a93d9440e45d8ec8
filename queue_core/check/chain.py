"""Whether the seals are a whole chain."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import psycopg

from queue_core.check.problem import MOST_PROBLEMS, Problem
from queue_core.database import rows
from queue_core.queries.seals import Head

NEWEST_SEALS: Final = 20
FIND_OUT: Final = (
    "compare with a backup, find out who could act as the schema's owner or a superuser, and "
    "keep this database as it is for whoever looks into it"
)


@dataclass(frozen=True, slots=True)
class Window:
    """What is looked at: the seals after `after`, and the acts that only they can hold.

    Those are of transactions from `low` to below `high`, have ids above `base`, and are held
    by seals after `low_seal`. `due`: the next seal will be a rebase.
    """

    after: int
    low_seal: int
    low: str
    high: str
    base: int
    due: bool


# A rebase begins the numbers of transactions anew: what is compared by them begins there.
WINDOW = """
WITH last AS (
    SELECT seals.number, seals.horizon, seals.base, seals.system_identifier,
        CASE WHEN %(full)s THEN 0 ELSE GREATEST(seals.number - %(most)s, 0) END AS after
    FROM countersign.seals
    ORDER BY seals.number DESC
    LIMIT 1
)
SELECT last.after, COALESCE(low.number, 0) AS low_seal, COALESCE(low.horizon::text, '0') AS low,
    last.horizon::text AS high, last.base,
    last.system_identifier <> control.system_identifier
        OR last.horizon > pg_snapshot_xmax(pg_current_snapshot()) AS due
FROM last
CROSS JOIN pg_control_system() AS control
LEFT JOIN LATERAL (
    SELECT seals.number, seals.horizon
    FROM countersign.seals
    WHERE seals.number = last.after
        OR (seals.number > last.after AND seals.rebase)
    ORDER BY seals.number DESC
    LIMIT 1
) AS low ON NOT %(full)s
"""


def window(conn: psycopg.Connection[object], *, full: bool) -> Window | None:
    """Return what the quick form looks at, or `full` form; None where there is no seal."""
    found = rows(conn, WINDOW, {"full": full, "most": NEWEST_SEALS}, Window)
    return found[0] if found else None


@dataclass(frozen=True, slots=True)
class _Seal:
    number: int
    whole: bool
    before: int
    follows: bool


# The seal before the first has number 0 and a hash of zeros.
SEALS = """
WITH chain AS (
    SELECT seals.number, seals.previous,
        seals.sha256 IS NOT DISTINCT FROM countersign.seal_digest(seals) AS whole
    FROM countersign.seals
    WHERE seals.number > %(after)s
),
linked AS (
    SELECT chain.number, chain.whole, COALESCE(before.number, 0) AS before,
        chain.previous IS NOT DISTINCT FROM
            COALESCE(before.sha256, decode(repeat('00', 32), 'hex')) AS follows
    FROM chain
    LEFT JOIN LATERAL (
        SELECT seals.number, seals.sha256
        FROM countersign.seals
        WHERE seals.number < chain.number
        ORDER BY seals.number DESC
        LIMIT 1
    ) AS before ON true
)
SELECT linked.number, linked.whole, linked.before, linked.follows
FROM linked
WHERE NOT linked.whole OR NOT linked.follows OR linked.before <> linked.number - 1
ORDER BY linked.number
LIMIT %(problems)s
"""


def problems(conn: psycopg.Connection[object], seen: Window) -> list[Problem]:
    """Return a problem for each seal that is missing, changed or made anew, at most 100."""
    asked = {"after": seen.after, "problems": MOST_PROBLEMS}
    faulty = rows(conn, SEALS, dict[str, object](asked), _Seal)
    changed = {seal.number for seal in faulty if not seal.whole}
    return [
        *(_changed(number) for number in sorted(changed)),
        *(_removed(seal) for seal in faulty if seal.before != seal.number - 1),
        *(_anew(seal) for seal in faulty if _follows_another(seal, changed)),
    ]


def _follows_another(seal: _Seal, changed: set[int]) -> bool:
    """Say whether seal and seal before are whole and next to each other, and still no chain."""
    adjacent = seal.before == seal.number - 1
    return adjacent and not seal.follows and not {seal.number, seal.before} & changed


def _changed(number: int) -> Problem:
    return Problem("ledger.seal_changed", f"seal {number} is not as it was made", FIND_OUT)


def _removed(seal: _Seal) -> Problem:
    first, last = seal.before + 1, seal.number - 1
    named = f"seals {first} to {last} are" if first < last else f"seal {last} is"
    return Problem("ledger.seal_removed", f"{named} missing before seal {seal.number}", FIND_OUT)


def _anew(seal: _Seal) -> Problem:
    what = f"seal {seal.before} was made anew: seal {seal.number} follows another"
    return Problem("ledger.seal_changed", what, FIND_OUT)


SEAL_OF_HEAD = """
SELECT seals.number, encode(seals.sha256, 'hex') AS sha256
FROM countersign.seals
WHERE seals.number = %(number)s
"""


def heads(conn: psycopg.Connection[object], kept: Sequence[Head]) -> list[Problem]:
    """Return a problem for each head kept outside whose seal is not in the chain any more."""
    found: list[Problem] = []
    for head in kept:
        seals = rows(conn, SEAL_OF_HEAD, {"number": head.number}, Head)
        if not seals:
            what = f"seal {head.number}, whose hash was kept outside, is not there"
            found.append(Problem("ledger.seal_removed", what, FIND_OUT))
        elif seals[0] != head:
            what = f"seal {head.number} has another hash than the one kept outside"
            found.append(Problem("ledger.seal_changed", what, FIND_OUT))
    return found
