"""The ledger, newest act first, page by page: what fits a filter, and how far it was looked for."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, Literal, LiteralString
from uuid import UUID

import psycopg

from queue_core.database import rows, value
from queue_core.queries.acts import ActRow

PAGE: Final = 50
MOST: Final = 1_000
WINDOW: Final = 50_000
"""So many acts are looked through for one page; what fits further on is asked for from there."""
LARGEST_ID: Final = 2**63 - 1
CLOCK_SET: Final = timedelta(minutes=5)
"""Ids rise with time, unless the server's clock was set: so far apart they may lie."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What an act has to be to fit; None says nothing. `repr` leaves out what a person wrote.

    `name` is the subject's name, `subject` its id, where it has one; `since` is the first
    moment that fits, `until` the first that no longer does.
    """

    by: str | None = field(default=None, repr=False)
    act: str | None = None
    reason: str | None = field(default=None, repr=False)
    kind: str | None = None
    name: str | None = None
    subject: UUID | None = None
    bulk: UUID | None = None
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Cursor:
    """A place in the ledger: an act's id, which need not be an act of the list's."""

    id: int

    def encode(self) -> str:
        """Return the cursor as it stands in a URL."""
        return str(self.id)

    @classmethod
    def decode(cls, text: str) -> "Cursor":
        """Read a cursor from a URL. Raises ValueError for anything that `encode` did not make."""
        if not (text.isascii() and text.isdecimal() and len(text) <= len(str(LARGEST_ID))):
            message = "not a cursor"
            raise ValueError(message)
        if int(text) > LARGEST_ID:
            message = "not the id of an act"
            raise ValueError(message)
        return cls(int(text))


@dataclass(frozen=True, slots=True)
class Page:
    """Acts, the newest first, and the places before and after them where the list goes on.

    `stopped` says that the look ended before the list did, at the place where the link on
    that side goes on: nothing that fits was passed over.
    """

    rows: list[ActRow]
    previous: Cursor | None
    next: Cursor | None
    stopped: bool = False


@dataclass(frozen=True, slots=True)
class _Bounds:
    """The ids that are looked at: above `low` and below `high`; `cut` where there are more."""

    low: int
    high: int
    cut: bool


COLUMNS: Final[LiteralString] = """
SELECT acts.id, acts.at, acts.by, acts.act, acts.subject_kind, acts.subject_id,
    acts.subject_name, acts.attempt, acts.reason, acts.note, acts.bulk_id, acts.via,
    acts.kill_after
FROM countersign.acts
"""
BETWEEN: Final[LiteralString] = """
WHERE acts.id > %(low)s
    AND acts.id < %(high)s
"""
OF_JOB: Final[LiteralString] = "    AND acts.subject_id = %(subject)s\n"
OF_BULK: Final[LiteralString] = "    AND acts.bulk_id = %(bulk)s\n"
# As the index says it: acts on jobs have an id, all others a name alone. Kind and name stand in
# FITTING too, for lists without this index; a plan that is kept for all would not use one there.
OF_NAME: Final[LiteralString] = """
    AND acts.subject_id IS NULL
    AND acts.subject_kind = %(kind)s
    AND acts.subject_name = %(name)s
"""
FITTING: Final[LiteralString] = """
    AND (%(by)s::text IS NULL OR acts.by = %(by)s::text)
    AND (%(act)s::text IS NULL OR acts.act = %(act)s::text)
    AND (%(reason)s::text IS NULL OR acts.reason = %(reason)s::text)
    AND (%(kind)s::text IS NULL OR acts.subject_kind = %(kind)s::text)
    AND (%(name)s::text IS NULL OR acts.subject_name = %(name)s::text)
    AND (%(since)s::timestamptz IS NULL OR acts.at >= %(since)s::timestamptz)
    AND (%(until)s::timestamptz IS NULL OR acts.at < %(until)s::timestamptz)
