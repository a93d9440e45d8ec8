"""What waking workers costs 32 clients that enqueue at once: `python -m bench.clients [SECONDS]`.

Commits a second of pgbench, one job each, while a worker is busy and while one sleeps, each beside
the same statement without its part that wakes workers, in turns; the medians are printed. The jobs
are of a name that the worker does not know, so that one that sleeps is woken again and again.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, Final, LiteralString

import psycopg
from psycopg import conninfo

from bench import drain, handlers, harness
from queue_core import NewJob, enqueue_many
from queue_core.clauses import TOLD
from queue_core.embedded import Server
from queue_core.embedded.folders import PORT
from queue_core.transitions.enqueue import ENQUEUE_NOW

BENCH: Final = "clients"
CLIENTS: Final = 32
SECONDS: Final = 4.0
ROUNDS: Final = 4
PROCESSES: Final = 2
HELD: Final = "SELECT count(*) AS held FROM countersign.running"
ASLEEP: Final = "SELECT FROM pg_locks WHERE pg_locks.locktype = 'advisory'"

ONE_JOB: Final[dict[str, Any]] = {
    "name": "bench.elsewhere", "queue": "default", "args": '{"n": 1}', "priority": 0,
    "attempts": None, "time_limit": None, "delay": 0.0, "run_at": None,
}  # fmt: skip
"""The statement's values; `:1` without the blank pgbench would take for a variable of its own."""
SILENT: Final[LiteralString] = ENQUEUE_NOW.replace(TOLD, "SELECT true")


def script(bench: harness.Bench, statement: LiteralString, name: str) -> Path:
    """Write the statement as pgbench takes it, its values written out."""
    said = psycopg.ClientCursor(bench.owner()).mogrify(statement, ONE_JOB)
    file = bench.folder / name
    plain = " ".join(line.partition("--")[0].strip() for line in said.splitlines())
    file.write_text(plain + ";\n", encoding="utf-8")
    return file


def pgbench(bench: harness.Bench, file: Path, seconds: float) -> float:
    """Return how many transactions a second all clients do together."""
    database = conninfo.conninfo_to_dict(bench.owner_url)["dbname"]
    told = subprocess.run(
        [harness.program("pgbench"), "-n", "-M", "prepared", "-c", str(CLIENTS), "-j", "2",
         "-T", str(max(1, round(seconds))), "-h", bench.folder, "-p", str(PORT), "-U", "postgres",
         "-f", file, str(database)],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    found = re.search(r"^tps = ([\d.]+)", told, re.MULTILINE)
    if not found:
        raise ValueError(told)
    return float(found[1])


@contextmanager
def working(bench: harness.Bench, *, busy: bool) -> Iterator[None]:
    """Run a worker whose slots are all taken, or that sleeps, until the end of the block."""
    owner = bench.owner()
    if busy:
        enqueue_many(owner, [NewJob(handlers.LONG, {"seconds": 600}) for _ in range(PROCESSES)])
    process = drain.start(bench, PROCESSES)
    try:
        while (owner.execute(HELD).fetchone() or {})["held"] < (PROCESSES if busy else 0):
            time.sleep(0.1)
        while (owner.execute(ASLEEP).fetchone() is None) != busy:
            time.sleep(0.1)
        yield
    finally:
        for child in drain.children(process.pid):
            os.kill(child, signal.SIGKILL)
        process.kill()
        process.wait()


def measure(at: Server, seconds: float, *, busy: bool) -> None:
    """Measure both statements in turns and print their medians."""
    what = f"{CLIENTS} clients, worker {'busy' if busy else 'asleep'}"
    without = f"{what}, without NOTIFY"
    found = defaultdict[str, list[float]](list)
    with harness.database(at, "clients") as bench, working(bench, busy=busy):
        files = {
            what: script(bench, ENQUEUE_NOW, "waking.sql"),
            without: script(bench, SILENT, "silent.sql"),
        }
        for number in range(ROUNDS):
            # Each begins as often as the other: what was written before slows who comes after.
            for case, file in sorted(files.items(), reverse=number % 2 == 1):
                found[case].append(pgbench(bench, file, seconds))
    least = median(found[without])
    harness.report(BENCH, without, least, "commits/s")
    rate = median(found[what])
    harness.report(BENCH, what, rate, "commits/s", ratio=rate / least, to=without)


def main(seconds: float = SECONDS) -> None:
    """Print the figures of a worker that is busy, and of one that sleeps."""
    with harness.server() as at:
        measure(at, seconds, busy=True)
        measure(at, seconds, busy=False)


if __name__ == "__main__":
    main(*map(float, sys.argv[1:]))
