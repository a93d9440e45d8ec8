"""What the supervisor asks of its clerk: runs for slots that are free, and some to claim ahead."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import psycopg

from queue_core.transitions.claim import Claimable, Claimed

Connection = psycopg.Connection[dict[str, object]]


@dataclass(frozen=True, slots=True)
class Request:
    """Asks for up to `free` runs of these names, from queues as their caps allow.

    `queues` maps queues to caps (None: no cap), empty for all queues. `used` counts the runs
    in hand by queue, `in_hand` by name, those claimed ahead included. `lead` is how many runs
    of names that are safe to repeat may be claimed for each slot whose run is such a one.
    With `sleeps`, whoever enqueues from now on is to wake us, if this brings nothing.
    """

    free: int
    offers: Sequence[Claimable]
    queues: Mapping[str, int | None]
    used: Mapping[str, int]
    in_hand: Mapping[str, int] = field(default_factory=dict[str, int])
    lead: int = 1
    sleeps: bool = False

    def capacities(self) -> dict[str, int]:
        """Return how many more runs the names with a limit may have."""
        return {
            offer.name: offer.limit - self.in_hand.get(offer.name, 0)
            for offer in self.offers
            if offer.limit is not None
        }

    def rooms(self) -> dict[str, int]:
        """Return how many more runs may be taken from the queues with a cap."""
        return {
            queue: cap - self.used.get(queue, 0)
            for queue, cap in self.queues.items()
            if cap is not None
        }

    def after(self, taken: Sequence[Claimed]) -> "Request":
        """Return the same once `taken` came of requests before it."""
        if not taken:
            return self
        return replace(
            self,
            used=Counter(self.used) + Counter(each.queue for each in taken),
            in_hand=Counter(self.in_hand) + Counter(each.name for each in taken),
        )

    def ahead_of(self, taken: Sequence[Claimed]) -> "Request | None":
        """Return what to ask next, once `taken` came of this: runs that may wait for a slot.

        Nothing where a slot stayed free: then there is no more to be had.
        """
        safe = [offer for offer in self.offers if offer.safe_to_repeat]
        names = {offer.name for offer in safe}
        slots = sum(each.name in names for each in taken)
        more = slots * (self.lead - 1)
        if len(taken) < self.free or more < 1:
            return None
        return replace(self.after(taken), free=more, offers=safe, lead=1, sleeps=False)


@dataclass(slots=True)
class Claims:
    """What came of a request: the runs that are ours now, even where it broke off.

    `is_heard`: we listen, and whoever enqueues for now tells us. `naps`: for a moment nobody
    does, since we were told over and over of jobs that were for others.
    """

    taken: list[Claimed] = field(default_factory=list[Claimed])
    broke_off: bool = False
    is_heard: bool = False
    naps: bool = False


@dataclass(frozen=True, slots=True)
class Woken:
    """Says that somebody enqueued jobs while we slept."""
