"""Hashes that cost nothing, for tests that sign people in; what one costs has tests of its own."""

from collections.abc import Iterator
from contextlib import contextmanager

import argon2
import pytest

from queue_core import passwords


@contextmanager
def quick() -> Iterator[None]:
    """Hash at once for the length of the block."""
    with pytest.MonkeyPatch.context() as patch:
        hasher = argon2.PasswordHasher(time_cost=1, memory_cost=64, parallelism=1)
        patch.setattr(passwords, "_HASHER", hasher)
        passwords._nobodys.cache_clear()
        yield
    passwords._nobodys.cache_clear()


@pytest.fixture(autouse=True)
def quick_hashes() -> Iterator[None]:
    """Hash at once in every test of a module that has this among its names."""
    with quick():
        yield
