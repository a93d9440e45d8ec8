"""A page whose reading takes too long says so, whichever table it waits for."""

import pytest
from flask import Flask

from console import database
from queue_core.check.schema import COLUMNS
from tests.console import scenes
from tests.console.addresses import asked_for
from tests.console.people import Person
from tests.console.serving import console_on

SOON = "SELECT set_config('statement_timeout', '15ms', true)"
NEEDED_TO_SIGN_IN = {"sessions", "operators", "sign_in_failures", "job_states"}
WITHOUT_READING = ("/static/", "/healthz", "/readyz", "/sign-in")
SENTENCE = "longer than 3 seconds"


@pytest.fixture(scope="module")
def slow(shared_database) -> tuple[Flask, Person, object]:
    """Give a console on a database of its own, and an admin, before anything is slow."""
    with shared_database.owner() as owner:
        scenes.add_operators(owner)
        scene = scenes.stage(owner)
    app = console_on(shared_database.url)
    return app, Person(app, "ops:root"), scene


@pytest.mark.no_cover  # what is walked through here has tests of its own
@pytest.mark.parametrize("table", sorted(set(COLUMNS) - NEEDED_TO_SIGN_IN))
def test_no_page_breaks_where_a_table_cannot_be_read_in_time(
    slow, shared_database, monkeypatch, table
):
    app, root, scene = slow
    monkeypatch.setattr(database, "SNAPSHOT", SOON)
    paths = [path for path in asked_for(app, scene) if not path.startswith(WITHOUT_READING)]
    with shared_database.owner() as owner, owner.transaction():
        owner.execute(f"LOCK TABLE countersign.{table} IN ACCESS EXCLUSIVE MODE")
        for path in paths:
            page = root.get(path)
            assert page.status_code in {200, 404, 503}, (table, path, page.status_code)
            if page.status_code == 503:
                assert SENTENCE in page.text, (table, path)


def test_every_page_that_reads_says_so_where_nothing_can_be_read_in_time(
    slow, shared_database, monkeypatch
):
    app, root, scene = slow
    monkeypatch.setattr(database, "SNAPSHOT", SOON)
    with shared_database.owner() as owner, owner.transaction():
        for table in sorted(set(COLUMNS) - NEEDED_TO_SIGN_IN):
            owner.execute(f"LOCK TABLE countersign.{table} IN ACCESS EXCLUSIVE MODE")
        for path in asked_for(app, scene):
            if not path.startswith(WITHOUT_READING):
                page = root.get(path)
                assert (page.status_code, SENTENCE in page.text) == (503, True), path
