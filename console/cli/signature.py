"""Who signs from the command line: an enabled operator's code, and the way it came in."""

import os
import pwd
import socket
import sys
from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from queue_core import operators

Command = TypeVar("Command", bound=Callable[..., Any])
_LONGEST_PART: Final = 150


def signed(command: Command) -> Command:
    """Give a command the options that sign an act; at a terminal they are asked for."""
    return _signed(command, "Who: the code of an enabled operator.")


def signed_by_admin(command: Command) -> Command:
    """Give a command the same options, where an admin has to sign."""
    return _signed(command, "Who: the code of an enabled admin.")


def _signed(command: Command, who: str) -> Command:
    for option in (
        click.option("--reason", callback=asked, help="Why: a code, such as customer_asked."),
        click.option("--by", callback=asked, help=who),
    ):
        command = option(command)
    return command


def asked(ctx: click.Context, parameter: click.Parameter, value: str | None) -> str:
    """Return what an option was given; at a terminal a missing one is asked for."""
    if value is not None:
        return value
    if not at_terminal():
        raise click.MissingParameter(ctx=ctx, param=parameter)
    return click.prompt(str(parameter.name).capitalize(), err=True)


def at_terminal() -> bool:
    """Whether a person can be asked."""
    return sys.stdin is not None and sys.stdin.isatty()


def noted(command: Command) -> Command:
    """Give a command the option for a note beside its reason."""
    return click.option("--note", help="Free text beside the reason.")(command)


def via() -> str:
    """Return how an act from here came in: `cli:<os user>@<host>`."""
    return f"cli:{_part(os_user())}@{_part(socket.gethostname())}"


def set_up_code() -> str:
    """Return what signs for operators while no admin is enabled: `setup:<os user>`."""
    return f"{operators.SETUP}{_part(os_user())}"


def os_user() -> str:
    """Return the name of this process's user, or its number where it has no name."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def _part(name: str) -> str:
    """Keep what a code may hold: names of users and hosts can be anything."""
    kept = "".join(character if character.isprintable() else "?" for character in name)
    return kept.strip()[:_LONGEST_PART] or "unknown"
