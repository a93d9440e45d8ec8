"""How soon an idle worker begins a job, and what it asks of its database while there is none.

`python -m bench.pickup [JOBS]`: one job every 20 ms, from the return of its committed enqueue to
the first line of its handler, by the clock that all processes share. Beside it, before and after
on the same server, what a bare NOTIFY takes from its commit to a thread that listens. Then how many
transactions the worker asks for while nothing is enqueued, and what its processes have in memory.
"""

import signal
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench import harness
from bench.drain import children, start
from bench.handlers import MARKS
from queue_core import enqueue

BENCH: Final = "pickup"
JOBS: Final = 300
EVERY_SECONDS: Final = 0.02
SETTLE_SECONDS: Final = 4.0
IDLE_SECONDS: Final = 30.0
MARK: Final = struct.Struct("qd")
PERCENTS: Final = (0.5, 0.95, 0.99, 1.0)
KIB: Final = 1024


@contextmanager
def worker(bench: harness.Bench, marks: Path) -> Iterator[int]:
    """Run a worker until the end of the block; gives its pid once it has nothing to do."""
    process = start(bench, 1, **{MARKS: str(marks)})
    try:
        time.sleep(SETTLE_SECONDS)
        yield process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def picked_up(bench: harness.Bench, marks: Path, count: int) -> list[float]:
    """Enqueue jobs one by one; returns for each the seconds until its handler began."""
    conn = bench.connect()
    committed: dict[int, float] = {}
    first = time.monotonic()
    for number in range(count):
        time.sleep(max(0.0, first + number * EVERY_SECONDS - time.monotonic()))
        enqueue(conn, "bench.mark", {"n": number})
        committed[number] = time.monotonic()
    give_up = time.monotonic() + IDLE_SECONDS
    while marks.stat().st_size < count * MARK.size and time.monotonic() < give_up:
        time.sleep(EVERY_SECONDS)
    return [began - committed[number] for number, began in MARK.iter_unpack(marks.read_bytes())]


def notified(bench: harness.Bench, count: int) -> list[float]:
    """Notify a thread that listens; returns for each the seconds from the commit to its waking."""
    woken: list[float] = []
    listener, sender = bench.connect(), bench.connect()
    listener.execute("LISTEN bench")

    def listen() -> None:
        woken.extend(time.monotonic() for _ in listener.notifies(stop_after=count))

    thread = threading.Thread(target=listen)
    thread.start()
    sent: list[float] = []
    for _ in range(count):
        sender.execute("NOTIFY bench")
        sent.append(time.monotonic())
        time.sleep(EVERY_SECONDS)
    thread.join()
    return [max(0.0, heard - said) for heard, said in zip(woken, sent, strict=True)]


ASKED: Final = """
SELECT sum(pg_stat_database.xact_commit + pg_stat_database.xact_rollback) AS asked
FROM pg_stat_database
WHERE pg_stat_database.datname = current_database()
"""


def idle(bench: harness.Bench) -> float:
    """Return how many transactions a second the worker asks for, each one statement, when idle."""
    owner = bench.owner()

    def asked() -> int:
        return int((owner.execute(ASKED).fetchone() or {"asked": 0})["asked"])

    before = asked()
    time.sleep(IDLE_SECONDS)
    return (asked() - before - 1) / IDLE_SECONDS


def memory(pid: int) -> float:
    """Return the MiB that a process has in memory."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    (found,) = [line for line in lines if line.startswith("VmRSS:")]
    return int(found.split()[1]) / KIB


def main(count: int = JOBS) -> None:
    """Print the figures."""
    with (
        harness.server() as at,
        harness.database(at, "pickup") as bench,
        tempfile.TemporaryDirectory() as folder,
    ):
        marks = Path(folder) / "marks"
        marks.touch()
        bare = notified(bench, count)
        with worker(bench, marks) as pid:
            taken = picked_up(bench, marks, count)
            time.sleep(SETTLE_SECONDS)
            asked = idle(bench)
            sizes = {"supervisor": memory(pid), "child": max(map(memory, children(pid)))}
        bare += notified(bench, count)
    for part in PERCENTS:
        mine, least = harness.percentile(taken, part) * 1e3, harness.percentile(bare, part) * 1e3
        case = f"p{part * 100:g}"
        harness.report(BENCH, f"bare notify, {case}", least, "ms")
        harness.report(
            BENCH,
            case,
            mine,
            "ms",
            ratio=mine / least if least else None,
            to=f"bare notify, {case}",
        )
    harness.report(BENCH, "picked up", len(taken), "jobs", ratio=len(taken) / count, to="asked for")
    harness.report(BENCH, "idle", asked, "transactions/s")
    for who, size in sizes.items():
        harness.report(BENCH, who, size, "MiB")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
