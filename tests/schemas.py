"""What tests of the schema share: its owner for a moment, and migrations that can be changed."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from queue_core.database import connect
from queue_core.embedded import Server
from queue_core.queries import migrations

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def owner(migrated: Server) -> Iterator[psycopg.Connection[dict[str, object]]]:
    """Give a connection of the superuser whose one transaction is rolled back, DDL included."""
    with connect(migrated.owner_url, name="test") as connection:
        connection.set_autocommit(False)
        yield connection
        connection.rollback()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a copy of the migrations that the code takes for its own, to be changed."""
    copy = tmp_path / "migrations"
    shutil.copytree(ROOT / "migrations", copy)
    monkeypatch.setattr(migrations, "_folder", lambda: copy)
    return copy
