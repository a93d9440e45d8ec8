"""The worker's log: one line an event, with ids and names and never a value of an argument."""

import json
import logging
import os
import time
from contextlib import suppress
from typing import Final, Literal

import psycopg

from queue_core.errors import CountersignError

LOGGER: Final = logging.getLogger("countersign.worker")
_STDERR: Final = 2


class _Stderr(logging.Handler):
    """Writes to the process's standard error past Python's buffers; a closed one is no failure."""

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(OSError):
            line = f"{self.format(record)}\n".encode(errors="replace")
            while line:
                line = line[os.write(_STDERR, line) :]


class Formatter(logging.Formatter):
    """One line: as words with key=value pairs, or as a JSON object."""

    def __init__(self, form: Literal["text", "json"]) -> None:
        super().__init__()
        self._form = form

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of one event."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        at = f"{stamp}.{int(record.msecs):03d}Z"
        fields: dict[str, object] = getattr(record, "fields", {})
        if self._form == "json":
            line = {"at": at, "level": record.levelname.lower(), "event": record.getMessage()}
            return json.dumps(line | fields, default=str)
        pairs = "".join(f" {key}={_plain(value)}" for key, value in fields.items())
        return f"{at} {record.levelname:<7} {record.getMessage()}{pairs}"


def _plain(value: object) -> str:
    text = str(value)
    plain = text.isprintable() and not any(c in text for c in ' "=')
    return text if plain and text else json.dumps(text, ensure_ascii=False)


def configure(form: Literal["text", "json"]) -> None:
    """Send the worker's lines to standard error, once, in that form."""
    keep_standard_streams()
    for handler in list(LOGGER.handlers):
        if isinstance(handler, _Stderr):
            LOGGER.removeHandler(handler)
    handler = _Stderr()
    handler.setFormatter(Formatter(form))
    LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.INFO)
    LOGGER.propagate = False


def keep_standard_streams() -> None:
    """Put /dev/null where a standard stream is closed, so that no socket gets its number."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free: this one


def info(event: str, **fields: object) -> None:
    """Log what happened."""
    LOGGER.info(event, extra={"fields": fields})


def warning(event: str, **fields: object) -> None:
    """Log what somebody should know."""
    LOGGER.warning(event, extra={"fields": fields})


def error(event: str, **fields: object) -> None:
    """Log what somebody should look at."""
    LOGGER.error(event, extra={"fields": fields})


def cause(error: BaseException) -> str:
    """Name an error of our own: by its type alone, since what others say could quote values."""
    if isinstance(error, CountersignError):
        return f"{type(error).__name__}: {error}"
    if isinstance(error, psycopg.Error) and error.sqlstate:
        return f"{type(error).__name__} (SQLSTATE {error.sqlstate})"
    return type(error).__name__
