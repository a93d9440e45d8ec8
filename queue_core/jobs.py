"""A job as it is asked for, and its arguments as JSON text."""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple, cast
from uuid import UUID

from queue_core.errors import ArgumentsError, OptionError

MAX_NAME_CHARACTERS: Final = 200
MAX_TEXT_CHARACTERS: Final = 500
TEXTS: Final = ("effects", "how_to_check", "owner", "runbook")
"""What code may say of a job's name to people who have to decide."""
MAX_ARGS_BYTES: Final = 262_144
MAX_ARGS_DEPTH: Final = 64
MAX_NUMBER_BITS: Final = 14_284
"""Of a whole number, a little under 4,300 digits: Python reads no longer ones back."""
TOO_LARGE: Final = f"larger than {MAX_ARGS_BYTES // 1024} KiB; pass an id"
LOWEST_PRIORITY: Final = -32_768
HIGHEST_PRIORITY: Final = 32_767
MAX_ATTEMPTS: Final = 1_000_000
LONGEST_SECONDS: Final = 10 * 366 * 86_400.0
"""Ten years: the longest delay or time limit, so that a slip of units is found at once."""
FIRST_YEAR: Final = 1970
LAST_YEAR: Final = 9998
"""Of a moment: in any time zone, what is stored can be read back as a datetime."""
_JSON: Final = json.JSONEncoder(allow_nan=False, ensure_ascii=False, separators=(",", ":"))
_WIDE_FLOAT: Final = re.compile(r'"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?e\+\d+')
"""A text, to be passed over, or a float that JSON writes without a decimal point in front."""


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job to enqueue: its name, arguments and options. `repr` leaves the arguments out.

    `delay` (seconds, on the database's clock) and `run_at` (an aware datetime) exclude
    each other; `attempts` unset means the default in force when it runs; `time_limit` is
    in seconds, none unless given here or for its name. Raises OptionError.
    """

    name: str
    args: Mapping[str, object] = field(default_factory=dict[str, object], repr=False)
    queue: str | None = None
    priority: int = 0
    delay: float | None = None
    run_at: datetime | None = None
    attempts: int | None = None
    time_limit: float | None = None

    def __post_init__(self) -> None:
        """Refuse options out of range, before anything reaches the database."""
        check_name(self.name, "a job's name")
        if self.queue is not None:
            check_name(self.queue, "a queue's name")
        check_whole(self.priority, "priority", LOWEST_PRIORITY, HIGHEST_PRIORITY)
        if self.attempts is not None:
            check_whole(self.attempts, "attempts", 1, MAX_ATTEMPTS)
        if self.delay is not None:
            check_seconds(self.delay, "delay", zero=True)
        if self.time_limit is not None:
            check_seconds(self.time_limit, "time_limit")
        if self.run_at is not None:
            check_moment(self.run_at, "run_at")
            if self.delay is not None:
                message = "give either delay or run_at, not both"
                raise OptionError(message)


@dataclass(frozen=True, slots=True)
class Enqueued:
    """What came of an enqueue: the job's id, and whether it was created now."""

    id: UUID
    created: bool


class Asked(NamedTuple):
    """A job as it is written down: its queue resolved, its arguments as text that was checked."""

    name: str
    queue: str
    args: str
    priority: int
    attempts: int | None
    time_limit: float | None
    delay: float
    run_at: datetime | None


def check_name(name: object, what: str) -> str:
    """Return `name` where it can name a job, queue or worker: 1 to 200 printable characters."""
    if not isinstance(name, str) or not 1 <= len(name) <= MAX_NAME_CHARACTERS:
        message = f"{what} must be 1 to {MAX_NAME_CHARACTERS} characters"
        raise OptionError(message)
    if not name.isprintable() or not name.strip():
        message = f"{what} must be printable and not blank"
        raise OptionError(message)
    return name


def check_text(text: object, what: str) -> None:
    """Raise OptionError unless `text` is None, or 1 to 500 printable characters on any lines."""
    if text is None:
        return
    if not isinstance(text, str) or len(text) > MAX_TEXT_CHARACTERS or not text.strip():
        message = f"{what} must be 1 to {MAX_TEXT_CHARACTERS} characters, and not blank"
        raise OptionError(message)
    if not text.replace("\n", " ").isprintable():
        message = f"{what} must be printable, but for line breaks"
        raise OptionError(message)


def check_whole(number: object, what: str, least: int, most: int) -> int:
    """Return `number` where it is an integer (no bool, no float) from `least` to `most`."""
    if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= most:
        message = f"{what} must be a whole number from {least} to {most}"
        raise OptionError(message)
    return number


def check_seconds(seconds: object, what: str, *, zero: bool = False) -> float:
    """Return `seconds` as a float where it is finite, at most ten years and above zero.

    `zero=True` allows zero as well.
    """
    if (
        isinstance(seconds, bool)
        or not isinstance(seconds, int | float)
        or not (0 <= seconds <= LONGEST_SECONDS and (zero or seconds > 0))
    ):
        least = "from 0" if zero else "above 0"
        message = f"{what} must be a number of seconds {least} to {LONGEST_SECONDS:.0f}"
        raise OptionError(message)
    return float(seconds)


def check_moment(moment: object, what: str) -> datetime:
    """Return `moment` where it is an aware datetime that Postgres and Python both can hold."""
    if not isinstance(moment, datetime) or moment.utcoffset() is None:
        message = f"{what} must be a datetime with a time zone, such as datetime.now(UTC)"
        raise OptionError(message)
    if not FIRST_YEAR <= moment.year <= LAST_YEAR:
        message = f"{what} must lie between the years {FIRST_YEAR} and {LAST_YEAR}"
        raise OptionError(message)
    return moment


def encode(name: str, args: object) -> str:
    """Return the arguments of a job named `name` as JSON text that Postgres can keep.

    Raises ArgumentsError, which names fields and never values: for what is not JSON
    (keys that are not text, NaN, other types), for what Postgres cannot store (NUL, lone
    surrogates), below 64 levels, and over 256 KiB.
    """
    if not isinstance(args, Mapping):
        raise ArgumentsError(name, {"": "must be a mapping of names to values"})
    fields = dict(cast("Mapping[object, object]", args))
    wrong = {
        shown(key): fault for key, each in fields.items() if (fault := _fault_of_field(key, each))
    }
    if wrong:
        raise ArgumentsError(name, wrong)
    try:
        text = _JSON.encode(fields)
    except (ValueError, TypeError, RecursionError):
        raise ArgumentsError(name, {"": "cannot be written as JSON"}) from None
    text = _floats_spelled_out(text)
    if len(text.encode()) > MAX_ARGS_BYTES:
        raise ArgumentsError(name, {"": TOO_LARGE})
    return text


def decode(text: str) -> dict[str, object]:
    """Read the arguments that a claim brought, as text.

    Raises ValueError without any value in its text: the database can hold JSON that
    Python refuses, such as a number of 5,000 digits.
    """
    try:
        args: object = json.loads(text)
    except (ValueError, RecursionError):
        message = "the arguments cannot be read as JSON here"
        raise ValueError(message) from None
    if not isinstance(args, dict):
        message = "the arguments are not a JSON object"
        raise ValueError(message)  # noqa: TRY004 - the text is wrong, not a type
    return cast("dict[str, object]", args)


def _floats_spelled_out(text: str) -> str:
    """Write 1e+23 as 99999999999999991611392.0: jsonb would give back the integer 10**23."""
    if "e+" not in text:
        return text
    return _WIDE_FLOAT.sub(
        lambda found: found[0] if found[0].startswith('"') else f"{float(found[0]):.1f}", text
    )


def _fault_of_field(key: object, value: object) -> str | None:
    if not isinstance(key, str):
        return "its key is not text"
    return _fault_of_text(key) or _fault(value)


def _fault(value: object) -> str | None:
    """Say what keeps `value` from being stored, walking it without recursion.

    The walk ends where the text would be too large: a list that holds itself twice doubles
    at each level.
    """
    if not isinstance(value, str | dict | list | tuple):
        return _fault_of_one(value, [])  # most are, and need no walk
    layer: list[object] = [value]
    walked = 0
    for _ in range(MAX_ARGS_DEPTH):
        below: list[object] = []
        for each in layer:
            walked += len(each) if isinstance(each, str) else 1
            if walked + len(below) > MAX_ARGS_BYTES:
                return TOO_LARGE
            fault = _fault_of_one(each, below)
            if fault:
                return fault
        if not below:
            return None
        layer = below
    return f"nested deeper than {MAX_ARGS_DEPTH} levels"


def _fault_of_one(value: object, below: list[object]) -> str | None:
    """Say what is wrong with one value, and add what it holds to `below`."""
    match value:
        case None | bool():
            pass
        case int():
            return "too large a number" if value.bit_length() > MAX_NUMBER_BITS else None
        case float():
            return None if math.isfinite(value) else "not a finite number"
        case str():
            return _fault_of_text(value)
        case dict():
            mapping = cast("dict[object, object]", value)
            if not all(isinstance(key, str) for key in mapping):
                return "holds a key that is not text"
            below.extend(mapping.keys())
            below.extend(mapping.values())
        case list() | tuple():
            below.extend(cast("list[object]", value))
        case _:
            return f"holds a value of type {type(value).__name__}, which JSON has not"
    return None


def _fault_of_text(text: str) -> str | None:
    if "\0" in text:
        return "holds a NUL character"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "holds half of a surrogate pair"
    return None


def shown(key: object) -> str:
    """Return the name of a field for an error's text, printable and short whatever was sent."""
    text = key if isinstance(key, str) else type(key).__name__
    return "".join(c if c.isprintable() else "\ufffd" for c in text[:60])
