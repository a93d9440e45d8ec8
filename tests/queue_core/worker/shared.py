"""Handlers whose runs share a process: `loop.…` its event loop, `threads.…` its threads."""

# ruff: noqa: ASYNC110, ASYNC222, ASYNC240, ASYNC251 - some do on purpose what none should

import asyncio
import os
import signal
import threading
import time
from contextvars import ContextVar
from pathlib import Path

from queue_core import Registry, Run

jobs = Registry()

_here = 0
_lock = threading.Lock()
_said: ContextVar[str] = ContextVar("_said", default="nothing")


def _sign_in(path: str) -> None:
    if path:
        Path(path).write_text(str(os.getpid()))


def _arrive() -> int:
    global _here  # noqa: PLW0603 - what runs of one process share
    with _lock:
        _here += 1
        return _here


@jobs.job("plain.echo")
def plain_echo(run: Run) -> int:
    return os.getpid()


@jobs.job("loop.echo")
async def loop_echo(run: Run) -> int:
    return os.getpid()


@jobs.job("threads.echo", threads=True)
def threads_echo(run: Run) -> int:
    return os.getpid()


@jobs.job("loop.meet")
async def loop_meet(run: Run, of: int) -> int:
    """Return once so many runs of this process have come here."""
    _arrive()
    while _here < of:
        await asyncio.sleep(0.01)
    return os.getpid()


@jobs.job("threads.meet", threads=True)
def threads_meet(run: Run, of: int) -> int:
    _arrive()
    while _here < of:
        time.sleep(0.01)
    return os.getpid()


@jobs.job("loop.wait", attempts=2)
async def loop_wait(run: Run, path: str, tidied: str = "") -> str:
    """Wait until a file is there, `path` with `.end` at its end."""
    try:
        _sign_in(path)
        while not Path(path + ".end").exists():
            await asyncio.sleep(0.01)
    finally:
        if tidied:
            Path(tidied).write_text(str(run.stop_requested()))
    return "waited"


@jobs.job("threads.wait", threads=True, attempts=2)
def threads_wait(run: Run, path: str, tidied: str = "") -> str:
    """Wait until a file is there, or the run is asked to stop if `tidied` is given."""
    _sign_in(path)
    while not Path(path + ".end").exists():
        if tidied and (why := run.stop_requested()):
            Path(tidied).write_text(why)
            raise ValueError("stopped half-way")
        time.sleep(0.01)
    return "waited"


@jobs.job("loop.alone", limit=1)
async def loop_alone(run: Run, path: str) -> None:
    await loop_wait(run, path)


@jobs.job("loop.stubborn")
async def loop_stubborn(run: Run, path: str, told: str = "") -> None:
    """Wait, and let nothing stop it; a file at `told` says that it was to be stopped."""
    _sign_in(path)
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            if told:
                Path(told).touch()


@jobs.job("loop.block")
async def loop_block(run: Run, path: str) -> None:
    """Wait as plain code does, so that nothing else of the loop goes on."""
    _sign_in(path)
    time.sleep(60)


@jobs.job("threads.stubborn", threads=True)
def threads_stubborn(run: Run, path: str, told: str = "") -> None:
    _sign_in(path)
    while True:
        time.sleep(0.01)
        if told and run.stop_requested():
            Path(told).touch()


@jobs.job("loop.leave")
async def loop_leave(run: Run) -> None:
    raise SystemExit(3)


@jobs.job("loop.leave_later")
async def loop_leave_later(run: Run) -> str:
    """Leave the process in a task of its own."""

    async def leave() -> None:
        raise SystemExit(3)

    asyncio.get_running_loop().create_task(leave())
    await asyncio.sleep(0.05)
    return "still there"


@jobs.job("threads.leave", threads=True)
def threads_leave(run: Run) -> None:
    raise KeyboardInterrupt


@jobs.job("loop.die", attempts=3)
async def loop_die(run: Run) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@jobs.job("threads.die", threads=True, attempts=3)
def threads_die(run: Run) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@jobs.job("loop.fork")
async def loop_fork(run: Run, path: str) -> str:
    """Let a fork come back to the loop, where other runs wait for their turn."""
    loop, child = asyncio.get_running_loop(), os.getpid()
    forked: asyncio.Future[int] = loop.create_future()

    def go_on() -> None:
        if os.getpid() != child:
            Path(path).write_text("the fork went on")

    loop.call_soon(lambda: forked.set_result(os.fork()))
    loop.call_soon(go_on)
    pid = await forked
    go_on()
    if pid:
        os.waitpid(pid, 0)
    return "from the child" if pid else "from the fork"


@jobs.job("threads.fork", threads=True)
def threads_fork(run: Run, path: str) -> str:
    pid = os.fork()
    if pid == 0:
        return "from the fork"
    os.waitpid(pid, 0)
    return "from the child"


@jobs.job("loop.say")
async def loop_say(run: Run, of: int) -> str:
    """Return what was said in the context of this run before it said something itself."""
    before = _said.get()
    _said.set(str(run.id))
    await loop_meet(run, of)
    return before if _said.get() == str(run.id) else "another's"


@jobs.job("threads.say", threads=True)
def threads_say(run: Run, of: int) -> str:
    before = _said.get()
    _said.set(str(run.id))
    return before
