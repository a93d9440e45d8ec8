"""The migrations of this code beside those that a database has."""

import hashlib
import re
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final, NamedTuple

import psycopg

from queue_core.database import rows, value
from queue_core.errors import SchemaError

_NAME: Final = re.compile(r"(\d{4})_[a-z0-9_]+\.sql")


class Migration(NamedTuple):
    """One file: its number, its name, its text and the SHA-256 of the text with LF line ends."""

    number: int
    name: str
    text: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Applied:
    """A migration that this database has."""

    number: int
    name: str
    sha256: str


def known() -> list[Migration]:
    """Return the migrations of this code, in order."""
    files = sorted(file.name for file in _folder().iterdir() if _NAME.fullmatch(file.name))
    return [_read(name) for name in files]


HAS_MIGRATIONS = """
SELECT to_regclass('countersign.migrations') IS NOT NULL AS present
"""
APPLIED = """
SELECT migrations.number, migrations.name, migrations.sha256
FROM countersign.migrations
ORDER BY migrations.number
"""


def applied(conn: psycopg.Connection[object]) -> list[Applied]:
    """Return the migrations that this database has, in order; none where there is no schema."""
    if not value(conn, HAS_MIGRATIONS, {}):
        return []
    return rows(conn, APPLIED, {}, Applied)


def missing(conn: psycopg.Connection[object]) -> list[Migration]:
    """Return the migrations that this database lacks, reading only.

    Raises SchemaError where an applied file was edited or the database is newer.
    """
    problems = differences(conn)
    if problems:
        raise SchemaError("; ".join(problems))
    have = {row.number for row in applied(conn)}
    return [migration for migration in known() if migration.number not in have]


def differences(conn: psycopg.Connection[object]) -> list[str]:
    """Say in words where the applied migrations are not those of this code."""
    ours = {migration.number: migration for migration in known()}
    found: list[str] = []
    for row in applied(conn):
        mine = ours.get(row.number)
        if mine is None:
            found.append(f"the database has migration {row.name}, newer than this code: upgrade it")
        elif mine.sha256 != row.sha256:
            found.append(
                f"migration {row.name} was edited after it was applied: restore the file and "
                "put the change into a new one"
            )
    return found


def _read(name: str) -> Migration:
    content = (_folder() / name).read_bytes().replace(b"\r\n", b"\n")
    digest = hashlib.sha256(content).hexdigest()
    return Migration(int(name[:4]), name, content.decode(), digest)


def _folder() -> Traversable:
    """In the wheel the files lie inside this package, in a checkout beside it."""
    packaged = resources.files("queue_core") / "migrations"
    if packaged.is_dir():
        return packaged
    return Path(__file__).resolve().parents[2] / "migrations"
