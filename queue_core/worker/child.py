"""A child: the process that runs handlers, one job at a time, for the supervisor that made it."""

import contextlib
import ctypes
import importlib
import inspect
import os
import queue
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from types import FrameType, ModuleType
from typing import Final, NoReturn

from queue_core.registry import Registry
from queue_core.transitions.claim import Claimable
from queue_core.worker.describe import describe, headline
from queue_core.worker.execute import execute
from queue_core.worker.frames import LARGEST_TO_CHILD, FrameError, Frames
from queue_core.worker.messages import (
    Hello,
    JobMessage,
    NoHello,
    Report,
    child_frame,
    read_job,
)

PR_SET_PDEATHSIG: Final = 1
LINE_BROKEN: Final = 70
"""The exit code of a child that can no longer speak to its supervisor."""
_PIECE: Final = 65_536
_NOT_PLAIN: Final = (
    inspect.iscoroutinefunction,
    inspect.isgeneratorfunction,
    inspect.isasyncgenfunction,
)


class Stopped(BaseException):
    """Raised in the handler when its run is to stop, so that its `finally` blocks run."""


class UnusableError(Exception):
    """The jobs that were named cannot be used; the text says why."""


class Line:
    """The child's end of the socket pair, read by a thread of its own."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._pid = os.getpid()
        self._jobs: queue.SimpleQueue[JobMessage | None] = queue.SimpleQueue()
        self.stopping = False
        """Whether the supervisor told us to stop; only then does SIGTERM mean anything."""

    def listen(self) -> None:
        """Start reading, so that the end of the supervisor is the end of this process."""
        threading.Thread(target=self._read, name="countersign-line", daemon=True).start()

    def next_job(self) -> JobMessage | None:
        """Wait for a job; None when there are to be no more."""
        return self._jobs.get()

    def say(self, message: Hello | NoHello | Report) -> None:
        """Send a message; where that is impossible, end the process, for it is of no use."""
        try:
            self._sock.sendall(child_frame(message))
        except (OSError, FrameError):
            os._exit(LINE_BROKEN)

    def leave_if_forked(self) -> None:
        """End this process where it is not the child but a fork that came out of a handler."""
        if os.getpid() != self._pid:
            os._exit(0)

    def _read(self) -> None:
        frames = Frames(LARGEST_TO_CHILD)
        try:
            while data := self._sock.recv(_PIECE):
                for frame in frames.feed(data):
                    match frame["kind"]:
                        case "job":
                            self._jobs.put(read_job(frame))
                        case "end":
                            self._jobs.put(None)
                        case _:
                            self._stop()
        except BaseException:  # noqa: BLE001 - a child that hears nothing must not linger
            os._exit(LINE_BROKEN)
        os._exit(0)

    def _stop(self) -> None:
        self.stopping = True
        main = threading.main_thread().ident
        if main is not None:
            # To the main thread alone, which wakes from whatever it waits for.
            signal.pthread_kill(main, signal.SIGTERM)


def main(arguments: Sequence[str]) -> int:
    """Serve the supervisor `parent` over the socket `fd`: `child.py FD PARENT JOBS`."""
    fd, parent, jobs = int(arguments[0]), int(arguments[1]), arguments[2]
    die_with(parent)
    os.set_inheritable(fd, False)
    line = Line(socket.socket(fileno=fd))
    _take_signals(line)
    line.listen()
    try:
        _serve(line, jobs)
    except Stopped:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
        os._exit(0)  # what the handler's code registered for a normal exit could take for ever
    return 0


def die_with(parent: int) -> None:
    """Have the kernel kill this process when the thread that made it ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL))
    if os.getppid() != parent:  # it ended before we could ask
        os._exit(0)


def load(jobs: str) -> Registry:
    """Import `MODULE[:REGISTRY]` and return its registry.

    Raises UnusableError where there is none, or several and none was named.
    """
    module_name, _, name = jobs.partition(":")
    module = importlib.import_module(module_name)
    registry = _named(module, name) if name else _only(module)
    if not registry.handled():
        raise UnusableError(f"the registry of {jobs!r} has no handlers")
    for handler in registry.handlers.values():
        if any(is_other(handler.function) for is_other in _NOT_PLAIN):
            raise UnusableError(
                f"the handler of {handler.name!r} is async or a generator; workers call plain ones"
            )
    return registry


def _named(module: ModuleType, name: str) -> Registry:
    found: object = getattr(module, name, None)
    if not isinstance(found, Registry):
        raise UnusableError(f"module {module.__name__!r} has no registry called {name!r}")
    return found


def _only(module: ModuleType) -> Registry:
    found = {name: value for name, value in vars(module).items() if isinstance(value, Registry)}
    if len({id(registry) for registry in found.values()}) == 1:
        return next(iter(found.values()))
    if not found:
        raise UnusableError(f"module {module.__name__!r} has no registry of jobs")
    listed = ", ".join(f"{module.__name__}:{name}" for name in found)
    raise UnusableError(f"module {module.__name__!r} has several registries: name one of {listed}")


def _serve(line: Line, jobs: str) -> None:
    registry = _introduce(line, jobs)
    while registry and (job := line.next_job()):
        _take_signals(line)  # again, since a handler may have set its own
        ending = execute(job, registry)
        line.leave_if_forked()
        if line.stopping:
            raise Stopped
        line.say(Report(job.id, ending))


def _introduce(line: Line, jobs: str) -> Registry | None:
    """Say hello, or why not."""
    try:
        registry = load(jobs)
    except Stopped:
        raise
    except UnusableError as error:
        line.say(NoHello(str(error)))
    except BaseException as error:  # noqa: BLE001 - a module may raise anything while it is imported
        why = f"importing {jobs.partition(':')[0]!r} failed: {headline(error)}"
        line.say(NoHello(why, describe(error).traceback or ""))
    else:
        line.say(Hello(_offers(registry)))
        return registry
    return None


def _offers(registry: Registry) -> tuple[Claimable, ...]:
    handlers = [registry.handlers[name] for name in registry.handled()]
    return tuple(
        Claimable(each.name, each.attempts, each.on_lost, each.time_limit) for each in handlers
    )


def _take_signals(line: Line) -> None:
    def stop(_signal: int, _frame: FrameType | None) -> None:
        # A service manager that stops us sends SIGTERM to every process: the run goes on,
        # for as long as the supervisor grants it.
        if line.stopping:
            raise Stopped

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def run() -> NoReturn:
    """Run as a program."""
    sys.exit(main(sys.argv[1:]))


if __name__ == "__main__":
    run()
