"""A Postgres of its own, which may be killed, filled up, or made to refuse all writing."""

import os
import shutil
import signal
import tempfile
import uuid
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg import conninfo, sql
from psycopg.rows import DictRow, dict_row

from queue_core import embedded, migrate
from queue_core.check.partitions import COMFORTABLE_WEEKS
from queue_core.embedded import lifecycle
from queue_core.embedded.folders import server_lock
from tests.partitions import keep_weeks
from tests.queue_core.worker.conftest import wait_for

WRITES: Final = "-c default_transaction_read_only=off"


class Server:
    """A server with one migrated database, which is copied for each test."""

    def __init__(self) -> None:
        """Start it."""
        self.folder = Path(tempfile.mkdtemp(prefix="chaos-")).resolve()
        self.folder.chmod(0o755)  # as root the server drops its rights and must still get here
        self._known = embedded.start(self.folder)
        with psycopg.connect(self._known.owner_url, autocommit=True) as owner:
            # A killed server loses nothing that it wrote to a machine which goes on.
            owner.execute("ALTER SYSTEM SET fsync = off")
            owner.execute("SELECT pg_reload_conf()")
            migrate.migrate(owner)
            keep_weeks(owner, COMFORTABLE_WEEKS)

    def make_database(self) -> "Base":
        """Make a copy of the migrated database."""
        name = f"chaos_{uuid.uuid4().hex[:12]}"
        self.command(
            sql.SQL("CREATE DATABASE {} TEMPLATE countersign").format(sql.Identifier(name))
        )
        return Base(
            conninfo.make_conninfo(self._known.url, dbname=name),
            conninfo.make_conninfo(self._known.owner_url, dbname=name),
        )

    def command(self, *statements: Any) -> None:
        """Do something as the superuser, each statement by itself."""
        url = conninfo.make_conninfo(self._known.owner_url, dbname="postgres", options=WRITES)
        with psycopg.connect(url, autocommit=True) as admin:
            for statement in statements:
                admin.execute(statement)

    def stop_at_once(self) -> None:
        """End it as `pg_ctl stop -m immediate` does: nobody is waited for, nothing is tidied."""
        pid = lifecycle._postmaster(self.folder)
        assert pid, "the server is not there"
        os.kill(pid, signal.SIGQUIT)
        wait_for(self._is_gone)

    def start(self) -> None:
        """Start it again; returns once it has recovered and answers."""
        embedded.start(self.folder)

    def restart_at_once(self) -> None:
        """End it in the middle of everything, and start it again."""
        self.stop_at_once()
        self.start()

    def allow(self, connections: int) -> None:
        """Let so many connections in, from a restart on."""
        self.command(sql.SQL("ALTER SYSTEM SET max_connections = {}").format(connections))
        self.restart_at_once()

    def refuse_writing(self, refuse: bool) -> None:  # noqa: FBT001 - it is the act
        """Be read-only from now on, for everybody, or no more."""
        how = "on" if refuse else "off"
        self.command(
            sql.SQL("ALTER SYSTEM SET default_transaction_read_only = {}").format(how),
            "SELECT pg_reload_conf()",
        )

    def close(self) -> None:
        """End it for good, and leave nothing."""
        self.start()  # whatever was done to it
        folder = self.folder
        with lifecycle.locked(folder / "boot.lock"):
            lifecycle._leave(folder)
        shutil.rmtree(folder, ignore_errors=True)

    def _is_gone(self) -> bool:
        with server_lock(self.folder) as lock:
            return lock is not None


class Base:
    """A database of that server. Its connections are for a moment: they do not survive chaos."""

    def __init__(self, url: str, owner_url: str) -> None:
        self.url, self.owner_url = url, owner_url

    def connect(self) -> psycopg.Connection[dict[str, object]]:
        """Open a connection of the service role, to be closed by the caller."""
        return self._open(self.url)

    def owner(self) -> psycopg.Connection[dict[str, object]]:
        """Open a connection of the superuser, to be closed by the caller."""
        return self._open(self.owner_url)

    def _open(self, url: str) -> psycopg.Connection[dict[str, object]]:
        return psycopg.Connection[DictRow].connect(url, autocommit=True, row_factory=dict_row)
