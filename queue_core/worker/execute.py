"""One run in a child: arguments read, handler called, and whatever came of it as a value."""

import json
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from traceback import clear_frames
from typing import Final, cast

from queue_core import outcomes
from queue_core.errors import ArgumentsError, OptionError
from queue_core.jobs import check_seconds, decode
from queue_core.outcomes import (
    MAX_RESULT_BYTES,
    Completed,
    Deferred,
    Ending,
    Failed,
    Unreadable,
    storable,
)
from queue_core.registry import Handler, Registry
from queue_core.run import DeferRun, PermanentError, RetryAfter, Run, Stopped
from queue_core.worker.describe import describe, headline
from queue_core.worker.messages import JobMessage

NOT_JSON: Final = "result is not JSON"
TOO_LARGE: Final = "result is larger than 64 KiB"
_UNSTORABLE: Final = ("\\u0000", "\\ud")
"""How NUL and halves of surrogate pairs begin where JSON is escaped to ASCII."""


def execute(job: JobMessage, registry: Registry) -> Ending:
    """Run one job to its end. Whatever its handler raises, SystemExit included, is an ending."""
    try:
        args = decode(job.args)
    except ValueError as error:
        return Unreadable(str(error))
    handler = registry.handlers.get(job.name)
    if handler is None or handler.function is None:
        return Failed("this worker's code has no handler of that name", retryable=False)
    try:
        values = handler.validate(args)
    except ArgumentsError as error:
        # Its text names fields and rules; a traceback would only show our own code.
        return Failed(str(error), retryable=False, error_type="ArgumentsError")
    except Exception as error:  # noqa: BLE001 - a handler's own checks may raise anything
        return replace(describe(error), retryable=False)
    return _call(handler, Run(job.id, job.name, job.attempt, job.request), values, registry)


def _call(handler: Handler, run: Run, values: Mapping[str, object], registry: Registry) -> Ending:
    raised: BaseException | None = None
    result: object = None
    try:
        with ExitStack() as arounds:
            for factory in registry.arounds:
                arounds.enter_context(factory())
            try:
                result = cast("object", handler.function(run, **values))  # type: ignore[misc]
            except BaseException as error:
                raised = error  # kept, since a context manager may swallow it
                raise
    except BaseException as error:  # noqa: BLE001 - exiting is a failure of the run, not of the child
        raised = error
    return _ending(raised, run) if raised is not None else _completed(result)


def _ending(raised: BaseException, run: Run) -> Ending:
    match raised:
        case Stopped() if run.stop_requested():
            return outcomes.Stopped(headline(raised))
        case DeferRun():
            return Deferred(raised.seconds)
        case PermanentError():
            return replace(describe(raised), retryable=False)
        case RetryAfter():
            return replace(describe(raised), retry_after=_seconds(raised))
        case MemoryError():
            clear_frames(raised.__traceback__)  # what they hold leaves no room to tell of it
            return describe(raised)
        case _:
            return describe(raised)


def _seconds(raised: RetryAfter) -> float | None:
    try:
        return check_seconds(raised.seconds, "RetryAfter", zero=True)
    except (OptionError, AttributeError):  # a subclass that never called ours
        return None


def _completed(result: object) -> Ending:
    if result is None:
        return Completed()
    try:
        text = _encode(result)
    except MemoryError:
        return Failed(TOO_LARGE, retryable=False)
    except Exception:  # noqa: BLE001 - also what the result's own methods raise
        return Failed(NOT_JSON, retryable=False)
    if len(text.encode()) > MAX_RESULT_BYTES:
        return Failed(TOO_LARGE, retryable=False)
    return Completed(text)


def _encode(result: object) -> str:
    """Return `result` as JSON that Postgres can keep: what it cannot is replaced by U+FFFD."""
    escaped = json.dumps(result, allow_nan=False)
    if any(mark in escaped for mark in _UNSTORABLE):
        result = _stored(json.loads(escaped))
    return json.dumps(result, allow_nan=False, ensure_ascii=False, separators=(",", ":"))


def _stored(value: object) -> object:
    match value:
        case str():
            return storable(value)
        case list():
            return [_stored(each) for each in cast("list[object]", value)]
        case dict():
            pairs = cast("dict[str, object]", value).items()
            return {storable(key): _stored(each) for key, each in pairs}
        case _:
            return value
