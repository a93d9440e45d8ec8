"""Hashes that cost nothing, for tests that sign people in; what one costs has tests of its own."""

from collections.abc import Iterator

import argon2
import pytest

from queue_core import passwords


@pytest.fixture(autouse=True)
def quick_hashes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Hash at once in every test of a module that has this among its names."""
    quick = argon2.PasswordHasher(time_cost=1, memory_cost=64, parallelism=1)
    monkeypatch.setattr(passwords, "_HASHER", quick)
    passwords._nobodys.cache_clear()
    yield
    passwords._nobodys.cache_clear()
