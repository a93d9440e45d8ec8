"""Jobs that do nothing, for what it costs to do them."""

import os
import struct
import time
from typing import Final

from queue_core import Registry, Run

MARKS: Final = "BENCH_MARKS"
"""The setting that names the file of `bench.mark`."""

jobs = Registry()


@jobs.job("bench.noop", safe_to_repeat=True)
def noop(run: Run, n: int) -> None:
    """Do nothing, and let a run be claimed ahead."""
    del run, n


@jobs.job("bench.careful")
def careful(run: Run, n: int) -> None:
    """Do nothing; a run is claimed only when a slot is free."""
    del run, n


@jobs.job("bench.mark")
def mark(run: Run, n: int) -> None:
    """Write when a run began, on the clock that all processes of a machine share."""
    del run
    began = struct.pack("qd", n, time.monotonic())
    file = os.open(os.environ[MARKS], os.O_WRONLY | os.O_APPEND)
    try:
        os.write(file, began)
    finally:
        os.close(file)
