"""What all tests stand on: a real Postgres, a migrated database, a connection rolled back."""

import os
import re
import shutil
import signal
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from psycopg import sql
from psycopg.rows import DictRow, dict_row, tuple_row

from queue_core import Registry, cancel, embedded, enqueue, fleet, migrate
from queue_core.outcomes import Completed, Ending, Failed, RunReport, Unreadable
from queue_core.registry import _REGISTRIES  # pyright: ignore[reportPrivateUsage]
from queue_core.transitions.claim import Claimable, Claimed, claim
from queue_core.transitions.complete import complete
from queue_core.transitions.fail import fail
from queue_core.transitions.set_aside import set_aside
from tests.databases import Database, Pool, connect, maintenance
from tests.partitions import keep_weeks
from tests.pooler import pooler

CANARY = "canary-7c1e-do-not-repeat"
"""Stands in the arguments of tests' jobs; must be seen in no log line, error or page."""

THROUGH_POOLER = os.environ.get("TESTS_THROUGH") == "pgbouncer"
"""Whether services reach the database through a pooler; tests/test_pgbouncer.py asks for it."""

OWN_SESSION = re.compile(r"backend_pid|racing|\"SET |prepare_threshold|pg_terminate|advisory_lock")
"""What needs a session of the server to itself, by words in a file of tests."""

UNCOUNTED = {"test_hostile.py", "test_canary.py", "test_start.py", "test_package.py"}

# A busy machine is no failure.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave what is there to break or to be looked at out of the coverage, which slows it by half.

    Other tests pass everywhere they do.
    """
    for item in items:
        if item.get_closest_marker("browser") or item.path.name in UNCOUNTED:
            item.add_marker("no_cover")
        if THROUGH_POOLER and OWN_SESSION.search(item.path.read_text(encoding="utf-8")):
            item.add_marker(pytest.mark.skip("needs a session of the server to itself"))


@pytest.fixture(autouse=True)
def children_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave processes that a test starts out of the coverage: each pays a third more for it.

    Where the code of such processes is tested for itself, a fixture of this name counts them.
    """
    monkeypatch.delenv("COVERAGE_PROCESS_CONFIG", raising=False)


@pytest.fixture(scope="session")
def server() -> Iterator[embedded.Server]:
    """Start one embedded Postgres for the session (one for each xdist process)."""
    folder = Path(tempfile.mkdtemp(prefix="cs-"))
    folder.chmod(0o755)  # as root the server drops its rights and must still get here
    try:
        started = embedded.start(folder)
        with psycopg.connect(started.owner_url, autocommit=True) as owner:
            # Nobody pulls the plug here, and a database of a test's own costs a dozen syncs.
            owner.execute("ALTER SYSTEM SET fsync = off")
            # Databases are lent again: what it would clear away, and find out, is of other tests.
            owner.execute("ALTER SYSTEM SET autovacuum = off")
            owner.execute("SELECT pg_reload_conf()")
        with ExitStack() as stack:
            if THROUGH_POOLER:
                started = replace(started, url=stack.enter_context(pooler(started.url)))
            yield started
    finally:
        embedded.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def migrated(server: embedded.Server) -> embedded.Server:
    """Migrate the server's database, and keep a copy that nobody connects to as a template."""
    with psycopg.connect(server.owner_url, autocommit=True) as owner:
        migrate.migrate(owner)
        keep_weeks(owner, 1)
    with maintenance(server) as admin:
        admin.execute("CREATE DATABASE pristine TEMPLATE countersign")
    return server


@pytest.fixture(scope="session")
def _session(migrated: embedded.Server) -> Iterator[list[psycopg.Connection[DictRow]]]:
    """Keep the connection of `conn` open: the first statements of a new one take 20 ms and more."""
    kept: list[psycopg.Connection[DictRow]] = []
    yield kept
    for connection in kept:
        connection.close()


@pytest.fixture
def conn(
    migrated: embedded.Server, _session: list[psycopg.Connection[DictRow]]
) -> Iterator[psycopg.Connection[dict[str, object]]]:
    """Give a connection of the service role whose one transaction is rolled back.

    `now()` stands still in it: move time by `run_at=` or by rows.
    """
    if not _session or _session[-1].closed:
        _session.append(connect(migrated.url, autocommit=False))
    connection = _session[-1]
    connection.row_factory = dict_row
    yield connection
    if not connection.closed:
        connection.rollback()


@pytest.fixture(scope="session")
def databases(migrated: embedded.Server) -> Iterator[Pool]:
    """Keep the databases that tests are lent."""
    kept = Pool(migrated)
    yield kept
    kept.close()


@pytest.fixture
def database(databases: Pool) -> Iterator[Database]:
    """Give a migrated database of the test's own."""
    with databases.lend() as lent:
        yield lent


@pytest.fixture
def new_database(databases: Pool) -> Iterator[Database]:
    """Give a database that no test has had, for who counts what a statement reads."""
    with databases.make() as made:
        yield made


@pytest.fixture(scope="module")
def shared_database(databases: Pool) -> Iterator[Database]:
    """Give a migrated database to a module's tests, each of which looks at its own jobs alone."""
    with databases.lend() as lent:
        yield lent


