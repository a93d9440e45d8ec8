"""The console: a Flask app that shows the queue, and signs what people do to it."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from console.app import Countersign, create_app

__all__ = ["Countersign", "create_app"]


def __getattr__(name: str) -> object:
    # The command line is in this package, too, and would import every page for nothing.
    if name not in __all__:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    return getattr(import_module("console.app"), name)
