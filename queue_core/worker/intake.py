"""The intake: asks for runs when children are free, and hands on what ended."""

import math
import random
import time
from collections import Counter
from collections.abc import Mapping
from typing import Final

from queue_core.outcomes import Unreadable
from queue_core.sharing import SHARES
from queue_core.transitions.claim import Claimed
from queue_core.worker.books import Finished, Key, Returned, not_begun
from queue_core.worker.clerk import Clerk
from queue_core.worker.crew import Crew
from queue_core.worker.frames import FrameError
from queue_core.worker.options import WorkerOptions
from queue_core.worker.outbox import BATCH
from queue_core.worker.requests import Claims, Request
from queue_core.worker.sleep import NAP_SECONDS

POLL_SECONDS: Final = 0.5
ASLEEP_SECONDS: Final = 1.5
"""Between polls while we are told of jobs: those that nobody tells of are a person's, or late."""
AGAIN_SECONDS: Final = 0.5
"""After a request that was not answered."""
LOOKS: Final = (0.0, 0.003, 0.01, 0.03, 0.1)
"""The pauses of one who falls asleep, in seconds: what is committed meanwhile may not know it."""
GATHER_SECONDS: Final = 0.1
"""How long a run that ended waits at most for others to be stored with."""
MOST_CLAIMED: Final = 1_000
"""In one commit, unless there are more slots."""
GONE_BODY: Final = Unreadable("its arguments are gone")
HUGE_BODY: Final = Unreadable("its arguments are too large to be handed over")