@pytest.fixture
def registry() -> Iterator[Registry]:
    """Give a registry with one plain job, `mail.send`, that takes an address."""
    jobs = Registry()

    @jobs.job("mail.send")
    def send(run: object, address: str = CANARY) -> None:  # pyright: ignore[reportUnusedFunction]
        del run, address

    yield jobs
    _REGISTRIES.discard(jobs)  # a failed test's traceback would keep it, and its names, alive


@pytest.fixture
def make_worker() -> Callable[[psycopg.Connection[object]], UUID]:
    """Give a function that registers a live worker and returns its id."""

    def register(connection: psycopg.Connection[object], *, pid: int = 4121) -> UUID:
        identity = fleet.Identity("pay-3", pid, "boot-1", "pid:[1]", "0.1.0", [], 4)
        return fleet.register(connection, identity)

    return register


@pytest.fixture
def claim_one() -> Callable[..., Claimed]:
    """Give a function that claims one job of a name for a worker, with options of its own."""

    def claim_for(
        connection: psycopg.Connection[object],
        worker: UUID,
        name: str = "mail.send",
        *,
        attempts: int = 1,
        on_lost: str = "attempts",
    ) -> Claimed:
        names = [Claimable(name, attempts, on_lost)]  # pyright: ignore[reportArgumentType]
        (claimed,) = claim(connection, worker=worker, names=names, count=1)
        return claimed

    return claim_for


TO_BLOCKED = """
WITH gone AS (DELETE FROM countersign.ready WHERE ready.id = %s RETURNING ready.*)
INSERT INTO countersign.blocked SELECT gone.*, 'account-7' FROM gone
"""
TO_WAITING = """
WITH gone AS (DELETE FROM countersign.ready WHERE ready.id = %s RETURNING ready.*)
INSERT INTO countersign.waiting SELECT gone.* FROM gone
"""


@dataclass(frozen=True)
class Made:
    """A job that a test brought to a place: its attempt so far, its queue, the run's worker."""

    id: UUID
    attempt: int
    queue: str
    worker: UUID

    def report(self, ending: Ending, **known: Any) -> RunReport:
        """Report an ending of the job's run."""
        return RunReport(self.id, self.attempt, ending, **known)


@pytest.fixture
def job_in(registry: Registry, make_worker: Callable[..., UUID]) -> Callable[..., Made]:
    """Give a function that brings a new job to a place by the moves that lead there.

    The place is a state, or `due`: still in `waiting` though its time has come. The job
    stands in a queue of its own.
    """

    def bring(
        connection: psycopg.Connection[object],
        place: str,
        *,
        attempts: int = 1,
        on_lost: str = "attempts",
    ) -> Made:
        queue = f"line-{uuid.uuid4().hex[:12]}"
        delay = 3_600.0 if place == "waiting" else None
        job = enqueue(connection, "mail.send", {"address": CANARY}, queue=queue, delay=delay).id
        if place in {"ready", "waiting", "blocked", "due", "cancelled"}:
            _stand(connection, job, place)
            return Made(job, 0, queue, uuid.uuid4())
        made = Made(job, 1, queue, make_worker(connection))
        names = [Claimable("mail.send", attempts, on_lost)]  # pyright: ignore[reportArgumentType]
        claim(connection, worker=made.worker, names=names, queues=[queue], count=1)
        _end(connection, made, place)
        return made

    return bring


def _stand(connection: psycopg.Connection[object], job: UUID, place: str) -> None:
    match place:
        case "blocked":
            connection.execute(TO_BLOCKED, [job])
        case "due":
            connection.execute(TO_WAITING, [job])
        case "cancelled":
            cancel(connection, [job], by="ops:setup", reason="test_needs_it")


def _end(connection: psycopg.Connection[object], made: Made, place: str) -> None:
    match place:
        case "completed":
            complete(connection, made.worker, [made.report(Completed())])
        case "failed":
            failed = Failed("ValueError: no such address", retryable=False)
            fail(connection, made.worker, [made.report(failed)])
        case "needs_review":
            set_aside(connection, made.worker, [made.report(Unreadable("not JSON"))])


TABLES = """
SELECT pg_class.relname AS name
FROM pg_class
WHERE pg_class.relnamespace = 'countersign'::regnamespace
    AND pg_class.relkind IN ('r', 'p')
    AND NOT pg_class.relispartition
"""


@pytest.fixture
def contents() -> Callable[[psycopg.Connection[Any]], dict[str, list[str]]]:
    """Give a function that reads every row of every table, to see whether anything changed."""

    def read(connection: psycopg.Connection[Any]) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        with psycopg.Cursor(connection, row_factory=tuple_row) as cursor:
            for (table,) in cursor.execute(TABLES).fetchall():
                query = sql.SQL("SELECT each::text FROM countersign.{} AS each ORDER BY 1")
                rows = cursor.execute(query.format(sql.Identifier(table))).fetchall()
                found[table] = [text for (text,) in rows]
        return found

    return read


@pytest.fixture(autouse=True)
def _arguments_stay_out_of_logs(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Fail any test whose log lines carry the canary of its arguments."""
    yield
    assert CANARY not in caplog.text


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the developer's own settings out of the tests."""
    for name in [name for name in os.environ if name.startswith(("QUEUE_", "DATABASE_URL", "PG"))]:
        monkeypatch.delenv(name)


@pytest.fixture
def hangup() -> Iterator[None]:
    """Let SIGHUP have its effect, here and in new processes, also where tests run under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Let SIGINT have its effect in new processes, also where tests run in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
