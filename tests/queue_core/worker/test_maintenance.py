"""Maintenance by itself: what it does in its rounds, and what keeps it from doing it."""

from types import SimpleNamespace
from typing import Any, cast
from uuid import uuid4

import pytest

from queue_core.worker import maintenance
from queue_core.worker.link import Link
from tests.queue_core.worker.conftest import wait_for

WEEKS = "SELECT count(*) AS weeks FROM pg_inherits WHERE inhparent = 'countersign.jobs'::regclass"


@pytest.fixture
def chores(database, monkeypatch):
    """Give maintenance that has a database, and nobody else to work with."""
    monkeypatch.setattr(maintenance, "FIRST_PARTITIONS_SECONDS", 0)

    def probe(_conn):
        raise RuntimeError

    nobody: Any = SimpleNamespace(schedules=None, handlers=None, probe=probe)
    thread = maintenance.Maintenance(
        Link(database.url, ""), uuid4(), nobody, 60.0, heartbeat=nobody, crew=nobody, claimer=nobody
    )
    yield thread
    thread.stop()
    thread.join()


def test_it_makes_the_weeks_ahead_whatever_else_fails(database, chores):
    conn = database.connect()
    chores.start()
    wait_for(lambda: cast("int", conn.execute(WEEKS).fetchone()["weeks"]) > 16)
