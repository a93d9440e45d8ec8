"""Handlers for the tests of the worker, each of which does one thing that handlers do."""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from queue_core import PermanentError, Registry, RetryAfter, Run, Stopped

jobs = Registry()


def _sign_in(path: str) -> None:
    """Say in a file that this run has begun, and in which process."""
    if path:
        Path(path).write_text(str(os.getpid()))


@jobs.job("sample.echo")
def echo(run: Run, value: object = None) -> object:
    return value


@jobs.job("sample.print")
def printer(run: Run, text: str) -> str:
    sys.stdout.write(text)
    sys.stdout.flush()
    os.write(1, b"\x00\x00\x00\x05hello")
    return "printed"


@jobs.job("sample.raise", attempts=3)
def raiser(run: Run, text: str = "no such address") -> None:
    raise ValueError(text)


@jobs.job("sample.permanent", attempts=3)
def permanent(run: Run) -> None:
    raise PermanentError("the account is closed")


@jobs.job("sample.later", attempts=3)
def later(run: Run, seconds: float) -> None:
    raise RetryAfter(seconds)


@jobs.job("sample.defer")
def deferrer(run: Run, seconds: float) -> None:
    run.defer(seconds)


@jobs.job("sample.leave")
def leaver(run: Run) -> None:
    raise SystemExit(3)


@jobs.job("sample.die")
def dier(run: Run, number: int = 9, path: str = "") -> None:
    _sign_in(path)
    os.kill(os.getpid(), number)
    time.sleep(60)


@jobs.job("sample.exit", attempts=5)
def exiter(run: Run, code: int) -> None:
    os._exit(code)


@jobs.job("sample.review", on_lost="review")
def reviewed(run: Run, path: str = "") -> None:
    _sign_in(path)
    os.kill(os.getpid(), signal.SIGKILL)


@jobs.job("sample.sleep")
def sleeper(run: Run, seconds: float, path: str = "", tidied: str = "") -> str:
    try:
        _sign_in(path)
        time.sleep(seconds)
    finally:
        if tidied:
            Path(tidied).write_text("tidied")
    return "slept"


@jobs.job("sample.heed")
def heeder(run: Run, path: str = "", only: str = "") -> list[str]:
    """Go on until the run is asked to stop (for one reason only), and return what was asked."""
    _sign_in(path)
    heard: list[str] = []
    while not heard or heard[-1] not in (only or heard[-1]):
        if (why := run.stop_requested()) and why not in heard:
            heard.append(why)
            _sign_in(path and f"{path}.{why}")
        time.sleep(0.01)
    return heard


@jobs.job("sample.obey")
def obeyer(run: Run, path: str = "") -> None:
    """Go on until the run is asked to stop, and stop."""
    _sign_in(path)
    while not (why := run.stop_requested()):
        time.sleep(0.01)
    raise Stopped(f"asked by {why}")


@jobs.job("sample.stubborn")
def stubborn(run: Run, path: str = "") -> None:
    _sign_in(path)
    while True:
        with contextlib.suppress(BaseException):
            time.sleep(60)


@jobs.job("sample.gil")
def gil_holder(run: Run, seconds: int, path: str = "") -> None:
    """Wait in C without letting go of the GIL: no thread of this process can run."""
    _sign_in(path)
    ctypes.PyDLL(None).sleep(seconds)


@jobs.job("sample.parent")
def parent(run: Run, path: str, seconds: float = 60) -> None:
    """Leave a process behind that holds everything this one has open."""
    other = subprocess.Popen(["sleep", "120"], close_fds=False)
    _sign_in(path)
    Path(path + ".child").write_text(str(other.pid))
    time.sleep(seconds)


@jobs.job("sample.fork")
def forker(run: Run, path: str) -> str:
    """Let a fork come back from the handler, as if it were the child."""
    pid = os.fork()
    if pid == 0:
        return "from the fork"
    os.waitpid(pid, 0)
    return "from the child"


@jobs.job("sample.garbage")
def garbage(run: Run) -> None:
    """Write to the line to the supervisor, by whatever number it has."""
    for number in range(3, 40):
        with contextlib.suppress(OSError):
            os.write(number, b"\xff" * 64)
    time.sleep(60)


@jobs.job("sample.alone", limit=1)
def loner(run: Run, path: str) -> None:
    _sign_in(path)
    while not Path(path).with_suffix(".end").exists():
        time.sleep(0.02)


@jobs.job("sample.hang_up")
def hanger_up(run: Run) -> None:
    """Close what is not ours to close, the line to the supervisor with it."""
    os.closerange(3, 256)


@jobs.job("sample.environment")
def environment(run: Run) -> dict[str, bool]:
    return {
        name: name in os.environ
        for name in ("DATABASE_URL", "QUEUE_OWNER_URL", "QUEUE_SECRET_KEY", "COUNTERSIGN_TEST")
    }


@jobs.job("sample.count")
def counter(run: Run, path: str) -> None:
    """Note in a file that this job was run."""
    with Path(path).open("a") as file:
        file.write(f"{run.id}\n")


@jobs.job("sample.safe", safe_to_repeat=True)
def safe_sleeper(run: Run, seconds: float = 0, path: str = "") -> int:
    """Sleep; a run of this may be claimed ahead."""
    _sign_in(path)
    time.sleep(seconds)
    return os.getpid()


@jobs.job("sample.safe_two", safe_to_repeat=True, limit=2)
def safe_pair(run: Run, seconds: float = 0, path: str = "") -> None:
    _sign_in(path)
    time.sleep(seconds)


@jobs.job("sample.safe_die", safe_to_repeat=True)
def safe_dier(run: Run) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@jobs.job("sample.safe_stubborn", safe_to_repeat=True)
def safe_stubborn(run: Run, path: str) -> None:
    _sign_in(path)
    while True:
        with contextlib.suppress(BaseException):
            time.sleep(60)
