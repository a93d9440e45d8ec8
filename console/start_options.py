"""What `bin/start` is told, and what it refuses before anything is started or changed."""

import argparse
import os
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from queue_core import database, migrate, settings
from queue_core.errors import SettingsError
from queue_core.queries import operators

HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 8000
FIRST_OPERATOR: Final = "ops:admin"

DONE, FAILED, USAGE, NO_DATABASE, CUT_OFF = range(5)


class StartError(Exception):
    """The start cannot go on; its text is the one line to print, `code` the exit code."""

    def __init__(self, text: str, code: int = FAILED) -> None:
        super().__init__(text)
        self.code = code


@dataclass(frozen=True, slots=True)
class Place:
    """The database of this start; `own` is false where it is the embedded one."""

    url: str
    owner_url: str
    own: bool


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line; a wrong one ends the process with 2."""
    parser = argparse.ArgumentParser(
        prog="bin/start",
        description="Start a database, the console and a worker; Ctrl-C ends all of them.",
        epilog="With DATABASE_URL set, that database is used, after asking.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--port", type=port, default=DEFAULT_PORT, help="of the console (default: 8000; 0: any)"
    )
    parser.add_argument("--data", type=folder, help="folder of the database (default: QUEUE_DATA)")
    parser.add_argument("--no-example", action="store_true", help="load no example jobs")
    parser.add_argument("--migrate", action="store_true", help="change DATABASE_URL without asking")
    return parser.parse_args(arguments)


def port(text: str) -> int:
    """Read a port number."""
    largest = 65_535
    if not (text.isascii() and text.isdigit() and int(text) <= largest):
        raise argparse.ArgumentTypeError(f"a port is a number from 0 to {largest}, not {text!r}")
    return int(text)


def folder(text: str) -> str:
    """Read a folder as an absolute path, since what is started runs elsewhere."""
    if not text.strip() or "\0" in text:
        raise argparse.ArgumentTypeError("a folder is needed")
    try:
        return str(settings.folder(text))
    except SettingsError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def free_port(wanted: int) -> int:
    """Return `wanted` if nothing listens there, or any free port for 0; StartError otherwise."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, wanted))
        except OSError as error:
            raise StartError(
                f"Port {wanted} cannot be used ({error.strerror}). --port 0 takes any free one.",
                USAGE,
            ) from None
        return int(probe.getsockname()[1])


def environment(data: str | None, number: int) -> dict[str, str]:
    """Return what the parts are told: our settings, and this environment's programs first."""
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    environ = {**os.environ, "PATH": programs, "PORT": str(number)}
    chosen = data or os.environ.get("QUEUE_DATA", "")
    return {**environ, "QUEUE_DATA": str(settings.folder(chosen))} if chosen.strip() else environ


def ask_first(conn: database.AnyConnection, place: Place, *, unasked: bool) -> None:
    """Name a database of somebody's own, and go on only with leave to change it; else StartError.

    `unasked` is leave given beforehand.
    """
    name(place)
    if not unasked:
        ask(changes(conn))


def name(place: Place) -> None:
    """Say which database this is, and which one the owner's URL names where that looks another."""
    service, owner = database.describe(place.url), database.describe(place.owner_url)
    say(f"DATABASE_URL is set: {service}.")
    if owner != service:
        say(f"QUEUE_OWNER_URL is set, and that is where the schema is changed: {owner}.")


def changes(conn: database.AnyConnection) -> list[str]:
    """Say what a start would change in this database."""
    missing = migrate.missing(conn)
    planned = [f"apply {len(missing)} migrations"] if missing else []
    if missing or not operators.admin_enabled(conn):
        planned.append(f"add the operator {FIRST_OPERATOR} if no admin is enabled")
    return planned


def ask(planned: Sequence[str]) -> None:
    """Go on only if nothing is planned or a person agrees; StartError otherwise."""
    if not planned:
        return
    if not sys.stdin.isatty():
        raise StartError(f"It would {' and '.join(planned)}: pass --migrate to allow it.", USAGE)
    if not agreed(" and ".join(planned).capitalize()):
        raise StartError("Nothing was changed.", USAGE)


def agreed(question: str) -> bool:
    """Ask a person; anything but yes is no."""
    try:
        return input(f"{question}? [y/N] ").strip().lower() in {"y", "yes"}
    except EOFError:
        return False


def say(text: str) -> None:
    """Print, even where the terminal is gone."""
    with suppress(OSError):
        print(text, flush=True)
