"""How soon a job is back at work after `kill -9` of its worker: `python -m bench.recovery [CASE…]`.

`elsewhere`: another worker takes it over, with `QUEUE_STALE_AFTER=30`. Both are on this machine,
so the row of the one that is killed is told to be of another host: nobody may then judge it by its
process. `same host`: a worker is started again at the moment of the kill, with the defaults.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from bench import harness
from bench.drain import children, start
from bench.handlers import MARKS, again
from bench.pickup import MARK
from queue_core import enqueue
from queue_core.embedded import Server

BENCH: Final = "recovery"
STALE_SECONDS: Final = 30
LONG_SECONDS: Final = 600.0
LOOK_SECONDS: Final = 0.01
GIVE_UP_SECONDS: Final = 120.0

OF_ANOTHER_HOST: Final = """
UPDATE countersign.workers SET host = 'elsewhere', boot_id = 'another'
"""
LIVE: Final = """
SELECT count(*) AS live FROM countersign.workers
WHERE workers.stopped_at IS NULL AND workers.lost_at IS NULL
"""


class Ward:
    """A database whose workers are killed, and what their runs wrote down."""

    def __init__(self, bench: harness.Bench, stack: ExitStack) -> None:
        self.owner = bench.owner()
        self.marks = bench.folder / "marks"
        self.marks.write_bytes(b"")
        self._bench = bench
        self._stack = stack

    def start(self, **settings: str) -> subprocess.Popen[bytes]:
        """Start a worker, to be killed at the end."""
        process = start(self._bench, 1, **{MARKS: str(self.marks)}, **settings)
        self._stack.callback(kill, process)
        return process

    def wait(self, runs: int) -> float:
        """Wait until so many runs have begun; returns when the last of them did."""
        give_up = time.monotonic() + GIVE_UP_SECONDS
        while self.marks.stat().st_size < runs * MARK.size:
            if time.monotonic() > give_up:
                raise TimeoutError(f"run {runs} did not begin in {GIVE_UP_SECONDS:.0f} seconds")
            time.sleep(LOOK_SECONDS)
        return max(began for _, began in MARK.iter_unpack(self.marks.read_bytes()))

    def wait_for_workers(self, count: int) -> None:
        """Wait until so many are at work."""
        while (self.owner.execute(LIVE).fetchone() or {})["live"] < count:
            time.sleep(LOOK_SECONDS)


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a worker, and only then what it leaves behind."""
    if process.poll() is not None:
        return
    left = children(process.pid)
    process.kill()
    process.wait()
    for child in left:
        if Path(f"/proc/{child}").exists():
            os.kill(child, signal.SIGKILL)


def elsewhere(ward: Ward) -> float:
    """Return the seconds until the other worker has it."""
    first = ward.start(QUEUE_STALE_AFTER=str(STALE_SECONDS))
    enqueue(ward.owner, again, {"seconds": LONG_SECONDS})
    ward.wait(1)
    ward.owner.execute(OF_ANOTHER_HOST)
    ward.start(QUEUE_STALE_AFTER=str(STALE_SECONDS))
    ward.wait_for_workers(2)
    return _seconds_after_killing(first, ward)


def same_host(ward: Ward) -> float:
    """Return the seconds until the worker that is started in its place has it."""
    first = ward.start()
    enqueue(ward.owner, again, {"seconds": LONG_SECONDS})
    ward.wait(1)
    return _seconds_after_killing(first, ward, then=ward.start)


def _seconds_after_killing(
    process: subprocess.Popen[bytes], ward: Ward, then: Callable[[], object] = lambda: None
) -> float:
    killed = time.monotonic()
    process.kill()
    process.wait()
    then()
    return ward.wait(2) - killed


CASES: Final[dict[str, Callable[[Ward], float]]] = {
    "elsewhere": elsewhere,
    "same host": same_host,
}
LABELS: Final = {
    "elsewhere": f"another worker, QUEUE_STALE_AFTER={STALE_SECONDS}",
    "same host": "started again on the same host, defaults",
}


def measure(at: Server, case: str) -> None:
    """Measure one case and print it."""
    with harness.database(at, "recovery") as bench, ExitStack() as stack:
        harness.report(BENCH, LABELS[case], CASES[case](Ward(bench, stack)), "s")


def main(chosen: list[str]) -> None:
    """Measure the cases that are named: all, if there are none."""
    with harness.server() as at:
        for case in chosen or CASES:
            measure(at, case)


if __name__ == "__main__":
    main(sys.argv[1:])
