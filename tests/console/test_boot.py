"""Before it serves: one line and an exit code where there is nothing sound to serve."""

import subprocess
import sys
from pathlib import Path

import pytest

from console import boot
from queue_core import migrate

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def environ(database, monkeypatch):
    monkeypatch.setenv("DATABASE_URL", database.url)
    return monkeypatch


STILL_THERE = """
SELECT count(*) AS n FROM pg_stat_activity WHERE application_name = 'countersign console boot'
"""


def test_a_sound_database_lets_it_begin_and_no_connection_stays(environ, database):
    boot.require_sound()
    with database.owner() as owner:
        found = owner.execute(STILL_THERE)
        assert found.fetchone() == {"n": 0}


LAST_WEEK = """
SELECT max(inhrelid::regclass::text) AS name FROM pg_inherits
WHERE inhparent = 'countersign.jobs'::regclass
"""


def last_week(owner):
    return owner.execute(LAST_WEEK).fetchone()["name"]


def test_it_makes_the_partitions_of_the_weeks_ahead(environ, database):
    with database.owner() as owner:
        migrate.make_partitions(owner)
        name = last_week(owner)
        owner.execute(f"DROP TABLE {name}".encode())
        boot.require_sound()
        assert last_week(owner) == name


def test_a_role_that_may_not_make_partitions_is_told_and_begins_all_the_same(
    environ, database, capsys
):
    with database.owner() as owner:
        owner.execute(
            "REVOKE EXECUTE ON FUNCTION countersign.make_partitions FROM countersign_runtime"
        )
    boot.require_sound()
    assert "warning: partitions for the weeks ahead could not be made" in capsys.readouterr().err


def ended(capsys):
    """Return the exit code and the line of a boot that does not go on."""
    with pytest.raises(SystemExit) as raised:
        boot.require_sound()
    return raised.value.code, capsys.readouterr().err


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TRIGGER acts_refuse_row ON countersign.acts",
        "ALTER TABLE countersign.acts DISABLE TRIGGER acts_stamp",
        "ALTER TABLE countersign.acts ENABLE REPLICA TRIGGER acts_refuse_statement",
        "DROP SCHEMA countersign CASCADE",
    ],
)
def test_a_database_without_the_ledger_as_it_should_be_ends_it_with_3(
    environ, database, capsys, statement
):
    with database.owner() as owner:
        owner.execute(statement.encode())
    code, line = ended(capsys)
    assert code == 3
    assert line.startswith("countersign console: the database is not fit to run on")


def test_no_database_ends_it_with_3_and_the_password_is_not_said(environ, capsys):
    environ.setenv("DATABASE_URL", "postgresql://x:hunter2@127.0.0.1:1/y")
    code, line = ended(capsys)
    assert code == 3
    assert "hunter2" not in line


def test_a_setting_that_cannot_be_used_ends_it_with_2(environ, capsys):
    environ.setenv("QUEUE_STALE_AFTER", "soon")
    assert ended(capsys) == (
        2,
        "countersign console: QUEUE_STALE_AFTER must be a number of seconds from 1 to 86400\n",
    )


def test_the_command_line_works_without_any_database(environ):
    environ.setenv("DATABASE_URL", "host=/nonexistent")
    done = subprocess.run(
        [sys.executable, "-m", "flask", "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
