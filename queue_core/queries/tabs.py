"""How many jobs of each state fit the filters of a list, as far as is looked."""

from dataclasses import dataclass
from typing import Final, LiteralString, Unpack

import psycopg

from queue_core.database import rows
from queue_core.queries.counts import CAP
from queue_core.queries.fitting import Filters
from queue_core.queries.listing import Listing
from queue_core.queries.placed import NEWEST_FIRST
from queue_core.states import STATES, State

WINDOW: Final = 500
"""So many rows of a state are looked at, where each takes a look at other tables too."""


@dataclass(frozen=True, slots=True)
class Tab:
    """How many jobs fit; there may be `more` where looking stopped before it saw them all."""

    jobs: int
    more: bool


TAB: Final[LiteralString] = "SELECT count(*) FILTER (WHERE "
SEEN: Final[LiteralString] = ") AS jobs, count(*) >= %(window)s AS more\n"


def tabs(conn: psycopg.Connection[object], **filters: Unpack[Filters]) -> dict[State, Tab]:
    """Count the jobs of each state under these filters, among the first that its list holds.

    Those are 10,000, or 500 where telling whether one fits takes a look at other tables.
    """
    return {state: _tab(conn, Listing(state, filters)) for state in STATES}


def _tab(conn: psycopg.Connection[object], listing: Listing) -> Tab:
    window = listing.window(falling=listing.state in NEWEST_FIRST, beyond=False)
    looked = window + listing.told() + listing.people()
    statement = TAB + listing.fitting() + SEEN + looked
    parameters = listing.parameters() | {"window": WINDOW if listing.looks_beside else CAP}
    return rows(conn, statement, parameters, Tab)[0]
