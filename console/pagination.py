"""Pages of a list: the place that a URL names, and the links to the pages beside it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from queue_core.errors import OptionError
from queue_core.queries.jobs import Cursor, Page


class PlaceError(OptionError):
    """The URL names a place in the list that no page of it ever had."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a page begins: after or before a row, or (no cursor) at the top."""

    cursor: Cursor | None
    direction: Literal["next", "previous"]


def place(arguments: Mapping[str, str]) -> Place:
    """Read `after` or `before` from the URL. Raises PlaceError."""
    after, before = arguments.get("after"), arguments.get("before")
    if after and before:
        raise PlaceError("A page begins after a row or before one, not both.")
    try:
        if before:
            return Place(Cursor.decode(before), "previous")
        return Place(Cursor.decode(after) if after else None, "next")
    except ValueError:
        raise PlaceError("The address names no place in this list.") from None


def beside(page: Page) -> dict[str, dict[str, str]]:
    """Return what the URLs of the previous and the next page carry; absent where there is none."""
    links: dict[str, dict[str, str]] = {}
    if page.previous:
        links["previous"] = {"before": page.previous.encode()}
    if page.next:
        links["next"] = {"after": page.next.encode()}
    return links
