"""ready -> running: a worker takes jobs, highest priority first, then oldest."""

from queue_core.transitions.claim.turns import claim
from queue_core.transitions.claim.values import Claimable, Claimed

__all__ = ["Claimable", "Claimed", "claim"]
