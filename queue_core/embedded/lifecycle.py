"""An embedded Postgres from its first user to its last: four locks, and no file of pids."""

import atexit
import fcntl
import os
import signal
import socket
import struct
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psycopg
from psycopg import pq

from queue_core import database
from queue_core.embedded.binaries import binaries, check_version, make_data, run
from queue_core.embedded.folders import (
    LARGEST_LOG,
    PORT,
    Account,
    account_for,
    clear_up,
    explain,
    last_words,
    locked,
    make_folder,
    make_socket_folder,
    open_file,
    ourselves,
    server_lock,
    shown,
    socket_folder,
    url_of,
)
from queue_core.errors import DatabaseAwayError, EmbeddedError

PATIENCE: Final = 60.0  # seconds for a server that neither answers nor ends
POLL: Final = 0.01  # seconds
KEEPER: Final = Path(__file__).with_name("keeper.py")


@dataclass(frozen=True)
class Server:
    """Where the embedded Postgres answers.

    `url` is for services, as `countersign_service`; `owner_url` is the same database as
    the superuser, for migrations and the ledger's owner. Both use a unix socket.
    """

    url: str
    owner_url: str


_uses: dict[tuple[Path, int], tuple[int, int]] = {}
"""The shared locks by which a process (a pid: forks inherit this) counts as a user of a folder.

The second, for the keeper, is held until the process has left: it may have a server to stop.
"""


def start(folder: Path) -> Server:
    """Start the Postgres of `folder`, or join the running one, and count this process as a user.

    Makes the folder, the data, the two roles and the database where they are missing.
    Called again it returns the same Server, and brings the server back if it died. It
    waits for a crash recovery however long that takes. At exit the process leaves; the
    last one stops the server. Raises EmbeddedError with a line that says what to do.
    """
    try:
        folder = folder.resolve()
        sockets = socket_folder(folder)
        if (folder, os.getpid()) not in _uses or _postmaster(folder) is None:
            made = make_folder(folder)
            with locked(folder / "boot.lock"):
                try:
                    _join(folder)
                except (EmbeddedError, OSError):
                    if made:
                        clear_up(folder)
                    raise
    except OSError as error:
        raise EmbeddedError(explain(folder, error)) from error
    return Server(
        url=url_of(sockets, "countersign_service", "countersign"),
        owner_url=url_of(sockets, "postgres", "countersign"),
    )


def stop() -> None:
    """Leave every folder that this process started; where it was the last, stop the server.

    Does nothing in a forked child of the process that called start(). Open connections
    are ended; what is committed is kept. Raises EmbeddedError if a server will not end.
    """
    for folder in [folder for folder, pid in _uses if pid == os.getpid()]:
        try:
            with locked(folder / "boot.lock"):
                _leave(folder)
        except OSError as error:
            raise EmbeddedError(explain(folder, error)) from error


def _join(folder: Path) -> None:
    """Become a user of `folder` and bring its server up; the boot lock is held."""
    account = account_for(folder)
    make_socket_folder(socket_folder(folder), account)
    _enter(folder)
    try:
        _bring_up(folder, account)
        _add_roles_and_database(socket_folder(folder))
    except BaseException:
        _leave(folder)
        raise


def _enter(folder: Path) -> None:
    if (folder, os.getpid()) in _uses:
        return
    locks = open_file(folder / "users.lock"), open_file(folder / "keeper.lock")
    for lock in locks:
        fcntl.flock(lock, fcntl.LOCK_SH)
    for used, pid in list(_uses):
        if used == folder:  # inherited by a fork: kept open, it would count this process twice
            _let_go(*_uses.pop((used, pid)))
    _uses[folder, os.getpid()] = locks
    atexit.unregister(stop)
    atexit.register(stop)


def _leave(folder: Path) -> None:
    """Release this process's use, and stop the server if nobody else uses it."""
    users, keeper = _uses.pop((folder, os.getpid()))
    os.close(users)
    try:
        with suppress(BlockingIOError), locked(folder / "users.lock", fcntl.LOCK_NB):
            _halt(folder)
    finally:
        os.close(keeper)


def _let_go(*locks: int) -> None:
    for lock in locks:
        os.close(lock)


