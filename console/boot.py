"""The look before serving: gunicorn does not begin on a database that is away or unsound."""

import sys
from typing import Final

from queue_core import check, database, embedded, migrate
from queue_core.errors import CountersignError, SchemaError, SettingsError
from queue_core.settings import from_environment

USAGE: Final = 2
NO_DATABASE: Final = 3


def require_sound() -> None:
    """Return where the console can run; else end this process with one line and 2 or 3.

    Makes the partitions of the weeks ahead, so that jobs can be enqueued though no worker
    has run for long; where it cannot it says so and goes on. Its connection is closed again
    before anything is forked.
    """
    try:
        settings = from_environment()
        url = settings.database_url or embedded.start(settings.data).url
        with database.connect(url, name="countersign console boot") as conn:
            check.require_sound(conn)
            _make_partitions(conn)
    except SettingsError as error:
        _end(error, USAGE)
    except CountersignError as error:
        _end(error, NO_DATABASE)


def _make_partitions(conn: database.AnyConnection) -> None:
    try:
        migrate.make_partitions(conn)
    except SchemaError as error:
        sys.stderr.write(f"countersign console: warning: {error}\n")


def _end(error: CountersignError, code: int) -> None:
    sys.stderr.write(f"countersign console: {error}\n")
    sys.exit(code)
