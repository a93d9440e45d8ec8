"""What fits as the arguments of a job: a model made from its handler's signature."""

import inspect
from collections.abc import Callable, Sequence
from functools import cache
from typing import Annotated, Any, Final, get_args

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

from queue_core.errors import DeclarationError
from queue_core.jobs import shown

_CONFIG: Final = ConfigDict(extra="forbid", allow_inf_nan=False, arbitrary_types_allowed=True)


def schema_of(function: Callable[..., object], name: str) -> type[BaseModel]:
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


@cache
def names_of(schema: type[BaseModel]) -> Sequence[tuple[str, str]]:
    """Return a model's fields, each with the name that arguments have for it; asked at each run."""
    return [(name, each.alias or name) for name, each in schema.model_fields.items()]


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


def faults_of(error: ValidationError) -> dict[str, str]:
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
