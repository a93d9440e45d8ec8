"""What is measured of a queue: each measurement has a fresh database on the one server."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from bench import harness
from bench.peers.field import COUNTERSIGN, ROOT, Peer, folder
from bench.peers.marks import FILE, TIMED, Marks
from queue_core.embedded import Server
from queue_core.embedded.folders import url_of

LOOK_SECONDS: Final = 0.02
LONGEST_SECONDS: Final = 300.0
SETTLE_SECONDS: Final = 3.0
EVERY_SECONDS: Final = 0.02


class StuckError(Exception):
    """A peer did not do its jobs."""


@dataclass
class Entry:
    """A queue with a database of its own."""

    peer: Peer
    name: str
    bench: harness.Bench
    marks: Marks
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def environ(self, *, timed: bool) -> dict[str, str]:
        """Return what the adapters need to know."""
        ours = self.peer.name == COUNTERSIGN
        url = self.bench.url if ours else url_of(self.bench.folder, name=self.name)
        known = {"PEER_URL": url}
        known |= {FILE: str(self.marks.path), "PYTHONPATH": str(ROOT)}
        known |= {"PEER_MODULES": str(folder() / "graphile"), TIMED: "1" if timed else ""}
        return os.environ | known

    def ask(self, *arguments: object) -> dict[str, Any]:
        """Run the adapter once and return its answer."""
        told = subprocess.run(
            self.peer.command(*arguments), cwd=ROOT, env=self.environ(timed=False),
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if told.returncode:
            raise StuckError(f"{self.peer.name} {arguments}: {told.stderr[-2000:]}")
        return json.loads(told.stdout.splitlines()[-1])

    def start(self, count: int, *, timed: bool = False) -> None:
        """Start so many workers."""
        for _ in range(count):
            process = subprocess.Popen(
                self.peer.command("work"), cwd=ROOT, env=self.environ(timed=timed),
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
            self.workers.append(process)

    def stop(self) -> None:
        """Stop the workers: by SIGKILL, with all of their session, where SIGTERM is not enough."""
        for process in self.workers:
            process.send_signal(signal.SIGTERM)
        for process in self.workers:
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        self.workers.clear()

    def wait(self, count: int) -> None:
        """Wait until so many runs have begun."""
        give_up = time.monotonic() + LONGEST_SECONDS
        while self.marks.counted() < count:
            if time.monotonic() > give_up or any(each.poll() is not None for each in self.workers):
                raise StuckError(f"{self.peer.name}: {self.marks.counted()} of {count} runs began")
            time.sleep(LOOK_SECONDS)


@contextmanager
def entered(at: Server, peer: Peer, name: str = "peer") -> Iterator[Entry]:
    """Make a database with the queue's tables."""
    ours = peer.name == COUNTERSIGN
    with harness.database(at, name, migrated=ours) as bench:
        entry = Entry(peer, name, bench, Marks(bench.folder / f"{name}.marks"))
        try:
            entry.ask("setup")
            yield entry
        finally:
            entry.stop()


@dataclass(frozen=True)
class Drained:
    """How a drain went: jobs a second, and what each cost."""

    rate: float
    wal: float
    commits: float


WRITTEN: Final = """
SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn AS wal, pg_stat_database.xact_commit AS commits
FROM pg_stat_database
WHERE pg_stat_database.datname = current_database()
"""


def drain(at: Server, peer: Peer, jobs: int, workers: int) -> Drained:
    """Drain a full queue, from the first run's beginning until the database has none left."""
    jobs = max(1, round(jobs * peer.part))
    with entered(at, peer) as entry:
        entry.ask("bulk", jobs)
        owner = entry.bench.owner()
        harness.settle(owner)
        before = owner.execute(WRITTEN).fetchone() or {}
        entry.start(workers)
        entry.wait(jobs)
        while (owner.execute(peer.left).fetchone() or {})["some"]:
            time.sleep(LOOK_SECONDS / 2)
        seconds = time.monotonic() - entry.marks.first()
        entry.stop()
        after = owner.execute(WRITTEN).fetchone() or {}
    wal, commits = (float(after[key] - before[key]) / jobs for key in ("wal", "commits"))
    return Drained(jobs / seconds, wal, commits)


def pickups(at: Server, peer: Peer, jobs: int) -> list[float]:
    """Enqueue a job now and then; returns for each the seconds from its commit to its run."""
    with entered(at, peer) as entry:
        entry.start(1, timed=True)
        entry.ask("singles", 1)
        entry.wait(1)
        time.sleep(SETTLE_SECONDS)
        returned = entry.ask("paced", jobs, EVERY_SECONDS)["returned"]
        entry.wait(1 + jobs)
        return [entry.marks.moment(number) - at for number, at in enumerate(returned)]


def singles(at: Server, peer: Peer, jobs: int) -> float:
    """Return how many jobs a second one connection enqueues, one commit each."""
    with entered(at, peer) as entry:
        return jobs / float(entry.ask("singles", jobs)["seconds"])


def bulk(at: Server, peer: Peer, jobs: int) -> float:
    """Return how many jobs a second one connection enqueues in bulk."""
    jobs = max(1, round(jobs * peer.part))
    with entered(at, peer) as entry:
        return jobs / float(entry.ask("bulk", jobs)["seconds"])
