"""How long a job waits after a failed attempt."""

import random
from typing import Final

FIRST_WAIT_SECONDS: Final = 30.0
LONGEST_WAIT_SECONDS: Final = 3_600.0
_MOST_DOUBLINGS: Final = 16


def backoff(attempt: int) -> float:
    """Return the wait in seconds after `attempt` failed: 30, 60, 120 … up to 3,600.

    Exact and safe at any attempt number, zero and negative ones included.
    """
    doublings = min(max(attempt - 1, 0), _MOST_DOUBLINGS)
    return min(FIRST_WAIT_SECONDS * 2**doublings, LONGEST_WAIT_SECONDS)


def jittered(seconds: float) -> float:
    """Spread a wait over 0.9 to 1.1 of itself, never above 3,600 s, so that crowds part."""
    spread = random.uniform(0.9, 1.1)  # noqa: S311 - spreads load, guards nothing
    return min(seconds * spread, LONGEST_WAIT_SECONDS)
