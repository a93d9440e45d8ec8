"""Pages of lists that run by name."""

from collections.abc import Sequence
from typing import Final, Protocol, TypeVar

PAGE: Final = 50


class Named(Protocol):
    """A row of such a list."""

    @property
    def name(self) -> str:
        """What the list runs by; each stands in it once."""
        ...


Row = TypeVar("Row", bound=Named)


def by_name(
    found: Sequence[Row], size: int, *, after: str, before: str | None
) -> tuple[list[Row], str | None, str | None]:
    """Return the rows of a page, and the names that the pages before and after it begin at.

    `found` are up to `size + 1` rows past `after`, or with `before` up to it, nearest first.
    """
    kept, more = list(found[:size]), len(found) > size
    if before is not None:
        kept.reverse()
    first, last = (kept[0].name, kept[-1].name) if kept else (None, None)
    if before is None:
        return kept, first if after else None, last if more else None
    return kept, first if more else None, last
