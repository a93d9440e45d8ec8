"""`bin/start`: a database, the console and a worker in one command, until Ctrl-C."""

import argparse
import http.client
import os
import shlex
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn

from console import procfile
from console.cli import signature
from queue_core import database, embedded, migrate, operators, settings
from queue_core.errors import CountersignError, OperatorRefusedError, SettingsError

ROOT: Final = Path(__file__).resolve().parents[1]
HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 8000
FIRST_OPERATOR: Final = "ops:admin"
READY_SECONDS: Final = 60
ENDING_SECONDS: Final = 35  # a worker's grace of 25 s, and some to write what had finished

DONE, FAILED, USAGE, NO_DATABASE, CUT_OFF = range(5)


class StartError(Exception):
    """The start cannot go on; its text is the one line to print, `code` the exit code."""

    def __init__(self, text: str, code: int = FAILED) -> None:
        super().__init__(text)
        self.code = code


class AskedToEndError(BaseException):
    """Ctrl-C, SIGTERM or SIGHUP arrived for the first time."""


@dataclass(frozen=True, slots=True)
class Place:
    """The database of this start; `own` is false where it is the embedded one."""

    url: str
    owner_url: str
    own: bool


def main(arguments: Sequence[str] | None = None) -> int:
    """Bring everything up, run it until a signal or a failure, and return the exit code."""
    options = parse(arguments)
    heed(_first_signal)
    try:
        return run(options)
    except AskedToEndError:
        return DONE
    except StartError as error:
        return told(str(error), error.code)
    except SettingsError as error:
        return told(str(error), USAGE)
    except CountersignError as error:
        return told(str(error), NO_DATABASE)
    finally:
        embedded.stop()


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


def run(options: argparse.Namespace) -> int:
    """Check the port, prepare the database, run the Procfile, and say where to sign in."""
    number = free_port(options.port)
    environ = environment(options.data, number)
    place = find_database(settings.from_environment(environ), migrate_unasked=options.migrate)
    if not place.own and not options.no_example:
        load_example(place)
    with running(environ) as parts:
        until_ready(number, parts)
        welcome(f"http://{HOST}:{number}/", place, environ)
        ended = procfile.wait_for_an_end(parts)
        say(f"{ended.name} {ended.ending}; ending the rest.")
    return FAILED


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


def find_database(given: settings.Settings, *, migrate_unasked: bool) -> Place:
    """Return the database to use, its schema up to date: DATABASE_URL, else the embedded one."""
    if given.database_url is None:
        server = embedded.start(given.data)
        place = Place(server.url, server.owner_url, own=False)
    else:
        place = Place(given.database_url, given.owner_url or given.database_url, own=True)
    with database.connect(place.owner_url, name="countersign start") as conn:
        if place.own:
            name(place)
        if place.own and not migrate_unasked:
            ask(changes(conn))
        migrate.migrate(conn)
    return place


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


def load_example(place: Place) -> None:
    """Load the example, which leaves alone a database that ever held a job."""
    from examples.stdlib_audit.load import load  # noqa: PLC0415 - only a first start needs it

    with database.connect(place.owner_url, name="countersign start") as conn:
        load(conn)


@contextmanager
def running(environ: Mapping[str, str]) -> Iterator[list[procfile.Part]]:
    """Run the lines of the Procfile for the length of the block, and leave none behind."""
    commands = procfile.read((ROOT / "Procfile").read_text(encoding="utf-8"))
    parts: list[procfile.Part] = []
    try:
        parts += procfile.begin(commands, folder=ROOT, environ=environ)
        yield parts
    finally:
        end(parts)


def end(parts: Sequence[procfile.Part]) -> None:
    """End every part; a further signal is passed on, so that a worker stops at once."""
    # Not for SIGHUP: kernel and shell send one each, and that is no impatience.
    heed(lambda number, _: number == signal.SIGHUP or procfile.ask_to_end(parts))
    if parts:
        say("Ending: runs have 25 s to finish; Ctrl-C again ends them now.")
    if killed := procfile.end(parts, seconds=ENDING_SECONDS):
        names = " and ".join(part.name for part in killed)
        raise StartError(f"{names} did not end and was killed.", CUT_OFF)


def until_ready(number: int, parts: Sequence[procfile.Part]) -> None:
    """Wait until the console answers for itself and its database; StartError if it does not."""
    deadline = time.monotonic() + READY_SECONDS
    while not ready(number):
        if ended := procfile.first_ended(parts):
            raise StartError(f"{ended.name} {ended.ending}; its last lines above say why.")
        if time.monotonic() > deadline:
            raise StartError(f"/readyz did not answer 200 within {READY_SECONDS} s.")
        time.sleep(procfile.POLL_SECONDS)


def ready(number: int) -> bool:
    """Whether /readyz answers 200."""
    conn = http.client.HTTPConnection(HOST, number, timeout=5)
    try:
        conn.request("GET", "/readyz")
        with conn.getresponse() as response:
            return response.status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        conn.close()


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
        return None if operators.find(conn, FIRST_OPERATOR) else add_first_operator(conn)
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
    found = operators.list_operators(conn)
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


def say(text: str) -> None:
    """Print, even where the terminal is gone."""
    with suppress(OSError):
        print(text, flush=True)


def told(text: str, code: int) -> int:
    """Print why this is the end, and return the exit code."""
    with suppress(OSError):
        print(f"bin/start: {text}", file=sys.stderr, flush=True)
    return code


def heed(handler: Callable[[int, FrameType | None], object]) -> None:
    """Let `handler` have the signals that end a start; under nohup SIGHUP is none of them."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


def _first_signal(*_: object) -> NoReturn:
    # Signals that come before the parts run again are no reason to stop half-way through stopping.
    heed(lambda *_: None)
    raise AskedToEndError


if __name__ == "__main__":
    sys.exit(main())
