"""A child: the process that runs handlers for the supervisor that made it.

What runs of the first job's name share says how it goes on: one at a time in the main thread,
many in an event loop, or many in threads.
"""

import contextlib
import ctypes
import os
import queue
import signal
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Final, NoReturn
from uuid import UUID

from queue_core.registry import Registry
from queue_core.run import Stopped, StopReason, StopRequest
from queue_core.worker import serving_loop, serving_threads
from queue_core.worker.describe import describe, headline
from queue_core.worker.execute import execute
from queue_core.worker.frames import LARGEST_TO_CHILD, Frame, FrameError, Frames
from queue_core.worker.guard import boottime
from queue_core.worker.loading import UnusableError, hello, load
from queue_core.worker.memory import (
    OUT_OF_MEMORY,
    explained,
    limit_memory,
    stain_of_memory,
)
from queue_core.worker.messages import (
    Dropped,
    JobMessage,
    Message,
    NoHello,
    Report,
    child_frame,
    read_ask,
    read_id,
    read_job,
)
from queue_core.worker.slate import Slate, handler_of

PR_SET_PDEATHSIG: Final = 1
LINE_BROKEN: Final = 70
"""The exit code of a child that can no longer speak to its supervisor."""
_PIECE: Final = 65_536


class Line:
    """The child's end of the socket pair, read by a thread of its own."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._identity = _identity(sock)
        self._pid = os.getpid()
        self._jobs: queue.SimpleQueue[JobMessage | None] = queue.SimpleQueue()
        self._speaking = threading.Lock()
        self._requests: dict[tuple[UUID, int], StopRequest] = {}
        self._running: UUID | None = None
        self._stopping: UUID | None = None
        self._is_shared = False

    def listen(self) -> None:
        """Start reading, so that the end of the supervisor is the end of this process."""
        threading.Thread(target=self._read, name="countersign-line", daemon=True).start()

    def share(self) -> None:
        """Have runs only asked to stop from now on: several go on, none in charge of signals."""
        self._is_shared = True

    def next_job(self) -> JobMessage | None:
        """Wait for a job; None when there are to be no more."""
        return self._jobs.get()

    def begin(self, job: JobMessage) -> None:
        """Note which run goes on. Raises Stopped where it was told to stop before it began."""
        self._running = job.id
        self.stop_if_told()

    def end(self, job: JobMessage) -> None:
        """Note that the run has ended. Raises Stopped where it was told to stop."""
        self.stop_if_told()
        self._running = None
        self.forget(job)

    def forget(self, job: JobMessage) -> None:
        """Take no more requests for a run that is over, or never begins here."""
        self._requests.pop((job.id, job.attempt), None)

    def stop_if_told(self) -> None:
        """Raise Stopped where the supervisor told us to stop the run that goes on."""
        if self._stopping is not None and self._stopping == self._running:
            raise Stopped

    def say(self, message: Message) -> None:
        """Send a message; where that is impossible, end the process, for it is of no use."""
        try:
            frame = child_frame(message)
            with self._speaking:
                self._require_ours()
                self._sock.sendall(frame)
        except (OSError, FrameError):
            os._exit(LINE_BROKEN)
        except MemoryError:
            os._exit(OUT_OF_MEMORY)

    def leave_if_forked(self) -> None:
        """End this process where it is not the child but a fork that came out of a handler."""
        if os.getpid() != self._pid:
            os._exit(0)

    def _read(self) -> None:
        frames = Frames(LARGEST_TO_CHILD)
        try:
            while data := self._sock.recv(_PIECE):
                for frame in frames.feed(data):
                    self._understand(frame)
                self._require_ours()
        except MemoryError:
            os._exit(OUT_OF_MEMORY)
        except BaseException:  # noqa: BLE001 - a child that hears nothing must not linger
            os._exit(LINE_BROKEN)
        os._exit(0)

    def _require_ours(self) -> None:
        """Raise OSError where a handler has closed the line: its number may be anything by now."""
        if _identity(self._sock) != self._identity:
            raise OSError

    def _understand(self, frame: Frame) -> None:
        match frame["kind"]:
            case "job":
                job = read_job(frame)
                self._requests[job.id, job.attempt] = job.request
                self._jobs.put(job)
            case "ask":
                self._ask(*read_ask(frame))
            case "end":
                self._jobs.put(None)
            case "recall":
                self._drop()
            case _:
                self._stop(read_id(frame))

    def _drop(self) -> None:
        """Forget the runs that have not begun, and say which these were."""
        dropped: list[UUID] = []
        with contextlib.suppress(queue.Empty):
            while job := self._jobs.get_nowait():
                dropped.append(job.id)
                self.forget(job)
        self.say(Dropped(tuple(dropped)))

    def _ask(self, job: UUID, attempt: int, why: StopReason) -> None:
        """Let a run see that it is asked to stop, unless it is over."""
        if request := self._requests.get((job, attempt)):
            request.ask(why)

    def _stop(self, job: UUID) -> None:
        for (asked, _), request in list(self._requests.items()):
            if asked == job:
                request.ask("stopped")
        if self._is_shared:
            return
        self._stopping = job
        main = threading.main_thread().ident
        if main is not None:
            # To the main thread alone, which wakes from whatever it waits for.
            signal.pthread_kill(main, signal.SIGTERM)


def main(arguments: Sequence[str]) -> int:
    """Serve the supervisor `parent` over the socket `fd`: `child.py FD PARENT JOBS [MEBIBYTES]`."""
    fd, parent, jobs = int(arguments[0]), int(arguments[1]), arguments[2]
    memory = int(arguments[3]) if arguments[3:] else None
    die_with(parent)
    os.set_inheritable(fd, False)
    line = Line(socket.socket(fileno=fd))
    take_signals = _signals_of(line)
    take_signals()
    if memory:
        limit_memory(memory)
    line.listen()
    try:
        _serve(line, jobs, take_signals, memory)
    except Stopped:
        _leave()
    except MemoryError:
        os._exit(OUT_OF_MEMORY)
    return 0


def die_with(parent: int) -> None:
    """Have the kernel kill this process when the thread that made it ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL))
    if os.getppid() != parent:  # it ended before we could ask
        os._exit(0)


