"""Whether the applied migrations are the files of this code."""

import psycopg

from queue_core.check.problem import Problem
from queue_core.queries import migrations


def problems(conn: psycopg.Connection[object]) -> list[Problem]:
    """Return a problem for each migration that is pending, edited or not of this code."""
    ours = {migration.number: migration for migration in migrations.known()}
    applied = {row.number: row for row in migrations.applied(conn)}
    pending = [_pending(ours[number].name) for number in ours if number not in applied]
    edited = [
        _edited(row.name)
        for number, row in applied.items()
        if number in ours and ours[number].sha256 != row.sha256
    ]
    newer = [_newer(row.name) for number, row in applied.items() if number not in ours]
    return [*pending, *edited, *newer]


def is_newer(conn: psycopg.Connection[object]) -> bool:
    """Say whether this database has a migration that this code does not."""
    ours = {migration.number for migration in migrations.known()}
    return any(row.number not in ours for row in migrations.applied(conn))


def _pending(name: str) -> Problem:
    what = f"migration {name} has not been applied"
    return Problem("schema.missing", what, "run `flask queue migrate`")


def _edited(name: str) -> Problem:
    return Problem(
        "migration.edited",
        f"migration {name} was edited after it was applied",
        "restore the file and put the change into a new one",
    )


def _newer(name: str) -> Problem:
    return Problem(
        "migration.edited",
        f"the database has migration {name}, newer than this code",
        "run the code that brought it, or a later one",
    )
