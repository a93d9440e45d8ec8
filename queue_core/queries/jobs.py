"""Lists of jobs by state, page by page. Arguments are never read here."""

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final, Literal, LiteralString, Unpack
from uuid import UUID

import psycopg

from queue_core.database import rows
from queue_core.queries.fitting import Filters
from queue_core.queries.listing import Listing
from queue_core.queries.placed import NEWEST_FIRST
from queue_core.states import State

PAGE: Final = 50
MOST: Final = 200
WINDOW: Final = 5_000
"""So many rows are looked at for one page of a filtered list, however few of them fit."""
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_ID: Final = 2**128 - 1
_CURSOR: Final = re.compile(r"(-?\d{1,18})_([0-9a-f]{32})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Cursor:
    """A place in a list: a row's time and id, so that rows of equal time are not skipped."""

    at: datetime
    id: UUID

    def encode(self) -> str:
        """Return the cursor as it stands in a URL."""
        micros = (self.at - EPOCH) // timedelta(microseconds=1)
        return f"{micros}_{self.id.hex}"

    @classmethod
    def decode(cls, text: str) -> "Cursor":
        """Read a cursor from a URL. Raises ValueError for anything that `encode` did not make."""
        match = _CURSOR.fullmatch(text)
        if not match:
            message = "not a cursor"
            raise ValueError(message)
        try:
            return cls(EPOCH + timedelta(microseconds=int(match[1])), UUID(match[2]))
        except OverflowError:
            message = "not a cursor"
            raise ValueError(message) from None

    def stepped(self, *, falling: bool) -> "Cursor":
        """Return the place right beside this one, so that a page from it holds this row too."""
        beside = self.id.int + (-1 if falling else 1)
        return Cursor(self.at, UUID(int=min(max(beside, 0), _LAST_ID)))


@dataclass(frozen=True, slots=True)
class JobRow:
    """One line of a list. `at` is the time that matters in its state.

    That is when the job may run (ready, waiting, blocked), was claimed (running), entered
    review (needs_review) or ended. A job whose body is gone has the name "unknown". The type
    and place of its error are those of the last run that had one.
    """

    id: UUID
    name: str
    queue: str
    state: State
    attempt: int
    attempts_allowed: int | None
    at: datetime
    worker: UUID | None
    error: str | None = field(repr=False)
    error_type: str | None
    error_place: str | None
    uncertain: bool
    stop_requested_at: datetime | None
    why: str | None
    has_body: bool


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list, in its order; a cursor is None where there is no more that way.

    `cut` is the last row that was looked at, where looking stopped before the page was full and
    before the list was at its end: the page beside it goes on from there.
    """

    rows: list[JobRow]
    previous: Cursor | None
    next: Cursor | None
    cut: Cursor | None = None


HEAD: Final[LiteralString] = """
SELECT looked.id, COALESCE(body.name, looked.name, 'unknown') AS name,
    COALESCE(body.queue, looked.queue, 'unknown') AS queue, looked.state, looked.attempt,
    looked.attempts_allowed, looked.at, looked.worker, looked.error,
    COALESCE(looked.error_type, last.error_type) AS error_type,
    COALESCE(looked.error_place, last.error_place) AS error_place, looked.uncertain,
    looked.stop_requested_at, looked.why,
    body.id IS NOT NULL OR looked.name IS NOT NULL AS has_body
"""
ORDERS: Final[dict[tuple[bool, bool], LiteralString]] = {
    (False, False): "ORDER BY looked.at, looked.id\n",
    (False, True): "ORDER BY looked.at DESC, looked.id DESC\n",
    (True, False): "ORDER BY looked.id\n",
    (True, True): "ORDER BY looked.id DESC\n",
}
"""By whether the list is in the order of ids, and falls."""
WHERE: Final[LiteralString] = "WHERE "
LIMIT: Final[LiteralString] = "LIMIT %(limit)s"


def list_jobs(
    conn: psycopg.Connection[object],
    state: State,
    *,
    cursor: Cursor | None = None,
    direction: Literal["next", "previous"] = "next",
    limit: int = PAGE,
    **filters: Unpack[Filters],
) -> Page:
    """Return the page of jobs in `state` after `cursor`, or with `direction` before it.

    Ended jobs come newest first; jobs in review, running and waiting ones oldest first, so
    that who waited longest is on top; ready and blocked ones as they were enqueued, and any
    whose id is searched for. `limit` is clamped to 1–200. At most 5,000 rows are looked at:
    where fewer than a page of them fit, the page says where looking stopped.
    """
    limit = min(max(limit, 1), MOST)
    backward = direction == "previous" and cursor is not None
    falling = (state in NEWEST_FIRST) != backward
    listing = Listing(state, filters)
    window = listing.window(falling=falling, beyond=cursor is not None)
    order = ORDERS[listing.by_id, falling]
    parameters = listing.parameters()
    parameters |= {"limit": limit + 1, "window": WINDOW if listing.narrows else limit + 1}
    if cursor:
        parameters |= {"at": cursor.at, "id": cursor.id}
    looked = window + listing.shown() + listing.people()
    statement = HEAD + looked + WHERE + listing.fitting() + order + LIMIT
    found = rows(conn, statement, parameters, JobRow)
    cut = None
    if listing.narrows and len(found) <= limit:
        cut = _edge(conn, window + order, parameters)
    ordered = found[limit - 1 :: -1] if backward else found[:limit]
    if not ordered:
        return _nothing(cursor, cut, backward=backward, falling=falling)
    return _page(ordered, cut, more=len(found) > limit, backward=backward, began=cursor is None)


EDGE: Final[LiteralString] = "SELECT looked.at, looked.id\n"
PAST: Final[LiteralString] = "OFFSET %(window)s - 1\nLIMIT 1"


def _edge(
    conn: psycopg.Connection[object], window: LiteralString, parameters: dict[str, object]
) -> Cursor | None:
    """Return the last row that was looked at; None where there were no more to look at."""
    last = rows(conn, EDGE + window + PAST, parameters, Cursor)
    return last[0] if last else None


def _page(
    kept: list[JobRow], cut: Cursor | None, *, more: bool, backward: bool, began: bool
) -> Page:
    """Say where the list goes on from these rows, both ways."""
    first, last = Cursor(kept[0].at, kept[0].id), Cursor(kept[-1].at, kept[-1].id)
    if backward:
        return Page(kept, first if more else cut, last, cut)
    return Page(kept, None if began else first, last if more else cut, cut)


def _nothing(cursor: Cursor | None, cut: Cursor | None, *, backward: bool, falling: bool) -> Page:
    """Return a page without a row: it leads back where one came from, and on from a cut."""
    back = cursor.stepped(falling=falling) if cursor else None
    return Page([], cut, back, cut) if backward else Page([], back, cut, cut)
