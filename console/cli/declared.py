"""Importing the module that declares the jobs, so that arguments are checked against it."""

import importlib
import sys
from pathlib import Path

from console.cli.failures import Mistake
from queue_core import Registry


def declare(jobs: str) -> None:
    """Import `MODULE[:REGISTRY]` from the working directory or the environment."""
    module_name, _, registry_name = jobs.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a module may raise anything
        sentence = f"--jobs: the module cannot be imported: {type(error).__name__}: {error}"
        raise Mistake(sentence.partition("\n")[0]) from None
    if registry_name and not isinstance(getattr(module, registry_name, None), Registry):
        raise Mistake("--jobs: the module has no registry of that name")
