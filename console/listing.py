"""A page of a list of jobs: its rows, the numbers on its tabs, and what may be done with them."""

from dataclasses import dataclass, field
from datetime import datetime
from functools import cache, reduce

from console.database import Connection, part
from console.filters import JobFilter
from console.formats import count
from console.pagination import Place, beside
from queue_core.errors import TookTooLongError
from queue_core.queries import counts, jobs, listing, tabs
from queue_core.queries.jobs import MOST, Cursor, JobRow, Page
from queue_core.states import NEED_BODY, State, legal_verbs


@dataclass(frozen=True, slots=True)
class Listing:
    """A page of a list; `too_slow` where reading it took more than its 3 seconds.

    `cut` is the last row that was looked at, where looking stopped before the end of the list;
    `choosing` is how many rows can be chosen for an act.
    """

    rows: list[JobRow] = field(default_factory=list[JobRow])
    beside: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    cut: Cursor | None = None
    too_slow: bool = False
    by_id: bool = False
    choosing: int = 0

    @property
    def cut_at(self) -> datetime | None:
        """The time of the last row that was looked at, where the list is in the order of times."""
        return self.cut.at if self.cut and not self.by_id else None

    def leads_on(self, place: dict[str, str]) -> bool:
        """Say whether a link to another page goes on from where looking stopped."""
        return self.cut is not None and self.cut.encode() in place.values()


def choosable(row: JobRow) -> bool:
    """Say whether there is an act that the job as it stands allows; none twice."""
    return row.stop_requested_at is None and _allowed(row.state, has_body=row.has_body)


@cache
def _allowed(state: State, *, has_body: bool) -> bool:
    return any(has_body or verb not in NEED_BODY for verb in legal_verbs(state))


def listed(conn: Connection, wanted: JobFilter, at: Place) -> Listing:
    """Read a page; where that takes too long the page is without rows, and its filters stay."""
    try:
        with part(conn):
            page = _page(conn, wanted, at)
    except TookTooLongError:
        return Listing(too_slow=True)
    by_id = listing.Listing(wanted.state, wanted.fitting()).by_id
    choosing = sum(map(choosable, page.rows))
    return Listing(page.rows, beside(page), page.cut, by_id=by_id, choosing=choosing)


def counted(conn: Connection, wanted: JobFilter) -> dict[State, str]:
    """Count for the tabs; where that takes too long they have no numbers, and the list stays."""
    try:
        with part(conn):
            if not wanted.narrows:
                numbers = counts.capped_counts(conn)
                return {state: count(number, counts.CAP) for state, number in numbers.items()}
            found = tabs.tabs(conn, **wanted.fitting())
    except TookTooLongError:
        return {}
    return {state: f"{tab.jobs:,}{'+' if tab.more else ''}" for state, tab in found.items()}


def _page(conn: Connection, wanted: JobFilter, at: Place) -> Page:
    """Read a page of any size: a large one is several small ones of one moment."""
    pages = [_part(conn, wanted, at, wanted.rows)]
    while (left := wanted.rows - sum(len(each.rows) for each in pages)) > 0:
        further = pages[-1].next if at.direction == "next" else pages[-1].previous
        if further is None or pages[-1].cut:
            break
        pages.append(_part(conn, wanted, Place(further, at.direction), left))
    return reduce(_joined, pages if at.direction == "next" else reversed(pages))


def _part(conn: Connection, wanted: JobFilter, at: Place, rows: int) -> Page:
    return jobs.list_jobs(
        conn,
        wanted.state,
        cursor=at.cursor,
        direction=at.direction,
        limit=min(rows, MOST),
        **wanted.fitting(),
    )


def _joined(first: Page, second: Page) -> Page:
    cut = first.cut or second.cut
    return Page([*first.rows, *second.rows], first.previous, second.next, cut)
