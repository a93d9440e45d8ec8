"""How fast one worker drains a full queue of jobs that do nothing, beside its bare statements.

`python -m bench.drain [JOBS [PROCESSES]]`, 100,000 jobs and 2 processes unless given. The bare
loop of `bench.limit` runs before and after, on the same server; its mean is what is compared with.
"""

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final, LiteralString

from bench import harness
from bench.limit import bare_loop
from queue_core.embedded import Server

BENCH: Final = "drain"
BATCHES: Final = (64, 256)
BARE_JOBS: Final = 200_000
BARE_SECONDS: Final = 2.0
JOBS: Final = 100_000
PROCESSES: Final = 2
CAREFUL_PART: Final = 50
"""One job in so many is done again as one whose run is never claimed ahead."""
LOOK_SECONDS: Final = 0.1
TICKS: Final = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Spent:
    """What was spent by some moment: seconds of processor, bytes of WAL, commits."""

    worker: float
    server: float
    wal: int
    commits: int


def limits(at: Server) -> dict[int, float]:
    """Return by batch how many jobs a second our own claim and finish do in a bare loop."""
    with harness.database(at, "limits") as bench:
        harness.load(bench.owner(), BARE_JOBS)
        harness.settle(bench.owner())
        conn = bench.connect()
        worker = harness.worker(conn)
        return {batch: bare_loop(conn, worker, batch, BARE_SECONDS) for batch in BATCHES}


def drain(bench: harness.Bench, name: str, count: int, processes: int) -> tuple[float, Spent]:
    """Drain `count` jobs; returns jobs a second, and what was spent for each."""
    owner = bench.owner()
    harness.load(owner, count, names=[name])
    harness.settle(owner)
    process = start(bench, processes)
    try:
        _wait(owner, "SELECT FROM countersign.workers WHERE stopped_at IS NULL", there=True)
        before = _spent(owner, process.pid)
        _wait(owner, "SELECT FROM countersign.ready", there=False)
        _wait(owner, "SELECT FROM countersign.running", there=False)
        after = _spent(owner, process.pid)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()
    spent = Spent(
        (after.worker - before.worker) / count,
        (after.server - before.server) / count,
        round((after.wal - before.wal) / count),
        after.commits - before.commits,
    )
    return _rate(owner), spent


def start(bench: harness.Bench, processes: int, **settings: str) -> subprocess.Popen[bytes]:
    """Start a worker that has these settings beside its database's."""
    command = ["-m", "flask", "queue", "work", "--jobs", "bench.handlers"]
    return subprocess.Popen(
        [sys.executable, *command, "--processes", str(processes)],
        cwd=Path(__file__).parents[1],
        env=os.environ | {"DATABASE_URL": bench.url} | settings,
        stderr=subprocess.DEVNULL,
    )


def _wait(owner: harness.Connection, query: LiteralString, *, there: bool) -> None:
    while (owner.execute(query + " LIMIT 1").fetchone() is not None) != there:
        time.sleep(LOOK_SECONDS)


RATE: Final = """
SELECT count(*) / extract(epoch FROM max(ended.ended_at) - min(ended.started_at))::float8 AS rate
FROM countersign.ended
WHERE ended.state = 'completed' AND ended.worker = (
    SELECT workers.id FROM countersign.workers ORDER BY workers.started_at DESC LIMIT 1
)
"""


def _rate(owner: harness.Connection) -> float:
    """Return the last worker's jobs a second, from its first beginning to its last end."""
    row = owner.execute(RATE).fetchone()
    return float(row["rate"]) if row else 0.0


WRITTEN: Final = """
SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn AS wal, pg_stat_database.xact_commit AS commits
FROM pg_stat_database
WHERE pg_stat_database.datname = current_database()
"""
BACKENDS: Final = """
SELECT pg_stat_activity.pid
FROM pg_stat_activity
WHERE pg_stat_activity.application_name = 'countersign worker'
"""


def _spent(owner: harness.Connection, pid: int) -> Spent:
    backends = [int(row["pid"]) for row in owner.execute(BACKENDS)]
    written = owner.execute(WRITTEN).fetchone() or {}
    ours = sum(map(_processor, [pid, *children(pid)]))
    theirs = sum(map(_processor, backends))
    return Spent(ours, theirs, int(written["wal"]), int(written["commits"]))


def children(pid: int) -> list[int]:
    """Return the processes that a process has started."""
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    return [int(each) for each in text.split()]


def _processor(pid: int) -> float:
    """Return the seconds of processor that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def main(count: int = JOBS, processes: int = PROCESSES) -> None:
    """Print the figures of both kinds of job."""
    with harness.server() as at:
        before = limits(at)
        with harness.database(at, "drain") as bench:
            cases = {
                name: (jobs, *drain(bench, f"bench.{name}", jobs, processes))
                for name, jobs in (("noop", count), ("careful", count // CAREFUL_PART))
            }
        after = limits(at)
    bare = {batch: (before[batch] + after[batch]) / 2 for batch in BATCHES}
    for batch, rate in bare.items():
        harness.report(BENCH, f"bare loop, batch {batch}", rate, "jobs/s")
    for name, (jobs, rate, spent) in cases.items():
        for batch, limit in bare.items():
            to = f"bare loop, batch {batch}"
            harness.report(BENCH, name, rate, "jobs/s", ratio=rate / limit, to=to)
        harness.report(BENCH, f"{name}, worker", spent.worker * 1e6, "us of processor a job")
        harness.report(BENCH, f"{name}, server", spent.server * 1e6, "us of processor a job")
        harness.report(BENCH, f"{name}, WAL", spent.wal, "bytes a job")
        harness.report(BENCH, f"{name}, commits", spent.commits / jobs, "a job")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
