"""The registry: which jobs there are and what handles them."""

import difflib
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal, TypeVar

from pydantic import BaseModel, ValidationError

from queue_core.arguments import faults_of, names_of, schema_of
from queue_core.errors import ArgumentsError, DeclarationError, OptionError, UnknownNameError
from queue_core.jobs import (
    MAX_ATTEMPTS,
    TEXTS,
    NewJob,
    check_moment,
    check_name,
    check_seconds,
    check_text,
    check_whole,
    decode,
    encode,
)
from queue_core.rules import Schedule, interval
from queue_core.sharing import Around, Shares, shares_of

OnLost = Literal["attempts", "review"]
Function = TypeVar("Function", bound=Callable[..., object])

DEFAULT_QUEUE: Final = "default"
MOST_AT_ONCE: Final = 1_000_000
_REGISTRIES: Final[weakref.WeakSet["Registry"]] = weakref.WeakSet()


@dataclass(frozen=True, slots=True)
class Handler:
    """What is declared under a name; `function` is None where another service handles it."""

    name: str
    function: Callable[..., object] | None
    schema: type[BaseModel] = field(repr=False)
    queue: str = DEFAULT_QUEUE
    attempts: int = 1
    time_limit: float | None = None
    on_lost: OnLost = "attempts"
    safe_to_repeat: bool = False
    limit: int | None = None
    shares: Shares | None = None
    effects: str | None = None
    how_to_check: str | None = None
    owner: str | None = None
    runbook: str | None = None

    def validate(self, args: Mapping[str, object]) -> dict[str, object]:
        """Return the arguments as the handler takes them, converted to its annotations.

        Raises ArgumentsError, which names each field that does not fit, without values.
        """
        model = self._model(args)
        given: dict[str, object] = {
            said: getattr(model, name) for name, said in names_of(self.schema) if said in args
        }
        return given | model.model_extra if model.model_extra else given

    def encode(self, args: Mapping[str, object]) -> str:
        """Return the arguments as text, once it is known that they fit. Raises ArgumentsError."""
        text = encode(self.name, args)
        self._model(decode(text))  # as the run will get them: a tuple is a list by then
        return text

    def _model(self, args: Mapping[str, object]) -> BaseModel:
        try:
            return self.schema.model_validate(dict(args))
        except ValidationError as error:
            raise ArgumentsError(self.name, faults_of(error)) from None
        except Exception as error:  # noqa: BLE001 - a check of the handler's own may raise any
            # Its text may be a value, such as a KeyError's is.
            fault = f"its own check failed with {type(error).__name__}"
            raise ArgumentsError(self.name, {"": fault}) from None


@dataclass(frozen=True, slots=True)
class _Every:
    """A schedule as declared; its job's handler may be declared after it."""

    seconds: float
    first_at: datetime | None
    job: NewJob


