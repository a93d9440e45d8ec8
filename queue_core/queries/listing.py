"""One list of jobs, as the pieces of SQL that its statements are put together from."""

from typing import LiteralString

from queue_core.queries import fitting, placed
from queue_core.queries.fitting import FIELDS, Field, Filters
from queue_core.states import ENDED, State


class Listing:
    """The list of `state` under `filters`: which pieces its statements are made of.

    `by_id` says that it is in the order of ids; `narrows` that it may leave out rows that it
    looks at, so that how many it looks at needs a bound.
    """

    def __init__(self, state: State, filters: Filters) -> None:
        self.state: State = state
        self.filters = filters
        self.ids = fitting.id_range(filters.get("search"))
        self.by_id = state in placed.AS_ENQUEUED or self.ids is not None
        self._without = {field: list(filters.get("without", {}).get(field, ())) for field in FIELDS}
        self._used: set[Field] = {field for field in FIELDS if filters.get(field) is not None}
        self._used |= {field for field in FIELDS if self._without[field]}
        self._times = [each for each in ("since", "until") if filters.get(each) is not None]
        in_index = state in placed.BY_QUEUE and not self.ids and not self._without["queue"]
        self._inside = {field for field in self._used if field == "queue" and in_index}

    @property
    def narrows(self) -> bool:
        """Whether a row that is looked at may not be one of the list."""
        looked_for = self.filters.get("search") is not None
        return looked_for or bool(self._used - self._inside) or bool(self.by_id and self._times)

    @property
    def looks_beside(self) -> bool:
        """Whether telling if a row is one of the list takes more than the row itself."""
        own = {"queue", "name"} if self.state not in placed.BODILESS else set[str]()
        if self.state in ENDED:
            own |= {"error_type", "error_place"}
        searches = self.filters.get("search") is not None and self.state in placed.BODILESS
        return bool(self._used - own) or (searches and self.ids is None)

    def window(self, *, falling: bool, beyond: bool) -> LiteralString:
        """Return `FROM` what is looked at: the rows of the place from a cursor on, in order."""
        statement = placed.LOOKED_AT + placed.PLACES[self.state] + placed.PLACED
        if self.ids:
            statement += placed.OF_IDS
        if self._inside:
            statement += placed.OF_QUEUE
        if not self.by_id:
            statement += placed.SINCE if "since" in self._times else ""
            statement += placed.UNTIL if "until" in self._times else ""
        if beyond and self.by_id:
            statement += placed.BEFORE_ID if falling else placed.BEYOND_ID
        elif beyond:
            statement += placed.BEFORE if falling else placed.BEYOND
        if self.by_id:
            return statement + (placed.FALLING_ID if falling else placed.RISING_ID) + placed.WINDOW
        return statement + (placed.FALLING if falling else placed.RISING) + placed.WINDOW

    def shown(self) -> LiteralString:
        """Return the look-ups beside each row for what a list shows of it."""
        named = self.state in placed.BODILESS or "schedule" in self._used
        body = fitting.BODY if named else fitting.NO_BODY
        return body + (fitting.NO_LAST if self.state in ENDED else fitting.LAST)

    def told(self) -> LiteralString:
        """Return those of them without which nobody can tell whether a row fits."""
        searches = self.filters.get("search") is not None and self.ids is None
        named = searches or bool({"queue", "name"} & self._used)
        body = (named and self.state in placed.BODILESS) or "schedule" in self._used
        last = bool({"error_type", "error_place"} & self._used) and self.state not in ENDED
        return (fitting.BODY if body else fitting.NO_BODY) + (
            fitting.LAST if last else fitting.NO_LAST
        )

    def people(self) -> LiteralString:
        """Return the look-ups for who ran a row's job, and who acted on it, where that is asked."""
        statement = fitting.HAD if "worker" in self._used else ""
        return statement + (fitting.ACTED if "operator" in self._used else "")

    def fitting(self) -> LiteralString:
        """Return what has to be true of a row that is looked at, after the look-ups beside it."""
        statement: LiteralString = "true\n"
        for field in FIELDS:
            if field in self._used - self._inside:
                statement += fitting.ONLY[field] if self.filters.get(field) is not None else ""
                statement += fitting.LEAVING_OUT[field] if self._without[field] else ""
        if self.filters.get("search") is not None:
            statement += fitting.SEARCHED if self.ids is None else fitting.ID_ENDS
        if self.by_id:
            statement += fitting.SINCE_LOOKED if "since" in self._times else ""
            statement += fitting.UNTIL_LOOKED if "until" in self._times else ""
        return statement

    def parameters(self) -> dict[str, object]:
        """Return what these pieces bind, but for the cursor and the numbers."""
        given: dict[str, object] = {"state": self.state, "most_due": placed.MOST_DUE}
        given |= {"since": self.filters.get("since"), "until": self.filters.get("until")}
        given |= {"search": (self.filters.get("search") or "").lower()}
        given |= {field: self.filters.get(field) for field in FIELDS}
        given |= {f"not_{field}": values for field, values in self._without.items()}
        if self.ids:
            lowest, highest, end = self.ids
            given |= {"lowest": lowest, "highest": highest, "end": end, "ending": len(end)}
        return given
