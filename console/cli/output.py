"""What commands print: plain aligned text for people, one JSON object for programs."""

import dataclasses
import json
import os
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

import click

from console.cli.failures import Refusal

NOTHING: Final = "–"


def say(text: str) -> None:
    """Print a line on standard output.

    A reader that has gone away changes nothing: what was done is done, and the exit code
    has to say so.
    """
    try:
        click.echo(_encodable(text))
    except OSError as error:
        _silence()
        if not isinstance(error, BrokenPipeError):
            raise Refusal(f"standard output cannot be written: {error.strerror}") from None


def warn(text: str) -> None:
    """Print a line on standard error."""
    click.echo(text, err=True)


def say_json(value: dict[str, object]) -> None:
    """Print one JSON object on one line, in ASCII: safe in any terminal and any encoding."""
    say(json.dumps(value, default=_plain, allow_nan=False))


def say_text(text: str) -> None:
    """Print JSON as it is laid out; what a terminal would obey is escaped as JSON escapes it."""
    say("".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text))


def say_table(rows: Iterable[Sequence[object]]) -> None:
    """Print rows as columns of their own width, two spaces apart."""
    cells = [[shown(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        padded = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        say("  ".join(padded).rstrip())


def shown(value: object) -> str:
    """Return a value as people read it, with nothing that a terminal would obey."""
    match value:
        case None | "":
            return NOTHING
        case datetime():
            return _instant(value)
        case float():
            return f"{value:.1f}"
        case _:
            return "".join(c if c.isprintable() else _escaped(c) for c in str(value))


def as_dict(row: Any) -> dict[str, object]:  # noqa: ANN401 - any dataclass
    """Return a row of a query as a dict by the names of its fields."""
    return {each.name: getattr(row, each.name) for each in dataclasses.fields(row)}


def _silence() -> None:
    """Send what is still buffered nowhere, or the interpreter fails on it at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _plain(value: object) -> str:
    match value:
        case datetime():
            return _instant(value)
        case UUID():
            return str(value)
        case _:
            raise TypeError(type(value).__name__)


def _instant(moment: datetime) -> str:
    """RFC 3339, in UTC."""
    return moment.astimezone(UTC).isoformat().removesuffix("+00:00") + "Z"


def _escaped(character: str) -> str:
    return character.encode("unicode-escape").decode()


def _encodable(text: str) -> str:
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)
