"""Handlers that do to their process what no handler should."""

import contextlib
import locale
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from queue_core import Registry, Run

jobs = Registry()

SIGNALS = (1, 10, 12, 14, 15, 17)
HOARD: list[bytes] = []
POOL = ThreadPoolExecutor(1)


class Endless:
    def __repr__(self) -> str:
        return repr(self)


def is_ignored(number: int) -> bool:
    return signal.getsignal(number) is signal.SIG_IGN


@jobs.job("poison.look", safe_to_repeat=True)
def look(run: Run) -> dict[str, object]:
    """Say what a handler finds in its process."""
    umask = os.umask(0o022)
    os.umask(umask)
    return {
        "pid": os.getpid(),
        "folder": str(Path.cwd()),
        "umask": umask,
        "variables": sorted(name for name in os.environ if name.startswith("POISON")),
        "zone": time.strftime("%Z", time.gmtime(0)) and time.tzname[0],
        "locale": locale.setlocale(locale.LC_ALL),
        "recursion": sys.getrecursionlimit(),
        "ignored": [each for each in SIGNALS if is_ignored(each)],
        "held_back": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
        "alarm": signal.getitimer(signal.ITIMER_REAL),
        "threads": sorted(
            each.name for each in threading.enumerate() if each.name.startswith("poison")
        ),
        "hoard": sum(map(len, HOARD)),
    }


@jobs.job("poison.settings", safe_to_repeat=True)
def settings(run: Run) -> None:
    """Change what of a process can be put back."""
    os.chdir("/")
    os.umask(0)
    os.environ["POISON"] = "left behind"
    os.environ["TZ"] = "Asia/Tokyo"
    time.tzset()
    with contextlib.suppress(locale.Error):
        locale.setlocale(locale.LC_ALL, "C")
    sys.setrecursionlimit(50_000)
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGUSR1})
    signal.setitimer(signal.ITIMER_REAL, 3_600)


@jobs.job("poison.nothing", safe_to_repeat=True)
def nothing(run: Run, seconds: float) -> int:
    time.sleep(seconds)
    return os.getpid()


@jobs.job("poison.thread", safe_to_repeat=True)
def thread(run: Run, *, daemon: bool = False, count: int = 1) -> int:
    threading.stack_size(65_536)  # each counts as a whole
    for number in range(count):
        name = f"poison-{number}"
        threading.Thread(target=time.sleep, args=[600], name=name, daemon=daemon).start()
    return os.getpid()


@jobs.job("poison.pool", safe_to_repeat=True)
def pool(run: Run) -> int:
    """Use a pool that the module keeps."""
    return POOL.submit(os.getpid).result()


@jobs.job("poison.fork", safe_to_repeat=True)
def fork(run: Run) -> list[int]:
    """Leave a fork behind, with the line and all."""
    pid = os.fork()
    if pid == 0:
        time.sleep(600)
    return [os.getpid(), pid]


@jobs.job("poison.program", safe_to_repeat=True)
def program(run: Run) -> list[int]:
    return [os.getpid(), subprocess.Popen(["sleep", "600"]).pid]


@jobs.job("poison.programs", safe_to_repeat=True)
def programs(run: Run) -> int:
    """Start a program that is over by the end of the run, and wait for none."""
    process = subprocess.Popen(["true"])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    return os.getpid()


@jobs.job("poison.output", safe_to_repeat=True)
def output(run: Run, *, closed: bool) -> int:
    """Take the standard output away from whoever comes next."""
    if closed:
        os.close(1)
    else:
        sys.stdout.close()
    return os.getpid()


@jobs.job("poison.print", safe_to_repeat=True)
def flood(run: Run, mebibytes: int) -> int:
    for _ in range(mebibytes):
        sys.stdout.write("x" * 1_048_576)
    return os.getpid()


@jobs.job("poison.eat", safe_to_repeat=True)
def eat(run: Run, *, caught: bool = False) -> int:
    """Take all the memory that there is, and keep it."""
    with contextlib.suppress(MemoryError) if caught else contextlib.nullcontext():
        # Half a gibibyte: without a limit it ends somewhere, too.
        HOARD.extend(bytes(4_194_304) for _ in range(128))
    return os.getpid()


@jobs.job("poison.nibble", safe_to_repeat=True)
def nibble(run: Run) -> None:
    """Take it in small bites, so that nothing is left for whoever has to tell of it."""
    crumbs: list[object] = []
    for _ in range(6_000_000):
        crumbs = [crumbs]


@jobs.job("poison.recurse")
def recurse(run: Run) -> None:
    """Go on beyond what the stack holds."""
    sys.setrecursionlimit(2**31 - 1)
    repr(Endless())


@jobs.job("poison.close")
def close(run: Run) -> None:
    """Close everything, the line to the supervisor with it."""
    os.closerange(0, 4_096)


@jobs.job("poison.usurp")
def usurp(run: Run, path: str) -> str:
    """Put another line in the place of the one to the supervisor: what it hears goes to `path`."""
    os.closerange(3, 4_096)
    ears = socket.socket(socket.AF_UNIX)
    ears.connect(path)
    for number in range(3, 64):
        if number != ears.fileno():
            os.dup2(ears.fileno(), number)
    return "for the supervisor alone"
