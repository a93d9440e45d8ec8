"""What `bin/start` says of signing in: the first operator, whom it adds, or a new password."""

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

from console.cli import signature
from console.start_options import FIRST_OPERATOR, Place, say
from queue_core import database, operators
from queue_core.errors import OperatorRefusedError
from queue_core.queries import operators as people


def welcome(address: str, place: Place, environ: Mapping[str, str]) -> None:
    """Print where to sign in: with the first operator's password, or how to reset one."""
    with database.connect(place.url, name="countersign start") as conn:
        password = None if enabled_admins(conn) else first_operator(conn)
        if password:
            box(address=address, code=FIRST_OPERATOR, password=f"{password}   (shown only now)")
        elif admins := enabled_admins(conn):
            box(address=address, password=f"a new one: {reset_command(admins[0], environ)}")
        else:  # the first one was disabled: a code is never given out again
            box(address=address, code="no admin is enabled; add one: flask queue operators add")


def first_operator(conn: database.AnyConnection) -> str | None:
    """Return the password of the operator just added; None where there was one, or is by now."""
    try:
        return None if people.find(conn, FIRST_OPERATOR) else add_first_operator(conn)
    except OperatorRefusedError:  # of two first starts at once one is faster
        return None


def add_first_operator(conn: database.AnyConnection) -> str:
    """Add the first operator, an admin, and return its password."""
    password = operators.random_password()
    operators.add(
        conn,
        FIRST_OPERATOR,
        "admin",
        password,
        by=signature.set_up_code(),
        reason="first_start",
        via=signature.via(),
    )
    return password


def enabled_admins(conn: database.AnyConnection) -> list[str]:
    """Return the codes of those who may sign in and manage others."""
    found = people.list_operators(conn)
    return [row.code for row in found if row.role == "admin" and row.disabled_at is None]


def reset_command(code: str, environ: Mapping[str, str]) -> str:
    """Return the command that gives `code` a new password, signed by itself."""
    flask = shlex.quote(str(Path(sys.executable).parent / "flask"))
    data = environ.get("QUEUE_DATA")
    where = f"QUEUE_DATA={shlex.quote(data)} " if data and not environ.get("DATABASE_URL") else ""
    who = shlex.quote(code)
    return f"{where}{flask} queue operators reset {who} --by {who} --reason forgotten"


def box(**lines: str) -> None:
    """Print named lines so that they are found among the log."""
    rule = "─" * 72
    named = [f"  {name:<10}{text}" for name, text in lines.items()]
    say("\n".join(["", rule, *named, rule, "  Ctrl-C ends everything.", ""]))
