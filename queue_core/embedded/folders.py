"""The folder of an embedded Postgres: whose it is, its locks, its socket, and what went wrong."""

import errno
import fcntl
import hashlib
import os
import pwd
import re
import shutil
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from queue_core.errors import EmbeddedError

PORT: Final = 5432  # only part of the socket's file name: nothing listens on a network
LONGEST_SOCKET_FOLDER: Final = 88  # bytes; with the file name it must fit the 104 of macOS
LARGEST_LOG: Final = 10_000_000  # bytes


@dataclass(frozen=True)
class Account:
    """The user that the server runs as."""

    name: str
    uid: int
    gid: int


def ourselves() -> Account:
    """Return the user that this process runs as."""
    return Account(_user_name(os.geteuid()), os.geteuid(), os.getegid())


def account_for(folder: Path) -> Account:
    """Return who the server runs as: we ourselves, or as root the data's owner or a plain user."""
    data = folder / "data"
    owner = data.stat().st_uid if data.exists() else None
    if os.geteuid() != 0:
        if owner not in (None, os.geteuid()):
            raise EmbeddedError(_not_ours(data))
        return ourselves()
    if owner:
        return Account(_user_name(owner), owner, data.stat().st_gid)
    for name in ("postgres", "nobody"):
        with suppress(KeyError):
            entry = pwd.getpwnam(name)
            return Account(name, entry.pw_uid, entry.pw_gid)
    raise EmbeddedError("Postgres refuses to run as root, and there is no user postgres or nobody")


def make_folder(folder: Path) -> bool:
    """Make the folder where there is none, and return whether that was so.

    Root's own is opened for passing through, since the server is not root.
    """
    made = not folder.exists()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _open_to_the_server(folder)
    return made


def _open_to_the_server(folder: Path) -> None:
    found = folder.stat()
    if os.geteuid() != 0 or found.st_uid != 0 or found.st_mode & 0o001:
        return
    if (folder / "boot.lock").exists() or not any(folder.iterdir()):  # never root's home itself
        folder.chmod(stat.S_IMODE(found.st_mode) | 0o011)


def clear_up(folder: Path) -> None:
    """Remove a folder that a first start made and could not use; the boot lock is held."""
    if (folder / "data").exists() or (folder / "data.new").exists():
        return
    with suppress(OSError):
        (folder / "run").rmdir()  # not one in /tmp: it may be why this start was refused
    for name in ("server.log", "users.lock", "keeper.lock", "server.lock", "boot.lock"):
        (folder / name).unlink(missing_ok=True)
    with suppress(OSError):
        folder.rmdir()


def socket_folder(folder: Path) -> Path:
    """Return `run` in the folder, or a folder in /tmp where libpq could not take that path."""
    inside = folder / "run"
    name = os.fsencode(inside)
    if len(name) <= LONGEST_SOCKET_FOLDER and re.fullmatch(rb"[\w/.-]+", name):
        return inside
    # Not TMPDIR: every process has to find the same one, whatever its environment.
    return Path("/tmp") / f"countersign-{hashlib.sha256(name).hexdigest()[:16]}"  # noqa: S108


def make_socket_folder(path: Path, account: Account) -> None:
    """Make it private to the server's user; refuse one that somebody else may have put there."""
    with suppress(FileExistsError):
        path.mkdir(mode=0o700)
    # In our folder one of an earlier server's user may be left; in /tmp it would be a stranger's.
    if path.lstat().st_uid == os.geteuid() or (os.geteuid() == 0 and path.name == "run"):
        os.chown(path, account.uid, account.gid, follow_symlinks=False)
    found = path.lstat()
    if (stat.filemode(found.st_mode), found.st_uid) != ("drwx------", account.uid):
        raise EmbeddedError(
            f"{shown(path)} is not a private folder of {account.name}: remove it, or choose "
            "another folder for the data"
        )


def url_of(sockets: Path, user: str = "postgres", name: str = "postgres") -> str:
    """Return the URL of a database behind the socket, for libpq."""
    return f"postgresql://{user}@/{name}?host={sockets}&port={PORT}"


def open_file(path: Path, flags: int = 0) -> int:
    """Open a file of ours for reading and writing, made where it is missing, never by a link."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | flags, 0o600)


@contextmanager
def locked(path: Path, flags: int = 0) -> Generator[None]:
    """Hold the lock of a file; with LOCK_NB raises BlockingIOError where another holds it."""
    lock = open_file(path)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | flags)
        while os.fstat(lock).st_nlink == 0:  # it was cleared up while we waited for it
            os.close(lock)
            lock = open_file(path)
            fcntl.flock(lock, fcntl.LOCK_EX | flags)
        yield
        # Explicitly, for a fork by another thread would have left the lock with the child.
        fcntl.flock(lock, fcntl.LOCK_UN)
    finally:
        os.close(lock)


@contextmanager
def server_lock(folder: Path) -> Generator[int | None]:
    """Yield the lock that every process of a server inherits, or None while one lives."""
    lock = open_file(folder / "server.lock")
    free = False
    try:
        with suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            free = True
        yield lock if free else None
    finally:
        os.close(lock)


def last_words(folder: Path) -> str:
    """Return the end of the server's log, and what may have kept it from writing one."""
    lines = (folder / "server.log").read_bytes()[-4_000:].decode(errors="replace").splitlines()
    full = shutil.disk_usage(folder).free < LARGEST_LOG
    return "\n".join([*(["(the disk is full)"] if full else []), *lines[-8:]])


def explain(folder: Path, error: OSError) -> str:
    """Say in a line what stood in the way and what to do."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"the disk that holds {shown(folder)} is full"
    if error.errno in (errno.ENOTDIR, errno.EEXIST):
        return f"{shown(folder)} is a file or lies below one: choose a folder"
    if isinstance(error, PermissionError):
        return _not_ours(Path(error.filename or folder))
    return f"{shown(folder)} cannot be used: {error.strerror}"


def _not_ours(path: Path) -> str:
    owner, me = _owner(path), _user_name(os.geteuid())
    mend = "make it writable" if owner == me else f"run as {owner}"
    return (
        f"no permission for {shown(path)}, which belongs to {owner}: {mend}, or choose another "
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


def shown(path: Path) -> str:
    """Return a path as it can be printed, whatever its bytes."""
    return os.fsencode(path).decode(errors="backslashreplace")
