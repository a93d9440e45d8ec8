"""What chaos is made with: a book-keeper, staff that may be killed, a network that may stall.

`CHAOS=long` chooses the numbers of the promise, else each scenario is as short as finds faults.
What is random is drawn from `CHAOS_SEED`, which is printed with a failure.
"""

import os
import random
import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import conninfo, sql

from queue_core import embedded
from tests.chaos import handlers
from tests.chaos.books import Books
from tests.chaos.proxy import Network
from tests.chaos.server import Server
from tests.chaos.staff import Staff
from tests.conftest import Database

assert handlers.jobs.handled()  # declares the names for this process, which enqueues

IS_LONG = os.environ.get("CHAOS") == "long"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave chaos out unless it is asked for by its marker: it takes minutes of two processors."""
    if "chaos" in (config.getoption("markexpr") or ""):
        return
    chaotic = [item for item in items if item.get_closest_marker("chaos")]
    if chaotic:
        config.hook.pytest_deselected(items=chaotic)
        items[:] = [item for item in items if item not in chaotic]


@pytest.fixture
def dice() -> random.Random:
    """Give chance that can be had again: the seed is printed where the test fails."""
    seed = os.environ.get("CHAOS_SEED") or uuid.uuid4().hex[:8]
    print(f"CHAOS_SEED={seed}")  # noqa: T201 - pytest shows it with a failure
    return random.Random(seed)


@pytest.fixture(scope="module")
def witness(server: embedded.Server) -> Iterator[str]:
    """Give a database of a server that nobody breaks, for the effects of one test at a time."""
    name = f"witness_{uuid.uuid4().hex[:12]}"
    admin_url = conninfo.make_conninfo(server.owner_url, dbname="postgres")
    with psycopg.connect(admin_url, autocommit=True) as admin:
        admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        yield conninfo.make_conninfo(server.owner_url, dbname=name)
        admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.fixture
def books(witness: str) -> Books:
    return Books(witness)


@pytest.fixture
def staff(database: Database, witness: str, tmp_path: Path) -> Iterator[Staff]:
    """Give workers of the test's database; whoever is left is ended with the test."""
    staff = Staff(database.url, witness, tmp_path, processes=2 if IS_LONG else 1)
    yield staff
    staff.close()


@pytest.fixture(scope="module")
def own_server() -> Iterator[Server]:
    """Give a server that may be killed, for the tests of a module."""
    server = Server()
    yield server
    server.close()


@pytest.fixture
def network(database: Database) -> Iterator[Network]:
    """Give a network to the test's database."""
    network = Network(database.url)
    yield network
    network.cut()
