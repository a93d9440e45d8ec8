"""`bin/start`: a database, the console and a worker in one command, until Ctrl-C."""

import argparse
import http.client
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn

from console import procfile
from console.start_options import (
    CUT_OFF,
    DONE,
    FAILED,
    HOST,
    NO_DATABASE,
    USAGE,
    Place,
    StartError,
    ask_first,
    environment,
    free_port,
    parse,
    say,
)
from console.welcome import welcome
from queue_core import database, embedded, migrate, settings
from queue_core.errors import CountersignError, SettingsError

ROOT: Final = Path(__file__).resolve().parents[1]
READY_SECONDS: Final = 60
ENDING_SECONDS: Final = 35  # a worker's grace of 25 s, and some to write what had finished


class AskedToEndError(BaseException):
    """Ctrl-C, SIGTERM or SIGHUP arrived for the first time."""


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


def find_database(given: settings.Settings, *, migrate_unasked: bool) -> Place:
    """Return the database to use, its schema up to date: DATABASE_URL, else the embedded one."""
    if given.database_url is None:
        server = embedded.start(given.data)
        place = Place(server.url, server.owner_url, own=False)
    else:
        place = Place(given.database_url, given.owner_url or given.database_url, own=True)
    with database.connect(place.owner_url, name="countersign start") as conn:
        if place.own:
            ask_first(conn, place, unasked=migrate_unasked)
        migrate.migrate(conn)
    return place


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
