"""What a list is filtered by: read from the URL, written back into every link of the page."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final, NamedTuple
from uuid import UUID

from werkzeug.datastructures import MultiDict

from queue_core.errors import OptionError
from queue_core.jobs import MAX_NAME_CHARACTERS
from queue_core.queries.fitting import FIELDS, Field, Filters
from queue_core.states import STATES, State

FIRST_STATE: Final[State] = "failed"
"""The list that people come for when they name none."""
SIZES: Final = (50, 200, 1_000)
"""Rows of a page; the last is as many as one act takes at once."""
MOST_LEFT_OUT: Final = 20
"""Values of one field that a list may leave out."""
MOST_CHARACTERS: Final[Mapping[Field, int]] = MappingProxyType(
    {"error_type": 1_000, "error_place": 1_000}
)
"""Where it is more than those of a name."""
OF_ERRORS: Final[frozenset[Field]] = frozenset({"error_type", "error_place"})

_KNOWN: Final[Mapping[str, State]] = {state: state for state in STATES}

Query = dict[str, Any]
"""What `url_for` takes: a text, or a list of them, for each name."""


class FilterError(OptionError):
    """A filter of the URL cannot be one; `fields` says what is wrong with each."""

    def __init__(self, fields: Mapping[str, str]) -> None:
        self.fields = dict(fields)
        super().__init__("; ".join(self.fields.values()))


class Chip(NamedTuple):
    """One filter that is in force, and the address of the list without it, or turned round."""

    what: str
    leaves_out: bool
    value: str
    removed: Query
    turned: Query | None


@dataclass(frozen=True, slots=True)
class JobFilter:
    """One state, and of it the jobs that fit.

    `only` has one value for a field, `without` those that a job may not have. Times are as
    they stand in the URL, in UTC.
    """

    state: State
    search: str | None = None
    only: Mapping[Field, str] = field(default_factory=dict[Field, str])
    without: Mapping[Field, tuple[str, ...]] = field(default_factory=dict[Field, tuple[str, ...]])
    since: str | None = None
    until: str | None = None
    rows: int = SIZES[0]

    @property
    def narrows(self) -> bool:
        """Whether there may be jobs in this state that the list does not show."""
        return bool(self.search or self.only or self.without or self.since or self.until)

    @property
    def of_errors(self) -> bool:
        """Whether it asks about errors, which not everybody may see."""
        return bool(OF_ERRORS & {*self.only, *self.without})

    def of(self, state: State) -> "JobFilter":
        """Return the same filters over another state."""
        return replace(self, state=state)

    def whole(self) -> "JobFilter":
        """Return the list of this state without any filter."""
        return JobFilter(self.state, rows=self.rows)

    def sized(self, rows: int) -> "JobFilter":
        """Return the same list in pages of another size."""
        return replace(self, rows=rows)

    def with_only(self, what: Field, value: str) -> "JobFilter":
        """Return the same list with one more filter, or another value for it."""
        return replace(self, only={**self.only, what: value})

    def leaving_out(self, what: Field, value: str) -> "JobFilter":
        """Return the same list without the jobs that have this value."""
        values = (*self.without.get(what, ()), value)
        return replace(self, without={**self.without, what: values})

    def query(self, **more: str) -> Query:
        """Return what stands in the URL, with `more` beside it."""
        given: Query = {"state": self.state}
        singles = {"q": self.search, **self.only, "from": self.since, "to": self.until}
        given |= {key: value for key, value in singles.items() if value}
        given |= {f"not_{what}": [*values] for what, values in self.without.items() if values}
        if self.rows != SIZES[0]:
            given["rows"] = str(self.rows)
        return given | more

    def chips(self) -> Iterator[Chip]:
        """Yield what is in force, one by one."""
        if self.search:
            yield Chip("search", False, self.search, replace(self, search=None).query(), None)
        for what in FIELDS:
            if value := self.only.get(what):
                less = replace(self, only={**self.only, what: ""})
                yield Chip(what, False, value, less.query(), less.leaving_out(what, value).query())
            for value in self.without.get(what, ()):
                less = self._no_longer_leaving_out(what, value)
                yield Chip(what, True, value, less.query(), less.with_only(what, value).query())
        if self.since:
            yield Chip("from", False, self.since, replace(self, since=None).query(), None)
        if self.until:
            yield Chip("to", False, self.until, replace(self, until=None).query(), None)

    def fitting(self) -> Filters:
        """Return the filters as lists are asked for them; call it without faults."""
        given: Filters = {"search": self.search, "without": self.without}
        given |= {"since": moment(self.since), "until": moment(self.until)}
        for what, value in self.only.items():
            given[what] = value
        return given

    def faults(self) -> dict[str, str]:
        """Say of each filter what is wrong with it; nothing where all can be looked for."""
        found: dict[str, str | None] = {"q": _too_long("search", self.search, MAX_NAME_CHARACTERS)}
        for what in FIELDS:
            values = [self.only.get(what), *self.without.get(what, ())]
            most = MOST_CHARACTERS.get(what, MAX_NAME_CHARACTERS)
            faults = [_too_long(what, each, most) for each in values]
            found[what] = next(filter(None, faults), None) or _too_many(what, values)
        found |= {"from": _no_time(self.since), "to": _no_time(self.until)}
        return {what: fault for what, fault in found.items() if fault}

    def asked_id(self) -> UUID | None:
        """Return the job that is searched for by its whole id, if so."""
        text = (self.search or "").replace("-", "").strip()
        try:
            return UUID(hex=text) if len(text) == 32 and text.isascii() else None  # noqa: PLR2004
        except ValueError:
            return None

    def _no_longer_leaving_out(self, what: Field, value: str) -> "JobFilter":
        values = tuple(each for each in self.without[what] if each != value)
        return replace(self, without={**self.without, what: values})


def job_filter(arguments: MultiDict[str, str]) -> JobFilter:
    """Read the filters of a job list, as they are, good or not; blank ones do not count.

    Raises FilterError where the state is none that there is.
    """
    state = arguments.get("state") or FIRST_STATE
    found = _KNOWN.get(state)
    if found is None:
        raise FilterError({"state": f"There is no such state; the states are {', '.join(STATES)}."})
    left_out: dict[Field, tuple[str, ...]] = {
        what: tuple(filter(None, arguments.getlist(f"not_{what}"))) for what in FIELDS
    }
    return JobFilter(
        found,
        (arguments.get("q") or "").strip() or None,
        {what: value for what in FIELDS if (value := arguments.get(what))},
        {what: values for what, values in left_out.items() if values},
        _as_minutes(arguments.get("from")),
        _as_minutes(arguments.get("to")),
        next((size for size in SIZES if str(size) == arguments.get("rows")), SIZES[0]),
    )


def moment(text: str | None) -> datetime | None:
    """Read a time of the URL, in UTC unless it says otherwise. Raises ValueError."""
    if not text:
        return None
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _as_minutes(text: str | None) -> str | None:
    """Return a time as the field of a form has it, and what is none as it came."""
    try:
        found = moment(text)
        return found.astimezone(UTC).strftime("%Y-%m-%dT%H:%M") if found else None
    except (ValueError, OverflowError):
        return text


def _too_long(what: str, text: str | None, most: int) -> str | None:
    if text is None or (len(text) <= most and "\0" not in text):
        return None
    name = what.replace("_", " ")
    article = "An" if name[0] in "aeiou" else "A"
    return f"{article} {name} has at most {most:,} characters, none of them NUL."


def _too_many(what: str, values: list[str | None]) -> str | None:
    if len(values) <= MOST_LEFT_OUT + 1:
        return None
    return f"At most {MOST_LEFT_OUT} values of {what.replace('_', ' ')} can be left out."


def _no_time(text: str | None) -> str | None:
    try:
        _ = (moment(text) or datetime.now(UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return "A time is written 2026-11-29 or 2026-11-29T02:31, in UTC."
    return None
