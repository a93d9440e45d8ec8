"""Backoff: exact, bounded, and spread."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queue_core.backoff import LONGEST_WAIT_SECONDS, backoff, jittered


@pytest.mark.parametrize(
    ("attempt", "seconds"),
    [(1, 30), (2, 60), (3, 120), (4, 240), (5, 480), (6, 960), (7, 1_920), (8, 3_600), (9, 3_600)],
)
def test_the_wait_doubles_from_30_seconds_to_an_hour(attempt: int, seconds: float) -> None:
    assert backoff(attempt) == seconds


@pytest.mark.parametrize(
    ("attempt", "seconds"),
    [
        (0, 30),
        (-5, 30),
        (-(10**9), 30),
        (1_000, 3_600),
        (10**9, 3_600),
        (2**63, 3_600),
        (10**400, 3_600),
    ],
)
def test_the_wait_is_safe_at_any_attempt(attempt: int, seconds: float) -> None:
    assert backoff(attempt) == seconds


@given(st.integers())
def test_a_later_attempt_never_waits_less(attempt: int) -> None:
    assert 30 <= backoff(attempt) <= backoff(attempt + 1) <= LONGEST_WAIT_SECONDS


@given(st.integers())
def test_a_wait_is_spread_by_a_tenth_and_never_above_the_cap(attempt: int) -> None:
    exact = backoff(attempt)
    assert 0.9 * exact <= jittered(exact) <= min(1.1 * exact, LONGEST_WAIT_SECONDS)


def test_waits_are_spread_both_ways() -> None:
    waits = [jittered(30.0) for _ in range(1_000)]
    assert min(waits) < 28.5
    assert max(waits) > 31.5
    capped = [jittered(LONGEST_WAIT_SECONDS) for _ in range(1_000)]
    assert max(capped) == LONGEST_WAIT_SECONDS
    assert min(capped) < 0.95 * LONGEST_WAIT_SECONDS
