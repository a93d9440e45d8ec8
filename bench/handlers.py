"""Jobs that do nothing, for what it costs to do them."""

import os
import struct
import time
from typing import Final

from queue_core import Registry, Run

MARKS: Final = "BENCH_MARKS"
"""The setting that names the file of `bench.mark`."""

LONG: Final = "bench.long"
AGAIN: Final = "bench.again"

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
    _note(n)


@jobs.job(LONG)
def long(run: Run, seconds: float) -> None:
    """Keep a slot."""
    del run
    time.sleep(seconds)


@jobs.job(AGAIN, attempts=3)
def again(run: Run, seconds: float) -> None:
    """Write which attempt begins and when, and keep a slot."""
    _note(run.attempt)
    time.sleep(seconds)


def _note(n: int) -> None:
    began = struct.pack("qd", n, time.monotonic())
    file = os.open(os.environ[MARKS], os.O_WRONLY | os.O_APPEND)
    try:
        os.write(file, began)
    finally:
        os.close(file)
