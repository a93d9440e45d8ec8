"""Many jobs at once: what is told of them before an act, and what came of it."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, get_args
from uuid import UUID

from flask import current_app
from itsdangerous import BadData, URLSafeSerializer

from console import refusals
from console.database import Connection
from queue_core.acts import MOST_JOBS, ActOutcome, Why
from queue_core.queries import bulks, places
from queue_core.queries.acts import ActRow
from queue_core.queries.places import Place
from queue_core.states import STATES, State, kind_of

MOST_IN_ADDRESS: Final = 60
"""So many refusals are kept in a result's address; servers take about 4,000 characters."""
MOST_SHOWN: Final = 20
WHYS: Final[tuple[Why, ...]] = get_args(Why)
SAID: Final[Mapping[str, str]] = MappingProxyType(
    {
        "cancelled": "cancelled",
        "cancel_requested": "asked to stop",
        "retried": "queued for one more attempt",
        "released": "released to run again",
        "confirmed": "confirmed as completed",
        "closed": "closed, never to run",
    }
)


@dataclass(frozen=True, slots=True)
class Chosen:
    """The chosen jobs as they stand: how many of each name, the first of them, who has moved on."""

    jobs: int
    names: list[tuple[str, int]]
    first: list[tuple[UUID, str, Place | None]]
    moved: int


def chosen(conn: Connection, seen: Mapping[UUID, tuple[str, int]]) -> Chosen:
    """Read what is told of the jobs before an act."""
    ids = list(seen)
    names, places_now = bulks.names_of(conn, ids), places.locate(conn, ids)
    found = Counter(names.get(job_id, "unknown") for job_id in ids)
    shown = [(job_id, names.get(job_id, "unknown"), places_now.get(job_id)) for job_id in ids]
    moved = sum(_moved(saw, places_now.get(job_id)) for job_id, saw in seen.items())
    return Chosen(len(ids), found.most_common(MOST_SHOWN), shown[:MOST_SHOWN], moved)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A job that an act left alone: why, and where it stood then."""

    id: UUID
    why: Why
    state: State | None
    attempt: int | None

    @property
    def sentence(self) -> str:
        """Why nothing was done to it, for a person."""
        now = f"it was {refusals.place(self.state, self.attempt)}" if self.state else ""
        match self.why:
            case "not_found" if self.state:
                return f"What was asked for is gone, so it cannot run again: {now}."
            case "not_found":
                return "There is no such job, or it was deleted by retention."
            case "already_asked":
                return "It had been asked to stop already."
            case "moved_on":
                return f"It had moved on: {now}."
            case _:
                return f"It could not be done from where it stood: {now}."


def refused(outcomes: Iterable[ActOutcome]) -> list[Refusal]:
    """Return those that were left alone."""
    return [
        Refusal(each.job_id, each.why, each.state, each.attempt) for each in outcomes if each.why
    ]


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one act on many jobs; `now` says how many stand where by now.

    `more` says that it was done to more jobs than the first thousand, which are these.
    """

    done: list[ActRow]
    more: bool
    refused: list[Refusal]
    names: dict[UUID, str]
    places: dict[UUID, Place]

    @property
    def said(self) -> list[tuple[str, int]]:
        """What was done, and to how many."""
        return [(SAID.get(act, act), jobs) for act, jobs in Counter(_acts(self)).most_common()]

    @property
    def now(self) -> list[tuple[State, int]]:
        """How many of those that something was done to are in each state by now."""
        found = Counter(place.state for place in self.places.values())
        return [(state, found[state]) for state in STATES if found[state]]


def result(conn: Connection, bulk_id: UUID, left_alone: list[Refusal]) -> Result | None:
    """Read what came of it; None where no act is found and nothing was refused either."""
    found = bulks.acts_of_bulk(conn, bulk_id, limit=MOST_JOBS + 1)
    done = found[:MOST_JOBS]
    if not done and not left_alone:
        return None
    names = bulks.names_of(conn, [each.id for each in left_alone])
    now = places.locate(conn, [row.subject_id for row in done if row.subject_id])
    return Result(done, len(found) > len(done), left_alone, names, now)


def written(left_alone: Iterable[Refusal]) -> str:
    """Return refusals as an address holds them, signed; read them back with `read`."""
    return _serializer().dumps(
        [
            [each.id.hex, WHYS.index(each.why), _index(each.state), each.attempt]
            for each in left_alone
        ]
    )


def read(text: str | None) -> list[Refusal]:
    """Return what `written` made; nothing for what it did not make."""
    try:
        rows = _serializer().loads(text or "")
    except BadData:
        return []
    return [
        Refusal(UUID(hex=job), WHYS[why], None if state is None else STATES[state], attempt)
        for job, why, state, attempt in rows
    ]


def _serializer() -> URLSafeSerializer:
    return URLSafeSerializer(current_app.secret_key or "", salt="refused-jobs")


def _index(state: State | None) -> int | None:
    return STATES.index(state) if state else None


def _acts(found: Result) -> list[str]:
    return [row.act for row in found.done]


def _moved(saw: tuple[str, int], place: Place | None) -> bool:
    return place is None or (kind_of(saw[0]), saw[1]) != (kind_of(place.state), place.attempt)
