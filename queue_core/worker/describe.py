"""What a handler raised, as text that can be stored and shown: never a value of an argument."""

import traceback as tracebacks
from collections.abc import Callable, Iterator
from itertools import islice
from types import FrameType, TracebackType
from typing import Final, TypeVar, cast

import psycopg
from pydantic import ValidationError

from queue_core.outcomes import MAX_TRACEBACK_BYTES, Failed, cut, cut_middle

Value = TypeVar("Value")

MAX_NAME_BYTES: Final = 400
MOST_LINKS: Final = 20
MOST_GROUPED: Final = 15
MOST_LEVELS: Final = 5
MOST_FRAMES: Final = 2_000
MOST_CHARACTERS: Final = 20_000
"""Of one exception's text: the limits of what is stored are applied after that."""
_CAUSE: Final = "\nThe above exception was the direct cause of the following exception:\n\n"
_CONTEXT: Final = "\nDuring handling of the above exception, another exception occurred:\n\n"
_OURS: Final = ("queue_core.worker.execute", "contextlib")


def describe(error: BaseException) -> Failed:
    """Return the failure that `error` stands for, whatever kind of object it is.

    The error's text is "<Type>: <text>"; what psycopg and pydantic say is replaced by
    what carries no values. The traceback has its causes, and no locals.
    """
    return Failed(
        error=cut(headline(error)),
        error_type=cut(_safely(lambda: _full_name(error), "unknown"), MAX_NAME_BYTES),
        error_place=_safely(lambda: _place(error), None),
        traceback=_safely(lambda: cut_middle(_report(error), MAX_TRACEBACK_BYTES), None),
    )


def headline(error: BaseException) -> str:
    """Return "<Type>: <text>" of an exception, without values that psycopg or pydantic carry."""
    text = _safely(lambda: _text(error), "its text cannot be read")
    name = _safely(lambda: _name(type(error)), "unknown")
    return f"{name}: {text}" if text else name


def _text(error: BaseException) -> str:
    match error:
        case psycopg.Error():
            return _database_text(error)
        case ValidationError():
            return _validation_text(error)
        case _:
            wrapped: object = getattr(error, "orig", None)
            if isinstance(wrapped, psycopg.Error):  # SQLAlchemy adds the statement's parameters
                return f"{_name(type(wrapped))}: {_database_text(wrapped)}"
            # Plain text even where __str__ returned a subclass of str with ways of its own.
            return str.__getitem__(str(error), slice(MOST_CHARACTERS))


def _database_text(error: psycopg.Error) -> str:
    """Name what Postgres names; its sentences quote values."""
    diagnosis = error.diag
    named = {
        "constraint": diagnosis.constraint_name,
        "table": diagnosis.table_name,
        "column": diagnosis.column_name,
    }
    said = [f"{what} {name}" for what, name in named.items() if name]
    return ", ".join([f"SQLSTATE {error.sqlstate}", *said]) if error.sqlstate else ""


def _validation_text(error: ValidationError) -> str:
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    # Only the first part of each place: below it stand keys of the value itself.
    said = [f"{fault['loc'][0] if fault['loc'] else 'all'} ({fault['type']})" for fault in faults]
    return ", ".join(said[:MOST_GROUPED])[:MOST_CHARACTERS]


def _report(error: BaseException) -> str:
    """Return the traceback of an exception, after those that led to it."""
    return "".join(reversed(list(_links(error))))


def _links(error: BaseException) -> Iterator[str]:
    """Yield the newest exception's block first, then what stands between it and its cause."""
    seen: set[int] = set()
    link: BaseException | None = error
    for _ in range(MOST_LINKS):
        if link is None or id(link) in seen:
            return
        seen.add(id(link))
        yield _block(link, 0)
        cause = link.__cause__
        context = None if link.__suppress_context__ else link.__context__
        link = cause or context
        if link is not None and id(link) not in seen:
            yield _CAUSE if cause else _CONTEXT


def _block(error: BaseException, level: int) -> str:
    frames = _safely(lambda: _frames(error.__traceback__), "")
    head = "Traceback (most recent call last):\n" if frames else ""
    notes = _safely(lambda: _notes(error), "")
    return f"{head}{frames}{headline(error)}\n{notes}{_grouped(error, level)}"


def _frames(trace: TracebackType | None) -> str:
    walked = islice(_walk(trace), MOST_FRAMES)
    stack = tracebacks.StackSummary.extract(walked)
    return "".join(stack.format())


def _walk(trace: TracebackType | None) -> Iterator[tuple[FrameType, int]]:
    """Yield the frames of the handler, without those by which we came to it."""
    began = False
    for frame, line in tracebacks.walk_tb(trace):
        began = began or frame.f_globals.get("__name__") not in _OURS
        if began:
            yield frame, line


def _notes(error: BaseException) -> str:
    notes: object = getattr(error, "__notes__", ())
    if not isinstance(notes, list):
        return ""
    texts = [note for note in cast("list[object]", notes)[:MOST_GROUPED] if isinstance(note, str)]
    return "".join(f"{text[:MOST_CHARACTERS]}\n" for text in texts)


def _grouped(error: BaseException, level: int) -> str:
    if not isinstance(error, BaseExceptionGroup) or level >= MOST_LEVELS:
        return ""
    group = cast("BaseExceptionGroup[BaseException]", error)
    members = _safely(lambda: group.exceptions[:MOST_GROUPED], ())
    blocks = [f"--- {n} of {error.message[:80]} ---\n" for n in range(1, len(members) + 1)]
    return "".join(
        head + _indented(_block(member, level + 1))
        for head, member in zip(blocks, members, strict=True)
    )


def _indented(block: str) -> str:
    return "".join(f"  {line}\n" for line in block.splitlines())


def _place(error: BaseException) -> str | None:
    """Name the innermost frame as module:function."""
    innermost = None
    for frame, _ in tracebacks.walk_tb(error.__traceback__):
        innermost = frame
    if innermost is None:
        return None
    module = innermost.f_globals.get("__name__", "unknown")
    return cut(f"{module}:{innermost.f_code.co_qualname}", MAX_NAME_BYTES)


def _full_name(error: BaseException) -> str:
    kind = type(error)
    module = cast("object", kind.__module__)
    if not isinstance(module, str) or module == "builtins":
        return _name(kind)
    return f"{module}.{kind.__qualname__}"


def _name(kind: type[BaseException]) -> str:
    return kind.__name__


def _safely(read: Callable[[], Value], otherwise: Value) -> Value:
    """Return what `read` finds: a handler's exception may raise anything from anywhere."""
    try:
        return read()
    except BaseException:  # noqa: BLE001 - also SystemExit, out of somebody's __str__
        return otherwise
