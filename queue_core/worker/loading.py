"""The jobs that a child was named: imported, looked at, and what it says of them first."""

import importlib
from dataclasses import fields
from types import ModuleType

from queue_core.errors import CountersignError
from queue_core.handlers import Declared
from queue_core.registry import Registry
from queue_core.sharing import is_generator
from queue_core.transitions.claim import Claimable
from queue_core.worker.frames import FrameError
from queue_core.worker.messages import Hello, child_frame


class UnusableError(Exception):
    """The jobs that were named cannot be used; the text says why."""


def load(jobs: str) -> Registry:
    """Import `MODULE[:REGISTRY]` and return its registry.

    Raises UnusableError where there is none, or several and none was named.
    """
    module_name, _, name = jobs.partition(":")
    module = importlib.import_module(module_name)
    registry = _named(module, name) if name else _only(module)
    if not registry.handled():
        raise UnusableError(f"the registry of {jobs!r} has no handlers")
    for handler in registry.handlers.values():
        if is_generator(handler.function):
            raise UnusableError(
                f"the handler of {handler.name!r} is a generator: nothing would run"
            )
    return registry


def _named(module: ModuleType, name: str) -> Registry:
    found: object = getattr(module, name, None)
    if not isinstance(found, Registry):
        raise UnusableError(f"module {module.__name__!r} has no registry called {name!r}")
    return found


def _only(module: ModuleType) -> Registry:
    found = {name: value for name, value in vars(module).items() if isinstance(value, Registry)}
    if len({id(registry) for registry in found.values()}) == 1:
        return next(iter(found.values()))
    if not found:
        raise UnusableError(f"module {module.__name__!r} has no registry of jobs")
    listed = ", ".join(f"{module.__name__}:{name}" for name in found)
    raise UnusableError(f"module {module.__name__!r} has several registries: name one of {listed}")


def hello(registry: Registry) -> Hello:
    """Return what a child says of its jobs first.

    Raises UnusableError for a schedule whose job does not fit, and where it is too much to say.
    """
    try:
        said = Hello(_offers(registry), registry.schedules, _declared(registry))
        child_frame(said)
    except CountersignError as error:
        raise UnusableError(f"a schedule cannot be used: {error}") from None
    except FrameError:
        raise UnusableError(
            "the arguments of all schedules and the texts of all handlers together are over 1 MiB"
        ) from None
    return said


def _offers(registry: Registry) -> tuple[Claimable, ...]:
    handlers = [registry.handlers[name] for name in registry.handled()]
    return tuple(
        Claimable(
            each.name,
            each.attempts,
            each.on_lost,
            each.time_limit,
            each.limit,
            each.safe_to_repeat,
            each.shares,
        )
        for each in handlers
    )


def _declared(registry: Registry) -> tuple[Declared, ...]:
    handlers = [registry.handlers[name] for name in registry.handled()]
    return tuple(
        Declared(**{each.name: getattr(handler, each.name) for each in fields(Declared)})
        for handler in handlers
    )
