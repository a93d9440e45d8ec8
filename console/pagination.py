"""Pages of a list: the place that a URL names, and the links to the pages beside it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, Literal, Protocol, TypeVar

from queue_core.errors import OptionError
from queue_core.queries.jobs import Cursor


class Encoded(Protocol):
    """A cursor, of whatever list."""

    def encode(self) -> str:
        """Return the cursor as it stands in a URL."""
        ...


At = TypeVar("At", bound=Encoded)


class Ends(Protocol):
    """A page of a list: where it goes on before and after it."""

    @property
    def previous(self) -> Encoded | None:
        """The place before which the list goes on."""
        ...

    @property
    def next(self) -> Encoded | None:
        """The place after which it does."""
        ...


class PlaceError(OptionError):
    """The URL names a place in the list that no page of it ever had."""


@dataclass(frozen=True, slots=True)
class Place(Generic[At]):
    """Where a page begins: after or before a row, or (no cursor) at the top."""

    cursor: At | None
    direction: Literal["next", "previous"]

    def query(self) -> dict[str, str]:
        """Return what stands in the URL."""
        word = "after" if self.direction == "next" else "before"
        return {word: self.cursor.encode()} if self.cursor else {}


def place(arguments: Mapping[str, str]) -> Place[Cursor]:
    """Read `after` or `before` from the URL of a list of jobs. Raises PlaceError."""
    return place_in(arguments, Cursor.decode)


def place_in(arguments: Mapping[str, str], decode: Callable[[str], At]) -> Place[At]:
    """Read `after` or `before` as the places of a list are written. Raises PlaceError."""
    after, before = arguments.get("after"), arguments.get("before")
    if after and before:
        raise PlaceError("A page begins after a row or before one, not both.")
    try:
        if before:
            return Place(decode(before), "previous")
        return Place(decode(after) if after else None, "next")
    except ValueError:
        raise PlaceError("The address names no place in this list.") from None


def beside(page: Ends) -> dict[str, dict[str, str]]:
    """Return what the URLs of the previous and the next page carry; absent where there is none."""
    links: dict[str, dict[str, str]] = {}
    if page.previous:
        links["previous"] = {"before": page.previous.encode()}
    if page.next:
        links["next"] = {"after": page.next.encode()}
    return links


@dataclass(frozen=True, slots=True)
class NamePlace:
    """Where a page of a list by name begins: past a name, or before one."""

    after: str = ""
    before: str | None = None


def name_place(arguments: Mapping[str, str]) -> NamePlace:
    """Read `after` or `before`, which are names, from the URL. Raises PlaceError."""
    after, before = arguments.get("after", ""), arguments.get("before") or None
    if after and before:
        raise PlaceError("A page begins after a row or before one, not both.")
    if "\0" in after or "\0" in (before or ""):
        raise PlaceError("The address names no place in this list.")
    return NamePlace(after, before)
