"""What the tests of the worker share: real workers in processes of their own."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

import psycopg
import pytest

from queue_core import enqueue
from queue_core.queries.facts import JobFacts, job
from tests.conftest import CANARY, Database
from tests.queue_core.worker import sample
from tests.queue_core.worker.proxy import Proxy

Found = TypeVar("Found")

ROOT = Path(__file__).resolve().parents[3]
MARKER = "COUNTERSIGN_TEST"
JOBS = "tests.queue_core.worker.sample"

assert sample.jobs.handled()  # declares the names for this process, which enqueues


PATIENCE = 45.0
"""Seconds for what nobody promised a time for, on a machine with much else to do."""


def wait_for(look: Callable[[], Found], seconds: float = PATIENCE) -> Found:
    """Return what `look` finds as soon as it is something; fail after that many seconds."""
    give_up = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < give_up, f"nothing within {seconds} s"
        time.sleep(0.02)
    return found


def stat(pid: int) -> list[str] | None:
    """Return the fields of a live process after its name; None where there is none, or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields


def is_alive(pid: int) -> bool:
    return stat(pid) is not None


def marked(marker: str) -> set[int]:
    """Return the live processes that carry `marker` in their environment."""
    found: set[int] = set()
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"{MARKER}={marker}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                found.add(int(entry.name))
    return {pid for pid in found if is_alive(pid)}


@dataclass
class Worker:
    """A worker of a test: its process, and what it wrote."""

    process: subprocess.Popen[bytes]
    marker: str
    log: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    def text(self) -> str:
        return self.log.read_text()

    def lines(self, words: str) -> list[str]:
        return [line for line in self.text().splitlines() if words in line]

    def id(self) -> UUID:
        """Return its id, once it has registered."""
        found = wait_for(lambda: re.findall(r"worker started worker=(\S+)", self.text()))
        return UUID(found[0])

    def children(self) -> set[int]:
        """Return the processes that it started and those that these started, without the guard."""
        ours = marked(self.marker) - {self.pid}
        return {pid for pid in ours if b"guard.py" not in command_of(pid)}

    def guard(self) -> int:
        ours = marked(self.marker) - {self.pid}
        (guard,) = [pid for pid in ours if b"guard.py" in command_of(pid)]
        return guard

    def send(self, number: int) -> None:
        os.kill(self.pid, number)

    def ended(self, seconds: float = PATIENCE) -> int:
        """Wait for its end and return the exit code."""
        return self.process.wait(seconds)

    def end(self, number: int = signal.SIGTERM, seconds: float = PATIENCE) -> int:
        """Send a signal and return the exit code."""
        self.send(number)
        return self.ended(seconds)

    def kill_all(self) -> None:
        for pid in marked(self.marker):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()


def command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def launch(url: str, folder: Path, *, constants: Mapping[str, float] | None = None,
           environment: Mapping[str, str] | None = None, **options: Any) -> Worker:  # fmt: skip
    """Start a worker with one slot and a stale time that tests can wait for.

    `through` is a command that starts it, such as a shell that closes its streams.
    """
    marker = uuid.uuid4().hex
    log = folder / f"worker-{marker}.log"
    how = options.pop("through", ())
    chosen = {"url": url, "jobs": JOBS, "processes": 1, "stale_after": 20.0, "grace": 10.0}
    with log.open("wb") as sink:
        process = subprocess.Popen(
            [*how, sys.executable, "-m", "tests.queue_core.worker.runner",
             json.dumps(chosen | options), json.dumps(dict(constants or {}))],
            cwd=ROOT, stdout=sink, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
            env=dict(os.environ) | {MARKER: marker} | dict(environment or {}),
        )  # fmt: skip
    return Worker(process, marker, log)


@dataclass
class Jobs:
    """Enqueues jobs of the sample, and looks at them."""

    conn: psycopg.Connection[dict[str, object]]
    folder: Path
    made: list[UUID] = field(default_factory=list)

    def add(self, name: str, args: Mapping[str, object] | None = None, **options: Any) -> UUID:
        self.made.append(enqueue(self.conn, name, args or {}, **options).id)
        return self.made[-1]

    def facts(self, made: UUID) -> JobFacts:
        found = job(self.conn, made)
        assert found
        return found

    def ended(self, made: UUID, state: str, seconds: float = PATIENCE) -> JobFacts:
        """Return the facts of a job as soon as it is in a state."""
        try:
            wait_for(lambda: self.facts(made).state == state, seconds)
        except AssertionError:
            pytest.fail(f"never {state}: {self.facts(made)}")
        return self.facts(made)

    def path(self) -> Path:
        """Return the name of a file that is not there yet."""
        return self.folder / uuid.uuid4().hex

    def begun(self, path: Path, seconds: float = PATIENCE) -> int:
        """Return the process of the run that signs in at `path`, once it does."""
        return int(wait_for(lambda: path.exists() and path.read_text(), seconds))

    def runs(self, made: UUID) -> list[tuple[int, str]]:
        found = self.conn.execute(
            "SELECT attempt, outcome FROM countersign.runs WHERE job_id = %s ORDER BY ended_at",
            [made],
        )
        return [(row["attempt"], row["outcome"]) for row in found]  # pyright: ignore[reportReturnType]

    def result(self, made: UUID) -> object:
        found = self.conn.execute("SELECT result FROM countersign.ended WHERE id = %s", [made])
        return (found.fetchone() or {})["result"]


@pytest.fixture(autouse=True)
def children_are_counted(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Count what workers and their children ran where each kind of end is tried."""
    if request.path.name != "test_ends.py":
        monkeypatch.delenv("COVERAGE_PROCESS_CONFIG", raising=False)


@pytest.fixture
def jobs(database: Database, tmp_path: Path) -> Jobs:
    return Jobs(database.connect(), tmp_path)


@pytest.fixture
def start_worker(database: Database, tmp_path: Path) -> Iterator[Callable[..., Worker]]:
    """Give a function that starts workers; whatever they leave is ended with the test."""
    started: list[Worker] = []

    def start(**options: Any) -> Worker:
        started.append(launch(options.pop("url", database.url), tmp_path, **options))
        return started[-1]

    yield start
    for worker in started:
        worker.kill_all()
        assert CANARY not in worker.text()
        assert not re.search("^Traceback", worker.text(), re.MULTILINE)


@pytest.fixture
def proxy(database: Database) -> Iterator[Proxy]:
    """Give a line to the database that can be cut."""
    folder = Path(tempfile.mkdtemp(prefix="line-"))
    line = Proxy(database.url, folder)
    yield line
    line.cut()
    shutil.rmtree(folder, ignore_errors=True)
