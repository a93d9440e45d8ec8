"""The registry: which jobs there are, what handles them, and what fits as their arguments."""

import difflib
import inspect
import weakref
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal, NoReturn, TypeVar, cast, get_args
from uuid import UUID

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    create_model,
)
from pydantic_core import PydanticCustomError
from pydantic_core.core_schema import ErrorType

from queue_core.errors import ArgumentsError, DeclarationError, OptionError, UnknownNameError
from queue_core.jobs import MAX_ATTEMPTS, check_name, check_seconds, check_whole, shown

OnLost = Literal["attempts", "review"]
Function = TypeVar("Function", bound=Callable[..., object])
Around = Callable[[], AbstractContextManager[object]]

DEFAULT_QUEUE: Final = "default"
_CONFIG: Final = ConfigDict(extra="forbid", allow_inf_nan=False, arbitrary_types_allowed=True)
_REGISTRIES: Final[weakref.WeakSet["Registry"]] = weakref.WeakSet()


class RetryAfter(Exception):  # noqa: N818 - an instruction to the queue, not a kind of error
    """Raised by a handler: try this job again in `seconds`, if it has attempts left."""

    def __init__(self, seconds: float, reason: str = "") -> None:
        self.seconds = check_seconds(seconds, "RetryAfter", zero=True)
        super().__init__(reason or f"try again in {self.seconds:g} s")


class PermanentError(Exception):
    """Raised by a handler: this job fails for good, whatever attempts are left."""


class DeferRun(BaseException):
    """Ends a run that put its job back; raised by `run.defer`, never by hand."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        super().__init__()


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a job, as its handler sees it: the first parameter of every handler.

    `attempt` counts from 1. `key` is the same on every attempt: give it to outside
    services as their idempotency key.
    """

    id: UUID
    name: str
    attempt: int

    @property
    def key(self) -> str:
        """The job's own key for outside services, the same on every attempt."""
        return str(self.id)

    def defer(self, delay: float) -> NoReturn:
        """End this run and put the job back for `delay` seconds; the attempt is given back.

        Raises OptionError where `delay` is negative or not finite.
        """
        raise DeferRun(check_seconds(delay, "delay", zero=True))


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

    def validate(self, args: Mapping[str, object]) -> dict[str, object]:
        """Return the arguments as the handler takes them, converted to its annotations.

        Raises ArgumentsError, which names each field that does not fit, without values.
        """
        try:
            model = self.schema.model_validate(dict(args))
        except ValidationError as error:
            raise ArgumentsError(self.name, _faults(error)) from None
        except Exception as error:  # noqa: BLE001 - a check of the handler's own may raise any
            # Its text may be a value, such as a KeyError's is.
            fault = f"its own check failed with {type(error).__name__}"
            raise ArgumentsError(self.name, {"": fault}) from None
        given = {
            each.alias or name: cast("object", getattr(model, name))
            for name, each in self.schema.model_fields.items()
            if (each.alias or name) in args
        }
        return given | (model.model_extra or {})


