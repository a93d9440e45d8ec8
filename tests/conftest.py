"""What all tests stand on: a real Postgres, a migrated database, a connection rolled back."""

import os
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

import psycopg
import pytest
from psycopg import conninfo, sql
from psycopg.rows import dict_row

from queue_core import Registry, embedded, fleet, migrate
from queue_core.transitions.claim import Claimable, Claimed, claim

CANARY = "canary-7c1e-do-not-repeat"
"""Stands in the arguments of tests' jobs; must be seen in no log line, error or page."""


@pytest.fixture(scope="session")
def server() -> Iterator[embedded.Server]:
    """Start one embedded Postgres for the session (one for each xdist process)."""
    folder = Path(tempfile.mkdtemp(prefix="cs-"))
    folder.chmod(0o755)  # as root the server drops its rights and must still get here
    try:
        yield embedded.start(folder)
    finally:
        embedded.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def migrated(server: embedded.Server) -> embedded.Server:
    """Migrate the server's database, and keep a copy that nobody connects to as a template."""
    with psycopg.connect(server.owner_url, autocommit=True) as owner:
        migrate.migrate(owner)
    with _maintenance(server) as admin:
        admin.execute("CREATE DATABASE pristine TEMPLATE countersign")
    return server


def _maintenance(server: embedded.Server) -> psycopg.Connection:
    url = conninfo.make_conninfo(server.owner_url, dbname="postgres")
    return psycopg.connect(url, autocommit=True)


@pytest.fixture
def conn(migrated: embedded.Server) -> Iterator[psycopg.Connection[dict[str, object]]]:
    """Give a connection of the service role whose one transaction is rolled back.

    `now()` stands still in it: move time by `run_at=` or by rows.
    """
    with psycopg.connect(migrated.url, row_factory=dict_row) as connection:
        yield connection
        connection.rollback()


@dataclass
class Database:
    """A database of a test's own, for what must commit."""

    url: str
    owner_url: str
    _stack: ExitStack = field(repr=False)

    def connect(self, *, autocommit: bool = True) -> psycopg.Connection[dict[str, object]]:
        """Open a connection of the service role, closed at the end of the test."""
        return self._open(self.url, autocommit=autocommit)

    def owner(self, *, autocommit: bool = True) -> psycopg.Connection[dict[str, object]]:
        """Open a connection of the superuser, closed at the end of the test."""
        return self._open(self.owner_url, autocommit=autocommit)

    def _open(self, url: str, *, autocommit: bool) -> psycopg.Connection[dict[str, object]]:
        connection = psycopg.connect(url, autocommit=autocommit, row_factory=dict_row)
        return self._stack.enter_context(connection)


@contextmanager
def make_database(server: embedded.Server) -> Iterator[Database]:
    """Make a copy of the migrated database, and drop it at the end whoever is connected."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    with _maintenance(server) as admin:
        admin.execute(sql.SQL("CREATE DATABASE {} TEMPLATE pristine").format(sql.Identifier(name)))
        try:
            with ExitStack() as stack:
                yield Database(
                    conninfo.make_conninfo(server.url, dbname=name),
                    conninfo.make_conninfo(server.owner_url, dbname=name),
                    stack,
                )
        finally:
            drop = sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name))
            admin.execute(drop)


@pytest.fixture
def database(migrated: embedded.Server) -> Iterator[Database]:
    """Give a migrated database of the test's own."""
    with make_database(migrated) as made:
        yield made


@pytest.fixture
def registry() -> Registry:
    """Give a registry with one plain job, `mail.send`, that takes an address."""
    jobs = Registry()

    @jobs.job("mail.send")
    def send(run: object, address: str = CANARY) -> None:  # pyright: ignore[reportUnusedFunction]
        del run, address

    return jobs


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
