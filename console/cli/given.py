"""What comes by standard input, where neither `ps` nor a shell's history can see it."""

import sys
from datetime import datetime
from typing import Final

import click

from console.cli.failures import Mistake
from console.cli.signature import at_terminal
from queue_core.jobs import MAX_ARGS_BYTES, decode

MOST_BYTES: Final = 4 * MAX_ARGS_BYTES
"""Arguments may be written with spaces and escapes; what is stored has its own limit."""
MOST_PASSWORD_BYTES: Final = 4_096


class Moment(click.ParamType):
    """A time as RFC 3339 writes it, with its zone."""

    name = "time"

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime:
        """Return the time; what has no zone is refused, since every machine has its own."""
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            self.fail("a time is written 2026-12-31T08:00:00Z", param, ctx)
        if moment.utcoffset() is None:
            self.fail("a time needs its zone, as the Z in 2026-12-31T08:00:00Z", param, ctx)
        return moment


def by_standard_input(
    _: click.Context, parameter: click.Parameter, given: str | None
) -> str | None:
    """Let an option take nothing but `-`; what was given instead is not repeated."""
    if given not in {None, "-"}:
        raise Mistake(f"--{parameter.name} takes only -, for standard input")
    return given


def arguments() -> dict[str, object]:
    """Read a job's arguments, one JSON object, from standard input."""
    try:
        return decode(_read(MOST_BYTES, "the arguments"))
    except ValueError as error:
        raise Mistake(str(error)) from None


def password() -> str:
    """Read a password: the first line of standard input, or typed unseen at a terminal."""
    if at_terminal():
        return click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    lines = _read(MOST_PASSWORD_BYTES, "the password").splitlines()
    return lines[0] if lines else ""


def _read(most: int, what: str) -> str:
    if sys.stdin is None:
        raise Mistake(f"{what} cannot be read: standard input is closed")
    try:
        content = sys.stdin.buffer.read(most + 1)
    except OSError:
        raise Mistake(f"{what} cannot be read from standard input") from None
    if len(content) > most:
        raise Mistake(f"{what} cannot be larger than {most // 1024} KiB")
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise Mistake(f"{what} must be UTF-8") from None
