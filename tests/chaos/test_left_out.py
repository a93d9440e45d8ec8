"""Chaos is not run by whoever only wants to run the tests."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.chaos.conftest import pytest_collection_modifyitems


class Item:
    def __init__(self, *markers: str) -> None:
        self.markers = markers

    def get_closest_marker(self, name: str) -> bool:
        return name in self.markers


@pytest.mark.parametrize(
    ("asked", "left"), [("", 1), ("not browser", 1), ("chaos", 3), ("chaos and not slow", 3)]
)
def test_chaos_is_left_out_unless_it_is_asked_for(asked, left):
    deselected: list[Item] = []

    def leave(*, items: list[Item]) -> None:
        deselected.extend(items)

    hook = SimpleNamespace(pytest_deselected=leave)
    config: Any = SimpleNamespace(getoption={"markexpr": asked}.get, hook=hook)
    items: Any = [Item(), Item("chaos"), Item("chaos", "slow")]
    pytest_collection_modifyitems(config, items)
    assert len(items) == left
    assert len(deselected) == 3 - left
