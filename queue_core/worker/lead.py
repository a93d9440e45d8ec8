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
MOST: Final = 500


class Lead:
    """How many runs a child is given at once, from how long the last ones took."""

    def __init__(self) -> None:
        self.size = FIRST

    def took(self, runs: int, seconds: float) -> None:
        """Note how long a child took for the runs it was given at once."""
        fitting = int(runs * LEAD_SECONDS / max(seconds, 1e-6))
        if fitting < self.size:
            self.size = max(fitting, 1)
        elif runs >= self.size:
            self.size = min(self.size * 2, fitting, MOST)

    def behind(self, children: Sequence[Child], name: str, offers: Offers) -> Child | None:
        """Return the child that may have a run behind others that are safe to repeat too."""
        if not offers.is_safe(name):
            return None
        since = time.monotonic() - LONGEST_SECONDS
        best: Child | None = None
        for child in children:
            waiting = len(child.ahead)
            if child.lead + waiting + 1 >= self.size or (best and waiting >= len(best.ahead)):
                continue
            if child.takes_more and child.run and child.lead_began > since:
                best = child if offers.is_safe(child.run.claimed.name) else best
        return best

    def gives_back_at(self, child: Child) -> float:
        """Return when a child is to give back what it has not begun (monotonic)."""
        if child.recalled or not child.ahead:
            return math.inf
        return child.lead_began + LONGEST_SECONDS