class Intake:
    """Between the crew and the clerk. For the main thread alone."""

    def __init__(
        self, options: WorkerOptions, crew: Crew, clerk: Clerk, *, once: bool = False
    ) -> None:
        """With `once` it closes with the first answer, and asks for nothing ahead."""
        self._sleeps = options.notify and not once
        self._looks = 0
        self._again = False
        self._options = options
        self._once = once
        self._crew = crew
        self._clerk = clerk
        self._claim_at = 0.0
        self._portion_at = math.inf if once else 0.0
        self._is_for_slots = True
        self._nap_until = 0.0
        self._hand_on_at = math.inf
        self.is_open = False
        """Whether runs may be ours by now of which we have not heard."""
        self.is_closed = False
        """Whether no more runs are to begin."""
        self.taken: int | None = None
        """How many runs the last answer brought that did not go back; None where it broke off."""

    def ask_if_due(self) -> None:
        """Ask for as many runs as could begin at once: claimed means started."""
        if self.is_open or self.is_closed or time.monotonic() < self._next_claim():
            return
        runs = self._crew.in_hand().values()
        used = Counter(run.claimed.queue for run in runs)
        in_hand = Counter(run.claimed.name for run in runs)
        requests = self._for_slots(used, in_hand)
        self._is_for_slots = bool(requests)
        if portion := self._portion():
            safe = self._crew.offers.safe()
            requests.append(Request(portion, safe, self._options.queues, used, in_hand))
        if requests:
            self.is_open = True
            self._clerk.ask(requests, self._take_ended())

    def _for_slots(self, used: Mapping[str, int], in_hand: Mapping[str, int]) -> list[Request]:
        requests: list[Request] = []
        if time.monotonic() < self._claim_at:
            return requests
        sleeps = self._sleeps and self._looks > 0
        for shares in SHARES:
            free, offers = self._crew.free(shares), self._crew.offers.of(shares)
            if free and offers:
                lead = 1 if self._once else min(self._crew.lead(), max(1, MOST_CLAIMED // free))
                queues = self._options.queues
                requests.append(Request(free, offers, queues, used, in_hand, lead, sleeps))
        return requests

    def begin(self, claims: Claims) -> None:
        """Start what was claimed, and look for more at once if there was anything."""
        self.is_open = False
        if not claims.taken:
            self._portion_at = time.monotonic() + POLL_SECONDS
        if self._is_for_slots or claims.taken:
            self._claim_at = time.monotonic() + self._pause(claims)
        not_given = [each for claimed in claims.taken if (each := self._give(claimed))]
        self._crew.send()
        if not_given:
            self._clerk.store(not_given)
        returned = sum(isinstance(each.ending, Returned) for each in not_given)
        taken = len(claims.taken) - returned
        self.taken = None if not taken and (claims.broke_off or returned) else taken
        self.is_closed |= self._once and self.taken is not None

    def look_again(self) -> None:
        """Ask at once, or as soon as the request that is under way has been answered."""
        self._claim_at = self._nap_until
        self._again = self.is_open
        self._looks = min(self._looks, 1)

    def hand_on_if_due(self) -> None:
        """Pass what ended to the clerk, unless it soon goes there with a request."""
        ended = self._crew.tray.ended
        if not ended:
            self._hand_on_at = math.inf
            return
        self._hand_on_at = min(self._hand_on_at, time.monotonic() + GATHER_SECONDS)
        is_due = time.monotonic() >= self._hand_on_at or self.is_closed
        if is_due or len(ended) >= BATCH or not self._gathers():
            self.hand_on()

    def hand_on(self) -> None:
        """Pass what ended to the clerk now."""
        if self._crew.tray.ended:
            self._clerk.store(self._take_ended())

    def unstored(self) -> set[Key]:
        """Return the runs that have ended and that the database has yet to take."""
        return self._clerk.keys() | {each.key for each in self._crew.tray.ended}

    def next_act(self) -> float:
        """Return when there is something to do, on the monotonic clock."""
        return min(math.inf if self.is_open else self._next_claim(), self._hand_on_at)

    def _next_claim(self) -> float:
        slots_at = self._claim_at if self._has_room() else math.inf
        return min(slots_at, self._portion_at if self._crew.portion() else math.inf)

    def _portion(self) -> int:
        return self._crew.portion() if time.monotonic() >= self._portion_at else 0

    def _has_room(self) -> bool:
        """Say whether a run of any sort could begin now."""
        return any(self._crew.free(shares) and self._crew.offers.of(shares) for shares in SHARES)

    def _pause(self, claims: Claims) -> float:
        """Return for how many seconds nothing is asked after this answer."""
        again, self._again = self._again, False
        if claims.naps:
            self._looks = 1
            self._nap_until = time.monotonic() + NAP_SECONDS
            return NAP_SECONDS
        if claims.taken:
            self._looks = 0
            return 0.0
        if again:
            return 0.0
        if self._sleeps and not claims.broke_off and self._looks < len(LOOKS):
            self._looks += 1
            return LOOKS[self._looks - 1]
        return pause_after(claims)

    def _gathers(self) -> bool:
        """Say whether a request is on its way back, or more ends in a moment that may wait."""
        return self.is_open or (self._crew.tray.can_wait and self._crew.is_ahead())

    def _take_ended(self) -> list[Finished]:
        self._hand_on_at = math.inf
        return self._crew.tray.take()

    def _give(self, claimed: Claimed) -> Finished | None:
        """Hand a run to a child, or return how it ended without one."""
        if self.is_closed:
            return not_begun(claimed, Returned())
        if claimed.args is None:
            return not_begun(claimed, GONE_BODY)
        try:
            given = self._crew.give(claimed, goes_on=not self._is_for_slots)
        except FrameError:
            return not_begun(claimed, HUGE_BODY)
        return None if given else not_begun(claimed, Returned())


def pause_after(claims: Claims) -> float:
    """Return for how many seconds nothing is asked after an answer that brought nothing."""
    spread = random.uniform(0.75, 1.25)  # noqa: S311 - parts a crowd, guards nothing
    if claims.broke_off:
        return spread * AGAIN_SECONDS
    return spread * (ASLEEP_SECONDS if claims.is_heard else POLL_SECONDS)
