"""PgBouncer in front of a server of the tests, set up as docs/operations.md has it."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from psycopg import conninfo

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
PGBOUNCER = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin:/usr/local/sbin")
USERS = ("postgres", "countersign_service")
PORT = 6432
SECONDS = 30


def configured(folder: Path, sockets: str, passes: str) -> Path:
    """Write the configuration of the page, for a socket of the tests and any database."""
    (text,) = re.findall(r"^```ini\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    users = folder / "users.txt"
    users.write_text("".join(f'"{user}" ""\n' for user in USERS))
    changes = {
        "countersign = host=127.0.0.1 port=5432 dbname=countersign": f"* = host={sockets}",
        "listen_addr = 127.0.0.1": f"listen_addr =\nunix_socket_dir = {folder}",
        "auth_type = scram-sha-256": "auth_type = trust",
        "/etc/pgbouncer/userlist.txt": str(users),
        "ignore_startup_parameters = options": f"ignore_startup_parameters = {passes}",
    }
    for ours, theirs in changes.items():
        assert text.count(ours) == 1
        text = text.replace(ours, theirs)
    path = folder / "pgbouncer.ini"
    path.write_text(text)
    return path


@contextmanager
def pooler(url: str, passes: str = "options") -> Iterator[str]:
    """Yield `url` as it leads through a PgBouncer of our own, which ends with the block.

    It runs as whoever the server runs as, since nobody else may enter its folder of sockets.
    """
    with (
        tempfile.TemporaryDirectory(prefix="pgb-") as folder,
        _begun(url, Path(folder), passes) as it,
    ):
        yield it


@contextmanager
def _begun(url: str, folder: Path, passes: str) -> Iterator[str]:
    sockets = str(conninfo.conninfo_to_dict(url)["host"])
    found = Path(sockets).stat()
    path = configured(folder, sockets, passes)
    for each in (folder, *folder.iterdir()):
        os.chown(each, found.st_uid, found.st_gid)
    is_root = os.geteuid() == 0
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [str(PGBOUNCER), str(path)],
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            user=found.st_uid if is_root else None,
            group=found.st_gid if is_root else None,
        )
    through = conninfo.make_conninfo(url, host=str(folder), port=PORT)
    try:
        give_up = time.monotonic() + SECONDS
        while not _answers(conninfo.make_conninfo(through, dbname="postgres")):
            assert process.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < give_up, (folder / "log").read_text()
            time.sleep(0.05)
        yield through
    finally:
        process.terminate()
        process.wait(SECONDS)


def passed_through_it(*chosen: str, seconds: float) -> int:
    """Run tests with such a pooler in between, and return how many passed; the others are told."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", *chosen],
        cwd=ROOT, env={**os.environ, "TESTS_THROUGH": "pgbouncer"},
        capture_output=True, text=True, check=False, timeout=seconds,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4_000:]
    (passed,) = re.findall(r"(\d+) passed", done.stdout)
    return int(passed)


def _answers(url: str) -> bool:
    try:
        psycopg.connect(url, prepare_threshold=None).close()
    except psycopg.OperationalError:
        return False
    return True
