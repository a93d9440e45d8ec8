"""How far ahead a child is given runs that are safe to repeat."""

import math
import time
from collections.abc import Sequence
from typing import Final

from queue_core.worker.children import Child
from queue_core.worker.offers import Offers

LEAD_SECONDS: Final = 0.1
"""How much work a child is given at once: as long may better work wait for a slot."""
LONGEST_SECONDS: Final = 1.0
"""When a child gives back what it could not begin, since its runs take longer than before."""
FIRST: Final = 4
MOST: Final = 5_000
PORTION: Final = 1_000
"""How many runs wait in a child at once: a longer lead is brought while it is worked on."""


class Lead:
    """How many runs a child is given before it is idle again, from how long the last ones took."""

    def __init__(self) -> None:
        self.size = FIRST

    def took(self, runs: int, seconds: float) -> None:
        """Note how long a child took for the runs it was given until it was idle."""
        fitting = int(runs * LEAD_SECONDS / max(seconds, 1e-6))
        if fitting < self.size:
            self.size = max(fitting, 1)
        elif runs >= self.size:
            self.size = min(self.size * 2, fitting, MOST)

    def behind(self, children: Sequence[Child], name: str, offers: Offers) -> Child | None:
        """Return the child that may have a run behind others that are safe to repeat too."""
        if not offers.is_safe(name):
            return None
        able = [child for child in children if self._room(child) and self._works(child, offers)]
        return min(able, key=lambda child: len(child.ahead), default=None)

    def portion(self, children: Sequence[Child], offers: Offers) -> int:
        """Return how many runs are to be brought to children that have begun their last portion.

        Who waits for a slot waits for the lead that a child has; no child's is made longer.
        """
        rooms = (
            self._room(child)
            for child in children
            if len(child.ahead) <= PORTION // 2 and self._works(child, offers)
        )
        return sum(room for room in rooms if room >= PORTION // 4)

    def is_of_late(self, child: Child) -> bool:
        """Say whether the last lead of a child has begun so lately that it may go on."""
        return time.monotonic() < child.lead_began + LONGEST_SECONDS

    def _room(self, child: Child) -> int:
        """Return how many more runs may wait in a child."""
        waiting = len(child.ahead)
        return max(0, min(PORTION - waiting, self.size - child.lead - waiting - 1))

    def _works(self, child: Child, offers: Offers) -> bool:
        """Say whether a child works on a lead that may go on, of runs that are safe to repeat."""
        if not child.takes_more or child.run is None or not self.is_of_late(child):
            return False
        return offers.is_safe(child.run.claimed.name)

    def gives_back_at(self, child: Child) -> float:
        """Return when a child is to give back what it has not begun (monotonic)."""
        if child.recalled or not child.ahead:
            return math.inf
        return child.lead_began + LONGEST_SECONDS
