"""Runs a worker as its command does, with constants changed where a test cannot wait for them."""

import atexit
import importlib
import json
import os
import sys
from contextlib import suppress

from queue_core.worker import WorkerOptions, run_worker


def main(options: dict[str, object], constants: dict[str, float]) -> int:
    for path, value in constants.items():
        module, _, name = path.rpartition(".")
        if not module.startswith("queue_core."):
            module = f"queue_core.worker.{module}"
        holder = importlib.import_module(module)
        getattr(holder, name)  # one that moved elsewhere would change nothing
        setattr(holder, name, value)
    return run_worker(WorkerOptions(**options))  # pyright: ignore[reportArgumentType]


def _say_goodbye() -> None:
    with suppress(OSError):
        os.write(2, b"left as a process should\n")


if __name__ == "__main__":
    atexit.register(_say_goodbye)
    sys.exit(main(json.loads(sys.argv[1]), json.loads(sys.argv[2])))
