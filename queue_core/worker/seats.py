"""The seats: how many children a worker is to have for what runs share, and their slots."""

from collections import Counter
from collections.abc import Iterable

from queue_core.sharing import SHARES, Shares
from queue_core.transitions.claim import Claimable
from queue_core.worker.children import Child


class Seats:
    """One child for each slot of runs that have a process alone, one for each of the others."""

    def __init__(self, alone: int, loop: int, threads: int) -> None:
        """Say how many runs go on at once alone, in one event loop, and in threads."""
        self._slots: dict[Shares | None, int] = {None: alone, "loop": loop, "threads": threads}
        self._wanted: dict[Shares | None, int] = {None: alone}

    def fit(self, offers: Iterable[Claimable]) -> None:
        """Have seats for what these names' runs share, and no others."""
        shared = {offer.shares for offer in offers}
        self._wanted = {
            each: self._slots[each] if each is None else 1 for each in SHARES if each in shared
        }

    def slots(self, shares: Shares | None) -> int:
        """Return how many runs one child has at once."""
        return 1 if shares is None else self._slots[shares]

    def total(self) -> int:
        """Return how many runs all children have at once."""
        return sum(many * self.slots(shares) for shares, many in self._wanted.items())

    def is_wanted(self, child: Child) -> bool:
        """Say whether there is a seat for what a child's runs share."""
        return child.shares in self._wanted

    def missing(self, children: Iterable[Child]) -> list[Shares | None]:
        """Return a seat for each child that is missing."""
        there = Counter(child.shares for child in children)
        seats: list[Shares | None] = []
        for shares, many in self._wanted.items():
            seats.extend(shares for _ in range(many - there[shares]))
        return seats