"""
FALLING: Final[LiteralString] = "ORDER BY acts.id DESC\nLIMIT %(limit)s"
RISING: Final[LiteralString] = "ORDER BY acts.id\nLIMIT %(limit)s"


def list_acts(
    conn: psycopg.Connection[object],
    wanted: Wanted,
    *,
    cursor: Cursor | None = None,
    direction: Literal["next", "previous"] = "next",
    limit: int = PAGE,
    window: int = WINDOW,
) -> Page:
    """Return the page of acts older than `cursor`, or with `direction` newer than it.

    `limit` is clamped to 1–1,000. At most `window` acts are looked through: where fewer
    than `limit` of them fit, the page says that it stopped, and links go on from there.
    """
    limit = min(max(limit, 1), MOST)
    backward = direction == "previous" and cursor is not None
    scope = _scope(wanted)
    bounds = _bounds(conn, wanted, scope, cursor, backward=backward, window=window)
    statement = COLUMNS + BETWEEN + scope + FITTING + (RISING if backward else FALLING)
    asked = _asked(wanted) | {"low": bounds.low, "high": bounds.high, "limit": limit + 1}
    found = rows(conn, statement, asked, ActRow)
    return _page(found, limit, bounds, backward=backward, began=cursor is None)


ONE: Final[LiteralString] = COLUMNS + "WHERE acts.id = %(id)s\n"


def act(conn: psycopg.Connection[object], act_id: int) -> ActRow | None:
    """Return the act of this id, or None where there is none."""
    found = rows(conn, ONE, {"id": act_id}, ActRow) if act_id <= LARGEST_ID else []
    return found[0] if found else None


def _asked(wanted: Wanted) -> dict[str, object]:
    names = ("by", "act", "reason", "kind", "name", "subject", "bulk", "since", "until")
    return {name: getattr(wanted, name) for name in names}


def _scope(wanted: Wanted) -> LiteralString:
    """Return the clauses that an index answers by itself, where the filter has such."""
    of_job = OF_JOB if wanted.subject is not None else ""
    of_bulk = OF_BULK if wanted.bulk is not None else ""
    has_index = wanted.name is not None and wanted.kind not in {None, "job"}
    return of_job + of_bulk + (OF_NAME if has_index else "")


IDS: Final[LiteralString] = "\nSELECT acts.id\nFROM countersign.acts\n" + BETWEEN
LAST_FALLING: Final[LiteralString] = "ORDER BY acts.id DESC\nOFFSET %(window)s LIMIT 1"
LAST_RISING: Final[LiteralString] = "ORDER BY acts.id\nOFFSET %(window)s LIMIT 1"


def _bounds(
    conn: psycopg.Connection[object],
    wanted: Wanted,
    scope: LiteralString,
    cursor: Cursor | None,
    *,
    backward: bool,
    window: int,
) -> _Bounds:
    low, high = _in_time(conn, wanted)
    if cursor is not None:
        low, high = (max(low, cursor.id), high) if backward else (low, min(high, cursor.id))
    asked = _asked(wanted) | {"low": low, "high": high, "window": window}
    edge = IDS + scope + (LAST_RISING if backward else LAST_FALLING)
    last = value(conn, edge, asked) if _looks_through(wanted) else None
    if last is None:
        return _Bounds(low, high, cut=False)
    beyond = int(str(last))
    return _Bounds(low, beyond, cut=True) if backward else _Bounds(beyond, high, cut=True)


def _looks_through(wanted: Wanted) -> bool:
    """Whether acts have to be read that may not fit: no index holds them apart."""
    told = (wanted.by, wanted.act, wanted.reason, wanted.kind, wanted.name)
    return any((*told, wanted.since, wanted.until))


def _in_time(conn: psycopg.Connection[object], wanted: Wanted) -> tuple[int, int]:
    """Return the ids between which all acts of the time wanted lie."""
    low, high = 0, LARGEST_ID
    if wanted.since is not None:
        low = _first_at(conn, wanted.since - CLOCK_SET) - 1
    if wanted.until is not None:
        high = _first_at(conn, wanted.until + CLOCK_SET)
    return low, high


# Ids have gaps, so the middle of two is the next one that there is.
FIRST_AT = """
WITH RECURSIVE search AS (
    SELECT 1::bigint AS low, COALESCE(newest.id, 0) + 1 AS high
    FROM (SELECT) AS ledger
    LEFT JOIN (
        SELECT acts.id FROM countersign.acts ORDER BY acts.id DESC LIMIT 1
    ) AS newest ON true
    UNION ALL
    SELECT CASE WHEN middle.at < %(moment)s THEN middle.id + 1 ELSE search.low END,
        CASE WHEN middle.at < %(moment)s THEN search.high
            ELSE search.low + (search.high - search.low) / 2 END
    FROM search
    CROSS JOIN LATERAL (
        SELECT acts.id, acts.at
        FROM countersign.acts
        WHERE acts.id >= search.low + (search.high - search.low) / 2
        ORDER BY acts.id
        LIMIT 1
    ) AS middle
    WHERE search.low < search.high
)
SELECT min(search.high)
FROM search
"""


def _first_at(conn: psycopg.Connection[object], moment: datetime) -> int:
    """Return an id from which on acts are of `moment` or later: 25 looks into ten million acts."""
    return int(str(value(conn, FIRST_AT, {"moment": moment})))


def _page(found: list[ActRow], limit: int, bounds: _Bounds, *, backward: bool, began: bool) -> Page:
    """Put the acts in their order and say where the list goes on, both ways."""
    more, kept = len(found) > limit, found[:limit]
    if backward:
        kept.reverse()
    newest = kept[0].id if kept and (more or not backward) else bounds.high - 1
    oldest = kept[-1].id if kept and (more or backward) else bounds.low + 1
    has_previous = (more or bounds.cut) if backward else not began
    has_next = backward or more or bounds.cut
    return Page(
        kept,
        Cursor(newest) if has_previous else None,
        Cursor(oldest) if has_next else None,
        stopped=bounds.cut and not more,
    )
