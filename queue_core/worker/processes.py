"""This process and its neighbours: who we are, and which of them are proven gone."""

import importlib.metadata
import os
import socket
from pathlib import Path
from typing import Final

from queue_core.fleet import Identity
from queue_core.worker.options import WorkerOptions

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_PID_NAMESPACE: Final = Path("/proc/self/ns/pid")
_LONGEST_HOST: Final = 255


def identity(options: WorkerOptions) -> Identity:
    """Return what this worker says of itself when it registers."""
    return Identity(
        host=socket.gethostname()[:_LONGEST_HOST] or "unknown",
        pid=os.getpid(),
        boot_id=_boot_id(),
        pid_namespace=_pid_namespace(),
        version=_version(),
        queues=sorted(options.queues),
        slots=options.processes,
        name=options.name,
    )


def can_judge(us: Identity) -> bool:
    """Say whether a pid that we do not find proves anything: both ids have to be known."""
    return bool(us.boot_id and us.pid_namespace)


def is_gone(pid: int) -> bool:
    """Say whether no process of that pid runs here any more; a zombie does not run.

    Our own pid belongs to us, so any earlier bearer of it is gone.
    """
    if pid == os.getpid():
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return _is_zombie(pid)


def _is_zombie(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return Path("/proc/self/stat").exists()  # it ended just now; without /proc nobody knows
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] in {"Z", "X"}


def _boot_id() -> str:
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _pid_namespace() -> str:
    try:
        return str(_PID_NAMESPACE.readlink())
    except OSError:
        return ""


def _version() -> str:
    try:
        return importlib.metadata.version("countersign")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
