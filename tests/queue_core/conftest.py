"""Connections for those who race."""

from collections.abc import Iterator

import pytest

from tests.queue_core.racing import Arena


@pytest.fixture(scope="module")
def connections(shared_database) -> Arena:
    return Arena(
        shared_database.connect(autocommit=False),
        shared_database.connect(),
        shared_database.connect(),
    )


@pytest.fixture
def arena(connections: Arena) -> Iterator[Arena]:
    """Give the connections of the module, idle before and after."""
    yield connections
    connections.first.rollback()