def _identity(sock: socket.socket) -> tuple[int, int]:
    found = os.fstat(sock.fileno())
    return found.st_dev, found.st_ino


def _leave() -> NoReturn:
    """End this process at once: what its code registered for a normal exit could take for ever."""
    with contextlib.suppress(Exception):
        sys.stdout.flush()
    os._exit(0)


def _serve(line: Line, jobs: str, take_signals: Callable[[], None], memory: int | None) -> None:
    registry = _introduce(line, jobs)
    first = line.next_job() if registry else None
    if registry is None or first is None:
        return
    handler = registry.handlers.get(first.name)
    match handler and handler.shares:
        case None:
            _serve_alone(line, registry, first, take_signals, memory)
        case "loop":
            line.share()
            serving_loop.serve(line, registry, first, memory)
        case "threads":
            line.share()
            serving_threads.serve(line, registry, first, memory)


def _serve_alone(
    line: Line,
    registry: Registry,
    first: JobMessage,
    take_signals: Callable[[], None],
    memory: int | None,
) -> None:
    slate = Slate()
    job: JobMessage | None = first
    while job:
        take_signals()  # again, since a handler may have set its own
        line.begin(job)
        began = boottime()
        ending = execute(job, registry)
        line.leave_if_forked()
        line.end(job)
        took = boottime() - began
        stain = stain_of_memory(ending, memory) or slate.wipe()
        line.say(Report(job.id, explained(ending, memory), began, took, stain))
        if stain:
            _leave()
        job = line.next_job()


def _introduce(line: Line, jobs: str) -> Registry | None:
    """Say hello, or why not."""
    try:
        registry = load(jobs)
        greeting = hello(registry)
    except Stopped:
        raise
    except UnusableError as error:
        line.say(NoHello(str(error)))
    except BaseException as error:  # noqa: BLE001 - a module may raise anything while it is imported
        why = f"importing {jobs.partition(':')[0]!r} failed: {headline(error)}"
        line.say(NoHello(why, describe(error).traceback or ""))
    else:
        line.say(greeting)
        return registry
    return None


def _signals_of(line: Line) -> Callable[[], None]:
    """Return what takes the signals over, cheap where nobody else has taken them since."""

    def stop(_signal: int, _frame: FrameType | None) -> None:
        # A service manager that stops us sends SIGTERM to every process: the run goes on,
        # for as long as the supervisor grants it.
        line.stop_if_told()

    def take() -> None:
        if handler_of(signal.SIGTERM) is not stop:
            signal.signal(signal.SIGTERM, stop)
        if handler_of(signal.SIGINT) != signal.SIG_IGN:
            signal.signal(signal.SIGINT, signal.SIG_IGN)

    return take


def run() -> NoReturn:
    """Run as a program."""
    sys.exit(main(sys.argv[1:]))


if __name__ == "__main__":
    run()
