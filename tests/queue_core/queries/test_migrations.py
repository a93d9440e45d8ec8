"""Where the migrations of this code lie: beside the package, or inside it in a wheel."""

import hashlib
from pathlib import Path

from queue_core.queries import migrations
from queue_core.queries.migrations import applied, differences, known, missing

ROOT = Path(__file__).resolve().parents[3]


def test_in_a_checkout_they_lie_beside_the_package() -> None:
    assert [each.name for each in known()] == sorted(
        file.name for file in (ROOT / "migrations").glob("*.sql")
    )


def test_in_a_wheel_they_lie_inside_it(tmp_path: Path, monkeypatch) -> None:
    folder = tmp_path / "migrations"
    folder.mkdir()
    (folder / "0001_only.sql").write_bytes(b"SELECT 1;\r\n")
    monkeypatch.setattr(migrations.resources, "files", lambda _: tmp_path)
    (only,) = known()
    assert (only.number, only.name, only.text) == (1, "0001_only.sql", "SELECT 1;\n")
    assert only.sha256 == hashlib.sha256(b"SELECT 1;\n").hexdigest()


def test_a_migrated_database_has_them_all(conn) -> None:
    assert [(each.name, each.sha256) for each in applied(conn)] == [
        (each.name, each.sha256) for each in known()
    ]
    assert (missing(conn), differences(conn)) == ([], [])
