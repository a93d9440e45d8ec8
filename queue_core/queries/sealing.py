"""Which seal holds an act: found by halves, since seals follow the order of transactions."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import psycopg

from queue_core.database import rows

MOST_LOOKED_THROUGH: Final = 10_000
"""Acts of one seal: in a larger one, which only a rebase makes, an act is not looked for itself."""


@dataclass(frozen=True, slots=True)
class Sealing:
    """Where an act stands to the seals.

    `seal` is the number of the seal that covers it, None while it is not sealed yet; `held`
    says that the act is in it, as an act that came in past the triggers is not.
    """

    act: int
    seal: int | None
    held: bool


# Two searches by halves. The first is for acts that a rebase covers, whatever their transactions:
# for the first seal of its `base`. The second, among the seals before that one, or for all other
# acts among the newest, is for the first whose horizon is above the act's transaction: one search
# for all acts of a transaction. What a seal holds is read once, however many of the acts it has.
# Each step is a look-up beside a row, with a LIMIT: a join could become a hash of all seals.
SEALING = """
WITH RECURSIVE head AS (
    SELECT seals.number, seals.base,
        seals.system_identifier <> control.system_identifier
            OR seals.horizon > pg_snapshot_xmax(pg_current_snapshot()) AS due
    FROM countersign.seals
    CROSS JOIN pg_control_system() AS control
    ORDER BY seals.number DESC
    LIMIT 1
),
asked AS (
    SELECT acts.id, acts.xid
    FROM countersign.acts
    WHERE acts.id = ANY (%(ids)s)
),
rebased AS (
    SELECT asked.id, asked.xid, 1::bigint AS low, head.number AS high
    FROM asked
    JOIN head ON asked.id <= head.base
    UNION ALL
    SELECT rebased.id, rebased.xid,
        CASE WHEN middle.base < rebased.id THEN middle.number + 1 ELSE rebased.low END,
        CASE WHEN middle.base < rebased.id THEN rebased.high ELSE middle.number END
    FROM rebased
    CROSS JOIN LATERAL (
        SELECT seals.number, seals.base
        FROM countersign.seals
        WHERE seals.number = (rebased.low + rebased.high) / 2
        LIMIT 1
    ) AS middle
    WHERE rebased.low < rebased.high
),
covered AS (
    SELECT array_agg(asked.id) AS ids, asked.xid, head.base, 1::bigint AS low,
        head.number + 1 AS high, NULL::bigint AS rebase
    FROM asked
    JOIN head ON asked.id > head.base
    GROUP BY asked.xid, head.base, head.number
    UNION ALL
    (
        SELECT array_agg(rebased.id), rebased.xid, COALESCE(before.base, 0), 1, rebased.low,
            rebased.low
        FROM rebased
        LEFT JOIN LATERAL (
            SELECT seals.base FROM countersign.seals WHERE seals.number = rebased.low - 1 LIMIT 1
        ) AS before ON true
        WHERE rebased.low = rebased.high
        GROUP BY rebased.xid, before.base, rebased.low
    )
),
search AS (
    SELECT covered.ids, covered.xid, covered.base, covered.low, covered.high, covered.rebase
    FROM covered
    UNION ALL
    SELECT search.ids, search.xid, search.base,
        CASE WHEN middle.base >= search.base AND middle.horizon > search.xid
            THEN search.low ELSE middle.number + 1 END,
        CASE WHEN middle.base >= search.base AND middle.horizon > search.xid
            THEN middle.number ELSE search.high END,
        search.rebase
    FROM search
    CROSS JOIN LATERAL (
        SELECT seals.number, seals.base, seals.horizon
        FROM countersign.seals
        WHERE seals.number = (search.low + search.high) / 2
        LIMIT 1
    ) AS middle
    WHERE search.low < search.high
),
place AS MATERIALIZED (
    SELECT search.ids, search.rebase, middle.number, seals.count
    FROM search
    CROSS JOIN LATERAL (SELECT (search.low + search.high) / 2 AS number) AS middle
    LEFT JOIN LATERAL (
        SELECT seals.number, seals.count
        FROM countersign.seals
        WHERE seals.number = middle.number
        LIMIT 1
    ) AS seals ON true
    -- A seal that was removed is where the search ends, too.
    WHERE search.low = search.high OR seals.number IS NULL
),
member AS (
    SELECT touched.number, each.id
    FROM (
        SELECT place.number FROM place
        UNION
        SELECT place.rebase FROM place
    ) AS touched
    CROSS JOIN LATERAL (
        SELECT seals.ids
        FROM countersign.seals
        WHERE seals.number = touched.number AND seals.count <= %(most)s
        LIMIT 1
    ) AS seal
    CROSS JOIN LATERAL unnest(seal.ids) AS each (id)
),
found AS MATERIALIZED (
    SELECT act.id, place.rebase, CASE WHEN place.number <= head.number THEN place.number END
            AS seal,
        -- Not a join: that of two lists taken for short ones compares each row with each.
        COALESCE(place.count > %(most)s
            OR (place.number, act.id) IN (SELECT member.number, member.id FROM member), false)
            AS held,
        head.due
    FROM place
    CROSS JOIN LATERAL unnest(place.ids) AS act (id)
    CROSS JOIN head
)
SELECT found.id AS act, COALESCE(rebase.number, found.seal) AS seal,
    found.held OR rebase.number IS NOT NULL AND (rebase.count > %(most)s
        OR (rebase.number, found.id) IN (SELECT member.number, member.id FROM member)) AS held
FROM found
-- Acts of the new server that came before the rebase may look as if an older seal had them.
LEFT JOIN LATERAL (
    SELECT seals.number, seals.count
    FROM countersign.seals
    WHERE seals.number = found.rebase AND NOT found.held
    LIMIT 1
) AS rebase ON true
-- On another server transactions tell nothing until the next seal, which takes such acts.
WHERE found.held OR rebase.number IS NOT NULL OR NOT found.due
"""


def sealing(conn: psycopg.Connection[object], ids: Iterable[int]) -> dict[int, Sealing]:
    """Return, by its id, where each of these acts stands to the seals."""
    asked = list(ids)
    found = rows(conn, SEALING, {"ids": asked, "most": MOST_LOOKED_THROUGH}, Sealing)
    return {each: Sealing(each, None, held=False) for each in asked} | {
        each.act: each for each in found
    }
