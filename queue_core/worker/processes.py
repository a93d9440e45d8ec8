"""This process and its neighbours: who we are, and which of them are proven gone."""

import importlib.metadata
import os
import socket
from pathlib import Path
from typing import Final

from queue_core.fleet import Identity
from queue_core.worker.options import WorkerOptions

_PROCESSES: Final = Path("/proc")
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_PID_NAMESPACE: Final = Path("/proc/self/ns/pid")
_TIME_NAMESPACE: Final = Path("/proc/self/ns/time")
_STARTED: Final = 19
"""Which field of a `stat`, counted after the name, says when its process began: in ticks."""
_LONGEST_HOST: Final = 255


def identity(options: WorkerOptions, slots: int) -> Identity:
    """Return what this worker says of itself when it registers."""
    return Identity(
        host=socket.gethostname()[:_LONGEST_HOST] or "unknown",
        pid=os.getpid(),
        boot_id=_boot_id(),
        pid_namespace=_pid_namespace(),
        version=_version(),
        queues=sorted(options.queues),
        slots=slots,
        name=options.name,
        process_start=process_start(os.getpid()),
    )


def can_judge(us: Identity) -> bool:
    """Say whether a pid that we do not find proves anything: both ids have to be known."""
    return bool(us.boot_id and us.pid_namespace)


def process_start(pid: int) -> str | None:
    """Return what tells a process from any other that has its pid in its turn; None if unknown.

    It is when it began, and whose clock says so: a time namespace may have another.
    """
    fields = _stat(pid)
    return f"{fields[_STARTED]} {_link(_TIME_NAMESPACE)}" if fields else None


def is_gone(pid: int, start: str | None) -> bool:
    """Say whether the process of that pid that began at `start` runs here no more.

    A zombie does not run. Our own pid belongs to us, so any earlier bearer of it is gone. Where
    `start` or what runs now cannot be told, whoever has the pid is taken for it.
    """
    if pid == os.getpid():
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass  # somebody else's: it may have been given the number since
    fields = _stat(pid)
    if fields is None:
        return False  # nobody knows; one that ended just now is found gone the next time
    return fields[0] in {"Z", "X"} or _is_another(start, process_start(pid))


def _is_another(start: str | None, now: str | None) -> bool:
    if start is None or now is None:
        return False
    (began, clock), (begins, clock_now) = start.split(" ", 1), now.split(" ", 1)
    return clock == clock_now and began != begins


def _stat(pid: int) -> list[str] | None:
    """Return what the kernel says of a process after its name; None where there is nothing."""
    try:
        status = (_PROCESSES / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return status.rpartition(")")[2].split()


def _boot_id() -> str:
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _pid_namespace() -> str:
    """Return our pid namespace; nothing where /proc shows the processes of another."""
    shows_ours = _link(_PROCESSES / "self") == str(os.getpid())
    return _link(_PID_NAMESPACE) if shows_ours else ""


def _link(path: Path) -> str:
    try:
        return str(path.readlink())
    except OSError:
        return ""


def _version() -> str:
    try:
        return importlib.metadata.version("countersign")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