class Registry:
    """The jobs of a service. `on_lost` is the default of every job declared in it."""

    def __init__(self, on_lost: OnLost = "attempts") -> None:
        """Make an empty registry, which `enqueue` finds by the names declared in it."""
        self._on_lost: OnLost = _check_on_lost(on_lost)
        self._handlers: dict[str, Handler] = {}
        self._arounds: list[Around] = []
        _REGISTRIES.add(self)

    def job(
        self,
        name: str,
        *,
        queue: str = DEFAULT_QUEUE,
        attempts: int = 1,
        time_limit: float | None = None,
        on_lost: OnLost | None = None,
        safe_to_repeat: bool = False,
    ) -> Callable[[Function], Function]:
        """Register the decorated function as the handler of jobs named `name`.

        Its first parameter is the run, the rest are the arguments. `attempts` is one
        unless given, since a retry repeats the work; `time_limit` is in seconds;
        `on_lost="review"` sends a job to a person whenever its run is lost or its child
        dies. Registering a name again replaces its handler. Raises DeclarationError.
        """

        def register(function: Function) -> Function:
            self._add(
                Handler(
                    name=name,
                    function=function,
                    schema=_schema_of(function, name),
                    queue=queue,
                    attempts=attempts,
                    time_limit=time_limit,
                    on_lost=self._on_lost if on_lost is None else on_lost,
                    safe_to_repeat=safe_to_repeat,
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
            message = f"job {name!r}: its schema must be a pydantic model"
            raise DeclarationError(message)
        self._add(Handler(name=name, function=None, schema=schema, queue=queue))

    def around(self, factory: Around) -> Around:
        """Enter the context manager that `factory()` makes round each run, in the child.

        Several nest in the order given, the first outermost. Usable as a decorator.
        """
        self._arounds.append(factory)
        return factory

    @property
    def arounds(self) -> tuple[Around, ...]:
        """The context manager factories, outermost first."""
        return tuple(self._arounds)

    @property
    def handlers(self) -> Mapping[str, Handler]:
        """Everything declared, by name."""
        return dict(self._handlers)

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
            _check_on_lost(handler.on_lost)
        except OptionError as error:
            message = f"job {handler.name!r}: {error}"
            raise DeclarationError(message) from None
        if any(handler.name in other._handlers for other in _REGISTRIES if other is not self):  # noqa: SLF001 - of its own class
            message = (
                f"job {handler.name!r} is declared in another registry of this process already"
            )
            raise DeclarationError(message)
        self._handlers[handler.name] = handler


def find(job: str | Callable[..., object]) -> Handler:
    """Return what is declared for a name or for a handler's function, in any registry here.

    Raises UnknownNameError with the nearest names.
    """
    declared = {name: each for registry in _REGISTRIES for name, each in registry.handlers.items()}
    if isinstance(job, str):
        found = declared.get(job)
        if found is None:
            raise UnknownNameError(job, difflib.get_close_matches(job, declared, n=3))
        return found
    for handler in declared.values():
        # Not `is`: a method is a new object each time it is named.
        if handler.function is not None and handler.function == job:
            return handler
    raise UnknownNameError(getattr(job, "__qualname__", type(job).__name__), ())


def _schema_of(function: Callable[..., object], name: str) -> type[BaseModel]:
    """Make the model of a handler's arguments from its signature."""
    parameters = list(_signature(function, name).parameters.values())
    if not parameters or parameters[0].kind not in _POSITIONAL:
        message = f"job {name!r}: its handler's first parameter must be the run"
        raise DeclarationError(message)
    fields: dict[str, Any] = {}
    config = _CONFIG
    for position, parameter in enumerate(parameters[1:]):
        if parameter.kind is parameter.VAR_KEYWORD:
            config = ConfigDict(_CONFIG, extra="allow")
            if parameters[0].kind is not parameter.POSITIONAL_ONLY:
                fields["run"] = (_Taken, Field(None, alias=parameters[0].name))
        elif parameter.kind in _BY_NAME:
            # By alias: a parameter may be called `json` or `_x`, a model's field may not.
            fields[f"argument_{position}"] = _field_of(parameter)
        else:
            message = f"job {name!r}: {parameter.name!r} cannot be given by name, as arguments are"
            raise DeclarationError(message)
    try:
        return create_model(name, __config__=config, **fields)
    except Exception as error:
        message = f"job {name!r}: its parameters cannot be checked: {type(error).__name__}"
        raise DeclarationError(message) from error


def _refuse(value: object) -> object:
    del value
    raise PydanticCustomError("extra_forbidden", "the run's own name")


_Taken = Annotated[object, BeforeValidator(_refuse)]
"""The name of the first parameter, which **kwargs would otherwise let through as an argument."""
_POSITIONAL: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_BY_NAME: Final = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def _signature(function: Callable[..., object], name: str) -> inspect.Signature:
    try:
        return inspect.signature(function, eval_str=True)
    except Exception as error:  # noqa: BLE001 - an annotation in quotes is code of any kind
        message = f"job {name!r}: the signature of its handler cannot be read: {error}"
        raise DeclarationError(message) from None


def _field_of(parameter: inspect.Parameter) -> tuple[object, object]:
    annotation = Any if parameter.annotation is parameter.empty else parameter.annotation
    default = ... if parameter.default is parameter.empty else parameter.default
    return annotation, Field(default, alias=parameter.name)


def _faults(error: ValidationError) -> dict[str, str]:
    """Name each field that does not fit and the rule it breaks.

    Not pydantic's own sentences: those of a handler's own validators can quote the value.
    """
    faults: dict[str, str] = {}
    for each in error.errors(include_url=False, include_context=False, include_input=False):
        # Only the first part: below it stand keys of the value itself.
        field_name = shown(each["loc"][0]) if each["loc"] else ""
        faults[field_name] = _RULES.get(each["type"]) or _rule(each["type"])
    return faults


def _rule(kind: str) -> str:
    """Return a rule's name in words where it is pydantic's own: another's could hold a value."""
    return kind.replace("_", " ") if kind in _KINDS else _RULES["value_error"]


_KINDS: Final = frozenset(get_args(ErrorType))
_RULES: Final = {
    "missing": "is missing",
    "extra_forbidden": "is not a parameter of the handler",
    "value_error": "is refused by the handler's own check",
    "assertion_error": "is refused by the handler's own check",
    "string_type": "must be text",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "list_type": "must be a list",
    "dict_type": "must be an object",
    "uuid_parsing": "must be a UUID",
    "literal_error": "must be one of the values that the handler allows",
}


def _is_model(schema: object) -> bool:
    return isinstance(schema, type) and issubclass(schema, BaseModel)


def _check_on_lost(on_lost: object) -> OnLost:
    if on_lost not in ("attempts", "review"):
        message = 'on_lost must be "attempts" or "review"'
        raise DeclarationError(message)
    return on_lost
