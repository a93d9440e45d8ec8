"""The worker: a supervisor, and the processes in which handlers run."""

from importlib import import_module
from typing import TYPE_CHECKING

from queue_core.worker.options import WorkerOptions

if TYPE_CHECKING:
    from queue_core.worker.start import run_one, run_worker

__all__ = ["WorkerOptions", "run_one", "run_worker"]


def __getattr__(name: str) -> object:
    # What starts a worker is imported by whoever starts one: each child would pay for it.
    if name not in __all__:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    return getattr(import_module("queue_core.worker.start"), name)
