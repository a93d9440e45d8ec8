"""One run in a child: arguments read, handler called, and whatever came of it as a value."""

import json
from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    ExitStack,
)
from dataclasses import replace
from traceback import clear_frames
from typing import Final, NamedTuple, cast

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
from queue_core.registry import Registry
from queue_core.run import DeferRun, PermanentError, RetryAfter, Run, Stopped
from queue_core.sharing import Manager
from queue_core.worker.describe import describe, headline
from queue_core.worker.messages import JobMessage

NOT_JSON: Final = "result is not JSON"
TOO_LARGE: Final = "result is larger than 64 KiB"
_UNSTORABLE: Final = ("\\u0000", "\\ud")
"""How NUL and halves of surrogate pairs begin where JSON is escaped to ASCII."""


def execute(job: JobMessage, registry: Registry) -> Ending:
    """Run one job to its end. Whatever its handler raises, SystemExit included, is an ending."""
    call = _prepared(job, registry)
    if not isinstance(call, _Call):
        return call
    return _made(call, registry) if registry.arounds else _made_bare(call)


async def execute_async(job: JobMessage, registry: Registry) -> Ending:
    """Run one job of an async handler to its end, as `execute` does.

    What is entered round it may be an async context manager.
    """
    call = _prepared(job, registry)
    return await _awaited(call, registry) if isinstance(call, _Call) else call


class _Call(NamedTuple):
    """A handler's function and what it is called with."""

    function: Callable[..., object]
    run: Run
    values: Mapping[str, object]


def _prepared(job: JobMessage, registry: Registry) -> _Call | Ending:
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
    return _Call(handler.function, Run(job.id, job.name, job.attempt, job.request), values)


def _made(call: _Call, registry: Registry) -> Ending:
    raised: BaseException | None = None
    result: object = None
    try:
        with ExitStack() as arounds:
            for factory in registry.arounds:
                arounds.enter_context(factory())  # type: ignore[arg-type] - else it fails the run
            try:
                result = call.function(call.run, **call.values)
            except BaseException as error:
                raised = error  # kept, since a context manager may swallow it
                raise
    except BaseException as error:  # noqa: BLE001 - exiting is a failure of the run, not of the child
        raised = error
    return _ending(raised, call.run) if raised is not None else _completed(result)


def _made_bare(call: _Call) -> Ending:
    """Do the same where nothing is entered round it, as nearly always."""
    try:
        result = call.function(call.run, **call.values)
    except BaseException as error:  # noqa: BLE001 - as above
        return _ending(error, call.run)
    return _completed(result)


async def _awaited(call: _Call, registry: Registry) -> Ending:
    raised: BaseException | None = None
    result: object = None
    try:
        async with AsyncExitStack() as arounds:
            for factory in registry.arounds:
                await _enter(arounds, factory())
            try:
                result = await cast("Awaitable[object]", call.function(call.run, **call.values))
            except BaseException as error:
                raised = error
                raise
    except BaseException as error:  # noqa: BLE001 - out of the loop it would end all other runs
        raised = error
    return _ending(raised, call.run) if raised is not None else _completed(result)


async def _enter(arounds: AsyncExitStack, manager: Manager) -> None:
    if isinstance(manager, AbstractAsyncContextManager):
        await arounds.enter_async_context(manager)
    else:
        arounds.enter_context(manager)


def _ending(raised: BaseException, run: Run) -> Ending:
    match raised:
        case Stopped() | CancelledError() if _has_stopped(raised, run):
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


def _has_stopped(raised: Stopped | CancelledError, run: Run) -> bool:
    """Say whether a run ended since it was asked to, by its own will or at its `await`."""
    why = run.stop_requested()
    return why == "cancelled" if isinstance(raised, CancelledError) else why is not None


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