class Registry:
    """The jobs of a service. `on_lost` is the default of every job declared in it."""

    def __init__(self, on_lost: OnLost = "attempts") -> None:
        """Make an empty registry, which `enqueue` finds by the names declared in it."""
        self._on_lost: OnLost = _check_on_lost(on_lost)
        self._handlers: dict[str, Handler] = {}
        self._arounds: list[Around] = []
        self._schedules: dict[str, _Every] = {}
        _REGISTRIES.add(self)

    def job(  # noqa: PLR0913 - all that may be said of a job, each by its name
        self,
        name: str,
        *,
        queue: str = DEFAULT_QUEUE,
        attempts: int = 1,
        time_limit: float | None = None,
        on_lost: OnLost | None = None,
        safe_to_repeat: bool = False,
        limit: int | None = None,
        threads: bool = False,
        effects: str | None = None,
        how_to_check: str | None = None,
        owner: str | None = None,
        runbook: str | None = None,
    ) -> Callable[[Function], Function]:
        """Register the decorated function as the handler of jobs named `name`.

        Its first parameter is the run, the rest are the arguments. `attempts` is one
        unless given, since a retry repeats the work; `time_limit` is in seconds;
        `on_lost="review"` sends a job to a person whenever its run is lost or its child
        dies. `safe_to_repeat` says that a run may be done twice, so that runs may be claimed
        ahead; at most `limit` runs of the name go on at once in a worker. A run has a process
        alone, unless the function is async or `threads` lets it share one. What a run does
        outside, how to check whether it did, whose job it is and where its runbook is are
        texts of at most 500 characters for people who have to decide. Registering a name again
        replaces its handler. Raises DeclarationError.
        """

        def register(function: Function) -> Function:
            self._add(
                Handler(
                    name=name,
                    function=function,
                    schema=schema_of(function, name),
                    queue=queue,
                    attempts=attempts,
                    time_limit=time_limit,
                    on_lost=self._on_lost if on_lost is None else on_lost,
                    safe_to_repeat=safe_to_repeat,
                    limit=limit,
                    shares=shares_of(function, name, threads=threads),
                    effects=effects,
                    how_to_check=how_to_check,
                    owner=owner,
                    runbook=runbook,
                )
            )
            return function

        return register

    def declare(
        self,
        name: str,
        *,
        schema: type[BaseModel],
        queue: str = DEFAULT_QUEUE,
    ) -> None:
        """Declare jobs named `name` that another service handles.

        `schema` is a pydantic model of the arguments; enqueue checks against it. Raises
        DeclarationError.
        """
        if not _is_model(schema):
            raise DeclarationError(f"job {name!r}: its schema must be a pydantic model")
        self._add(Handler(name=name, function=None, schema=schema, queue=queue))

    def around(self, factory: Around) -> Around:
        """Enter the context manager that `factory()` makes round each run, in the child.

        Round async handlers it may be an async one. Several nest in the order given, the
        first outermost. Usable as a decorator.
        """
        self._arounds.append(factory)
        return factory

    def every(
        self,
        name: str,
        *,
        seconds: float | None = None,
        minutes: float | None = None,
        hours: float | None = None,
        days: float | None = None,
        first_at: datetime | None = None,
        job: NewJob,
    ) -> None:
        """Enqueue `job` every interval, under the schedule name `name`.

        The interval is the sum of the units given, at least a second. `first_at`, an aware
        datetime, is the first due time and counts only when the schedule is new to the
        database; without it that is at once. The name keys the schedule's row: keep it over
        releases. A delay or `run_at` of the job is ignored. Raises DeclarationError, also
        for a name declared twice in this process.
        """
        try:
            check_name(name, "a schedule's name")
            length = interval(seconds=seconds, minutes=minutes, hours=hours, days=days)
            if first_at is not None:
                check_moment(first_at, "first_at")
        except OptionError as error:
            raise DeclarationError(f"schedule {name!r}: {error}") from None
        if any(name in registry._schedules for registry in _REGISTRIES):  # noqa: SLF001 - of its own class
            raise DeclarationError(f"schedule {name!r} is declared in this process already")
        self._schedules[name] = _Every(length, first_at, job)

    @property
    def schedules(self) -> tuple[Schedule, ...]:
        """Every schedule declared, its job checked against what is declared under its name.

        Raises UnknownNameError and ArgumentsError.
        """
        return tuple(_resolved(name, each) for name, each in self._schedules.items())

    @property
    def arounds(self) -> tuple[Around, ...]:
        """The context manager factories, outermost first."""
        return tuple(self._arounds)

    @property
    def handlers(self) -> Mapping[str, Handler]:
        """Everything declared, by name."""
        return dict(self._handlers)

    def declared(self, name: str) -> Handler | None:
        """What is declared under a name here, if anything is."""
        return self._handlers.get(name)

    def handled(self) -> list[str]:
        """Return the names that have a handler here, sorted."""
        return sorted(name for name, each in self._handlers.items() if each.function)

    def _add(self, handler: Handler) -> None:
        try:
            check_name(handler.name, "a job's name")
            check_name(handler.queue, "a queue's name")
            check_whole(handler.attempts, "attempts", 1, MAX_ATTEMPTS)
            if handler.time_limit is not None:
                check_seconds(handler.time_limit, "time_limit")
            if handler.limit is not None:
                check_whole(handler.limit, "limit", 1, MOST_AT_ONCE)
            _check_on_lost(handler.on_lost)
            for what in TEXTS:
                check_text(getattr(handler, what), what)
        except OptionError as error:
            raise DeclarationError(f"job {handler.name!r}: {error}") from None
        if any(handler.name in other._handlers for other in _REGISTRIES if other is not self):  # noqa: SLF001 - of its own class
            raise DeclarationError(
                f"job {handler.name!r} is declared in another registry of this process already"
            )
        self._handlers[handler.name] = handler


def find(job: str | Callable[..., object]) -> Handler:
    """Return what is declared for a name or for a handler's function, in any registry here.

    Raises UnknownNameError with the nearest names.
    """
    if isinstance(job, str):
        for registry in _REGISTRIES:
            if found := registry.declared(job):
                return found
    known = {name: each for registry in _REGISTRIES for name, each in registry.handlers.items()}
    if isinstance(job, str):
        raise UnknownNameError(job, difflib.get_close_matches(job, known, n=3))
    for handler in known.values():
        # Not `is`: a method is a new object each time it is named.
        if handler.function is not None and handler.function == job:
            return handler
    raise UnknownNameError(getattr(job, "__qualname__", type(job).__name__), ())


def _resolved(name: str, each: _Every) -> Schedule:
    handler = find(each.job.name)
    return Schedule(
        name=name,
        every=each.seconds,
        first_at=each.first_at,
        job=each.job.name,
        queue=each.job.queue or handler.queue,
        args=handler.encode(each.job.args),
        priority=each.job.priority,
        attempts=each.job.attempts,
        time_limit=None if each.job.time_limit is None else float(each.job.time_limit),
    )


def _is_model(schema: object) -> bool:
    return isinstance(schema, type) and issubclass(schema, BaseModel)


def _check_on_lost(on_lost: object) -> OnLost:
    if on_lost not in ("attempts", "review"):
        raise DeclarationError('on_lost must be "attempts" or "review"')
    return on_lost
