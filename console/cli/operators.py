"""Operators: who may sign in and act. What is done to them is signed by an admin."""

import click

from console.cli import connections, given
from console.cli.failures import Refusal
from console.cli.output import as_dict, say, say_json, say_table
from console.cli.signature import asked, at_terminal, set_up_code, signed_by_admin, via
from queue_core import operators as core
from queue_core.database import AnyConnection
from queue_core.queries import operators as people


@click.group()
def operators() -> None:
    """Add, list and disable operators, change their roles, and reset their passwords."""


@operators.command("list")
@click.option("--json", "wants_json", is_flag=True, help="Print one JSON object.")
def list_(*, wants_json: bool) -> None:
    """List every operator there ever was: codes are never reused."""
    with connections.reading() as conn:
        rows = people.list_operators(conn)
    if wants_json:
        say_json({"operators": [as_dict(row) for row in rows]})
    elif rows:
        head = ("code", "role", "added at", "disabled at")
        say_table([head, *((row.code, row.role, row.added_at, row.disabled_at) for row in rows)])
    else:
        say("no operators")


@operators.command()
@click.argument("code")
@click.option("--role", type=click.Choice(core.ROLES), required=True)
@click.option("--by", help="An admin's code; may be left out while no admin is enabled.")
@click.option("--reason", callback=asked, help="Why: a code, such as new_colleague.")
@click.option("--password", callback=given.by_standard_input, help="-: read it from stdin.")
def add(*, code: str, role: core.Role, by: str | None, reason: str, password: str | None) -> None:
    """Add an operator; without --password a random one is printed, once."""
    new = given.password() if password else core.random_password()
    with connections.acting() as conn:
        signer = _signer(conn, by)
        core.add(conn, code, role, new, by=signer, reason=reason, via=via())
    _tell("added", code, None if password else new)


@operators.command("role")
@click.argument("code")
@click.argument("role", type=click.Choice(people.ROLES))
@signed_by_admin
def change_role(*, code: str, role: people.Role, by: str, reason: str) -> None:
    """Give an operator another role, from their next request on."""
    with connections.acting() as conn:
        core.change_role(conn, code, role, by=by, reason=reason, via=via())
    say(f"{code} has the role {role} now")


@operators.command()
@click.argument("code")
@signed_by_admin
def disable(*, code: str, by: str, reason: str) -> None:
    """Take an operator's right to sign in, for good, and end their sessions."""
    with connections.acting() as conn:
        core.disable(conn, code, by=by, reason=reason, via=via())
    say(f"disabled {code}")


@operators.command()
@click.argument("code")
@signed_by_admin
@click.option("--password", callback=given.by_standard_input, help="-: read it from stdin.")
def reset(*, code: str, by: str, reason: str, password: str | None) -> None:
    """Give an operator a new password and end their sessions."""
    new = given.password() if password else core.random_password()
    with connections.acting() as conn:
        core.reset_password(conn, code, new, by=by, reason=reason, via=via())
    _tell("reset", code, None if password else new)


def _signer(conn: AnyConnection, by: str | None) -> str:
    """Return who signs: an admin, or while there is none whoever is at the keyboard."""
    if not people.admin_enabled(conn) and by in {None, "", set_up_code()}:
        return set_up_code()
    if by and by.startswith(core.SETUP):
        raise Refusal(f"{core.SETUP} signs as yourself, while no admin is enabled: leave --by out")
    if by:
        return by
    if at_terminal():
        return click.prompt("By", err=True)
    raise click.UsageError("Missing option '--by': an admin's code signs for a new operator.")


def _tell(what: str, code: str, printed_once: str | None) -> None:
    say(f"{what} {code}")
    if printed_once:
        say(f"password: {printed_once}   (shown only now)")
