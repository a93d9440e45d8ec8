"""The console on a real database with the shop's queue in it, and people to use it."""

from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import psycopg
import pytest
from flask import Flask
from playwright.sync_api import Browser, Page, StorageState
from psycopg.rows import DictRow, dict_row

from console import database as connections
from queue_core import fleet
from queue_core.queries import acts, places
from queue_core.transitions.recover import recover
from tests import hashes
from tests.conftest import Database, Made
from tests.console import scenes
from tests.console.browsing import holding, opening
from tests.console.people import Person
from tests.console.scenes import Conn, Scene
from tests.console.screens import browser
from tests.console.serving import console_on, served
from tests.databases import Pool

STALE = "UPDATE countersign.workers SET lost_at = now(), lost_rule = %s WHERE id = %s"


@pytest.fixture(scope="module", autouse=True)
def quick_hashes() -> Iterator[None]:
    """Hash at once: people sign in by the hundred here."""
    with hashes.quick():
        yield


@pytest.fixture(scope="session")
def shop(databases: Pool) -> Iterator[Database]:
    """Give the database that all tests of the console share; each acts on jobs of its own."""
    with databases.lend() as made:
        yield made


@pytest.fixture(scope="session")
def scene(shop: Database) -> Scene:
    """Stage the shop's queue, once: tests only look at these jobs."""
    with psycopg.Connection[DictRow].connect(
        shop.owner_url, autocommit=True, row_factory=dict_row
    ) as owner:
        with hashes.quick():
            scenes.add_operators(owner)
        return scenes.stage(owner)


@pytest.fixture(scope="session")
def app(shop: Database, scene: Scene) -> Iterator[Flask]:
    """Give the console; what breaks in it breaks the test."""
    console = console_on(shop.url)
    console.testing = True
    yield console
    connections.connections(console).close()


@pytest.fixture
def app_on() -> Iterator[Callable[..., Flask]]:
    """Give a function that makes a console of a test's own; its connections are closed after it."""
    made: list[Flask] = []

    def make(url: str, **settings: str) -> Flask:
        made.append(console_on(url, **settings))
        return made[-1]

    yield make
    for each in made:
        connections.connections(each).close()


@pytest.fixture
def person(app: Flask) -> Callable[..., Person]:
    """Give a function that lets somebody sign in."""
    return lambda code=None, **environ: Person(app, code, **environ)


def staying(app: Flask, code: str) -> Person:
    """Sign somebody in for the session, by the hashes that its tests have."""
    with hashes.quick():
        return Person(app, code)


@pytest.fixture(scope="session")
def alice(app: Flask) -> Person:
    """Give an operator who stays signed in; a test that signs out uses somebody else."""
    return staying(app, "ops:alice")


@pytest.fixture(scope="session")
def root(app: Flask) -> Person:
    """Give an admin who stays signed in."""
    return staying(app, "ops:root")


@pytest.fixture(scope="session")
def viola(app: Flask) -> Person:
    """Give a viewer who stays signed in."""
    return staying(app, "ops:viola")


@pytest.fixture
def books(shop: Database) -> Iterator[Conn]:
    """Give a connection to the shop's database, to look behind the console."""
    with psycopg.Connection[DictRow].connect(
        shop.url, autocommit=True, row_factory=dict_row
    ) as conn:
        yield conn


@pytest.fixture
def job_at(job_in: Callable[..., Made], books: Conn) -> Callable[..., UUID]:
    """Give a function that brings a new job of the shop's to a place."""

    def bring(place: str, **more: Any) -> UUID:
        return job_in(books, place, **more).id

    return bring


@pytest.fixture
def lost(job_in: Callable[..., Made], books: Conn) -> Callable[[str], UUID]:
    """Give a function that loses a running job to review, with a worker lost by some rule."""

    def lose(rule: str) -> UUID:
        made = job_in(books, "running", on_lost="review")
        match rule:
            case "stopped":
                fleet.stop(books, made.worker)
            case "no row":
                books.execute(
                    "UPDATE countersign.running SET worker = job_id FROM (SELECT "
                    "gen_random_uuid() AS job_id) AS made WHERE id = %s",
                    [made.id],
                )
            case _:
                books.execute(STALE, [rule, made.worker])
        recover(books, limit=1_000)
        return made.id

    return lose


@pytest.fixture
def stands(books: Conn) -> Callable[[UUID], tuple[str, list[str]]]:
    """Give a function that says where a job stands, and which acts there are on it."""

    def look(job: UUID) -> tuple[str, list[str]]:
        place = places.locate(books, [job])[job]
        return place.state, [act.act for act in acts.acts_of(books, job)]

    return look


@pytest.fixture(scope="module")
def address(app: Flask) -> Iterator[str]:
    """Serve the console on a port of this machine."""
    with served(app) as base:
        yield base


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Start the machine's own Chromium, for the tests of a module."""
    with browser() as started:
        yield started


@pytest.fixture(scope="module")
def cookies(app: Flask) -> Callable[[str], StorageState]:
    """Give a function that signs somebody in, once for a module, and returns their cookies."""
    kept: dict[str, str] = {}

    def of(code: str) -> StorageState:
        kept[code] = kept.get(code) or Person(app, code).cookie()
        return holding(kept[code])

    return of


@pytest.fixture
def opened(
    chromium: Browser, address: str, cookies: Callable[[str], StorageState]
) -> Iterator[Callable[..., Page]]:
    """Give a function that opens a page; whatever the browser complains of fails the test."""
    with opening(chromium, address, cookies) as open_page:
        yield open_page
