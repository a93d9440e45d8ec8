"""What the children offer to do: the names that any of them may be given."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from queue_core.sharing import Shares
from queue_core.transitions.claim import Claimable


class Offers:
    """The names that every child handles, as the newest child's code has them.

    With `alone` there is one child, which runs one job at a time whatever its runs could share.
    """

    def __init__(self, *, alone: bool = False) -> None:
        self._alone = alone
        self.names: list[Claimable] = []
        self._by_shares: dict[Shares | None, list[Claimable]] = {}
        self._shares: dict[str, Shares | None] = {}
        self._safe: frozenset[str] = frozenset()

    def compare(self, said: Sequence[tuple[Claimable, ...]]) -> None:
        """Take what the children have said, the newest last.

        A name is safe to repeat if it is so in every child's code. Runs that share a process
        begin as soon as it has them, so that none of them is claimed ahead.
        """
        known = Counter((offer.name, offer.shares) for offers in said for offer in offers)
        safe = Counter(offer.name for offers in said for offer in offers if _waits(offer))
        self._safe = frozenset(name for name, times in safe.items() if times == len(said))
        self.names = [
            replace(
                offer,
                safe_to_repeat=offer.name in self._safe,
                shares=None if self._alone else offer.shares,
            )
            for offer in (said[-1] if said else ())
            if known[offer.name, offer.shares] == len(said)
        ]
        self._shares = {offer.name: offer.shares for offer in self.names}
        self._by_shares = {}
        for offer in self.names:
            self._by_shares.setdefault(offer.shares, []).append(offer)

    def of(self, shares: Shares | None) -> list[Claimable]:
        """Return the names whose runs share so."""
        return self._by_shares.get(shares, [])

    def safe(self) -> list[Claimable]:
        """Return the names whose runs may wait for a slot."""
        return [offer for offer in self.names if offer.safe_to_repeat]

    def has(self, name: str) -> bool:
        """Say whether a name is still offered, for what was claimed a while ago."""
        return name in self._shares

    def shares(self, name: str) -> Shares | None:
        """Return what runs of a name share."""
        return self._shares.get(name)

    def is_safe(self, name: str) -> bool:
        """Say whether runs of a name may wait for a slot."""
        return name in self._safe


def _waits(offer: Claimable) -> bool:
    return offer.safe_to_repeat and offer.shares is None
