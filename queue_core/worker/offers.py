"""What the children offer to do: the names that any of them may be given."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from queue_core.transitions.claim import Claimable


class Offers:
    """The names that every child handles, as the newest child's code has them."""

    def __init__(self) -> None:
        self.names: list[Claimable] = []
        self._safe: frozenset[str] = frozenset()

    def compare(self, said: Sequence[tuple[Claimable, ...]]) -> None:
        """Take what the children have said, the newest last.

        A name is safe to repeat if it is so in every child's code.
        """
        known = Counter(offer.name for offers in said for offer in offers)
        safe = Counter(offer.name for offers in said for offer in offers if offer.safe_to_repeat)
        self._safe = frozenset(name for name, times in safe.items() if times == len(said))
        self.names = [
            replace(offer, safe_to_repeat=offer.name in self._safe)
            for offer in (said[-1] if said else ())
            if known[offer.name] == len(said)
        ]

    def is_safe(self, name: str) -> bool:
        """Say whether runs of a name may wait for a slot."""
        return name in self._safe
