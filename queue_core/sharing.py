"""What the runs of a name share in the process that runs them."""

import inspect
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Final, Literal, get_args

from queue_core.errors import DeclarationError

Shares = Literal["loop", "threads"]
"""An event loop, or the process alone, each run in a thread of it."""
Manager = AbstractContextManager[object] | AbstractAsyncContextManager[object]
Around = Callable[[], Manager]
"""Makes what is entered round each run; round those of an event loop it may be an async one."""
MOST_SHARING: Final = 1_000
"""Runs at once in one process."""
SHARES: Final[tuple[Shares | None, ...]] = (None, *get_args(Shares))


def shares_of(function: Callable[..., object], name: str, *, threads: bool) -> Shares | None:
    """Return what runs of a handler share with others; None where each has its process alone.

    Raises DeclarationError where `threads` is asked for a coroutine function.
    """
    is_async = _makes(inspect.iscoroutinefunction, function)
    if threads and is_async:
        message = f"job {name!r}: an async handler shares an event loop, not threads"
        raise DeclarationError(message)
    if is_async:
        return "loop"
    return "threads" if threads else None


def is_generator(function: Callable[..., object] | None) -> bool:
    """Say whether calling a handler only makes a generator, so that nothing would run."""
    return _makes(inspect.isgeneratorfunction, function) or _makes(
        inspect.isasyncgenfunction, function
    )


def _makes(is_such: Callable[[object], bool], function: object) -> bool:
    """Say whether a function, or the call of an object that can be called, is such a one."""
    if inspect.isroutine(function) or function is None:
        return is_such(function)
    return is_such(function) or is_such(getattr(type(function), "__call__", None))  # noqa: B004 - looks at what it is