def _bring_up(folder: Path, account: Account) -> None:
    """Return once the server answers, launching it if no process of a former one lives."""
    launched = False
    pause = POLL
    silent_since = time.monotonic()
    while True:
        with server_lock(folder) as lock:
            if lock is not None and launched:
                raise EmbeddedError(f"the embedded Postgres ended at once: {last_words(folder)}")
            if lock is not None:
                _launch(folder, account, lock)
                launched = True
        answer = pq.PGconn.ping(f"{url_of(socket_folder(folder))}&connect_timeout=5".encode())
        if answer == pq.Ping.OK:
            return
        if answer == pq.Ping.REJECT:  # it recovers from a crash, or shuts down: its own time
            silent_since = time.monotonic()
            pause = min(2 * pause, 1.0)  # each refusal is a line of the log
        if time.monotonic() - silent_since > PATIENCE:
            raise EmbeddedError(
                f"processes of an earlier Postgres still hold {shown(folder)} and do not answer; "
                "wait for them or end them, then start again"
            )
        time.sleep(pause)


def _halt(folder: Path) -> None:
    """End the server: fast, and as after a crash only if it does not end in PATIENCE."""
    if not (_ended(folder, signal.SIGINT) or _ended(folder, signal.SIGQUIT)):
        raise EmbeddedError(f"the embedded Postgres in {shown(folder)} does not end")
    with suppress(OSError):
        socket_folder(folder).rmdir()


def _ended(folder: Path, how: signal.Signals) -> bool:
    """Ask the server to end with signal `how`; return whether all its processes did in time."""
    asked = None
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        with server_lock(folder) as lock:
            if lock is not None:
                return True
        pid = _postmaster(folder)
        if pid and pid != asked:
            with suppress(ProcessLookupError):
                os.kill(pid, how)
            asked = pid
        time.sleep(POLL)
    return False


def _postmaster(folder: Path) -> int | None:
    """Return the pid of whoever listens on our socket: None nobody, 0 not of our pid namespace.

    The pid file proves nothing: after a crash its number may be anybody's.
    """
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(5)  # a frozen server with a full queue would keep us for ever
        try:
            probe.connect(str(socket_folder(folder) / f".s.PGSQL.{PORT}"))
        except OSError:
            return None
        if sys.platform == "linux":
            found = probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
            return int(struct.unpack("3i", found)[0])
    return int((folder / "data" / "postmaster.pid").read_text().split()[0])


def _launch(folder: Path, account: Account, lock: int) -> None:
    """Start a server that inherits `lock`, which proves that no other lives."""
    data, sockets = folder / "data", socket_folder(folder)
    log = folder / "server.log"
    if log.exists() and log.stat().st_size > LARGEST_LOG:
        log.replace(folder / "server.log.1")
    programs = binaries(folder, account, lock)
    if not (data / "PG_VERSION").exists():
        make_data(folder, account, programs, lock)
    check_version(folder)
    name = f".s.PGSQL.{PORT}"
    for stale in (data / "postmaster.pid", sockets / name, sockets / f"{name}.lock"):
        stale.unlink(missing_ok=True)
    # Through a shell that leaves at once: a direct child would be reaped as one of the caller's.
    aside = ("/bin/sh", "-c", '"$@" &', "sh")
    command = (programs / "postgres", "-D", data, "-k", sockets, "-p", str(PORT))
    options = ("-c", "listen_addresses=", "-c", "unix_socket_permissions=0700")
    if not (os.access(sys.executable, os.X_OK) and os.access(KEEPER, os.R_OK)):
        # We have dropped the rights to our own Python: the server then outlives a killed last user.
        run((*aside, *command, *options), folder, account, lock)
        return
    keeper = (sys.executable, "-I", "-S", KEEPER, folder, str(account.uid), str(account.gid))
    run((*aside, *keeper, *command, *options), folder, ourselves(), lock)


ROLES: Final = """
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'countersign_runtime') THEN
        CREATE ROLE countersign_runtime NOLOGIN;
    END IF;
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'countersign_service') THEN
        CREATE ROLE countersign_service LOGIN INHERIT;
    END IF;
    IF NOT pg_catalog.pg_has_role('countersign_service', 'countersign_runtime', 'USAGE') THEN
        GRANT countersign_runtime TO countersign_service;
    END IF;
END
$$
"""
DATABASE_EXISTS: Final = "SELECT 1 FROM pg_catalog.pg_database WHERE datname = 'countersign'"
CREATE_DATABASE: Final = "CREATE DATABASE countersign OWNER postgres"


def _add_roles_and_database(sockets: Path) -> None:
    """Make whatever of the two roles and the database is missing."""
    try:
        with database.connect(url_of(sockets), name="countersign start") as conn:
            database.execute(conn, ROLES, {})
            if database.value(conn, DATABASE_EXISTS, {}) is None:
                database.execute(conn, CREATE_DATABASE, {})
    except (psycopg.Error, DatabaseAwayError) as error:
        reason = database.first_line(error)
        raise EmbeddedError(f"the embedded Postgres cannot be set up: {reason}") from error
