"""What a run leaves behind in its process: wiped where that can be, or else the process leaves.

Wiped: working directory, umask, environment, locale, signal handlers, signals held back, the
alarm, the limit of recursion. Left with: threads, processes, what was done to the output.
"""

import importlib
import locale
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final, cast

from queue_core.worker.messages import Stain
from queue_core.worker.signals import Handler

_module: Final = importlib.import_module("_signal")
handler_of: Final[Callable[[int], Handler]] = _module.getsignal
_hold_back: Final[Callable[[int, Iterable[int]], set[int]]] = _module.pthread_sigmask
"""The public functions make enums of all answers, a microsecond a signal at every run."""
_locale_now: Final[Callable[[int], str]] = importlib.import_module("_locale").setlocale
MOST_THREADS: Final = 64
"""More than at the beginning, of the kind that libraries keep: so many are a leak."""
_OURS: Final = {signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM, signal.SIGINT}
"""Which nobody can take, or which the child takes back itself."""


class Slate:
    """How this process was once its code was loaded. For the main thread, between runs."""

    def __init__(self) -> None:
        every = [int(number) for number in sorted(signal.valid_signals() - _OURS)]
        self._signals = [number for number in every if handler_of(number) is not None]
        self._handlers = [handler_of(number) for number in self._signals]
        self._held_back = _hold_back(signal.SIG_BLOCK, ())
        self._folder = os.open(".", os.O_RDONLY)
        self._place = _here()
        self._umask = _umask()
        self._variables = cast("dict[bytes, bytes]", vars(os.environ)["_data"])
        self._environment = self._variables.copy()
        self._locale = locale.setlocale(locale.LC_ALL)
        self._recursion = sys.getrecursionlimit()
        self._threads = threading.enumerate()
        self._processes = _processes()
        self._output = _output()

    def wipe(self) -> Stain | None:
        """Put back what a run may have changed; say why this process is of no use any more."""
        try:
            self._put_back()
        except Exception:  # noqa: BLE001 - whatever was done to it, another process has none of it
            return "settings"
        if self._threads_left():
            return "threads"
        if self._processes_left():
            return "processes"
        return "output" if _output() != self._output else None

    def _put_back(self) -> None:
        sys.setrecursionlimit(self._recursion)
        signal.setitimer(signal.ITIMER_REAL, 0)
        if [*map(handler_of, self._signals)] != self._handlers:
            for number, handler in zip(self._signals, self._handlers, strict=True):
                signal.signal(number, handler)
        _hold_back(signal.SIG_SETMASK, self._held_back)
        if _here() != self._place:
            os.fchdir(self._folder)
        os.umask(self._umask)
        if self._variables != self._environment:
            os.environb.clear()
            os.environb.update(self._environment)
            time.tzset()
        if _locale_now(locale.LC_ALL) != self._locale:
            locale.setlocale(locale.LC_ALL, self._locale)

    def _threads_left(self) -> bool:
        """Say whether a run's own threads go on. Libraries keep daemons, and executors theirs."""
        found = threading.enumerate()
        if found == self._threads:
            return False
        new = set(found) - set(self._threads)
        if not new:
            return False
        module = sys.modules.get("concurrent.futures.thread")
        pooled: set[object] = set(getattr(module, "_threads_queues", ()))
        return len(new) > MOST_THREADS or any(
            not thread.daemon and thread not in pooled for thread in new
        )

    def _processes_left(self) -> bool:
        return _has_processes() and bool(_processes() - self._processes)


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def _here() -> tuple[int, int]:
    return _identity(os.stat("."))  # noqa: PTH116 - a Path costs more than this look, at each run


def _umask() -> int:
    found = os.umask(0o077)
    os.umask(found)
    return found


def _output() -> list[tuple[int, int] | None]:
    """Return which files stand behind standard output and error; None where none does."""
    return [_file_of(1, sys.stdout), _file_of(2, sys.stderr)]


def _file_of(number: int, stream: object) -> tuple[int, int] | None:
    try:
        return None if getattr(stream, "closed", True) else _identity(os.fstat(number))
    except OSError:
        return None


def _has_processes() -> bool:
    """Say whether this process has children, dead or alive: most have none, and this is quick."""
    if not hasattr(os, "waitid"):
        return False  # macOS: nobody knows
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _processes() -> set[int]:
    """Return the children of this process that live."""
    found: set[int] = set()
    for listed in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):
            found |= {int(pid) for pid in listed.read_text().split()}
    return {pid for pid in found if _lives(pid)}


def _lives(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] not in "ZX"
