"""One child as the supervisor sees it: a process, a line to it, and the run in its hands."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from queue_core.outcomes import Failed
from queue_core.transitions.claim import Claimable
from queue_core.worker.books import RunInHand
from queue_core.worker.frames import LARGEST_FROM_CHILD, Frames
from queue_core.worker.messages import Hello, NoHello, Report, read_child

START_SECONDS: Final = 60.0
"""How long a child may take to import its code and say hello."""
_PIECE: Final = 65_536
_MOST_PIECES: Final = 64
"""Read in a row, so that one child that never stops speaking cannot keep the others waiting."""


class Child:
    """A child process. Make it in the main thread: it dies with the thread that made it."""

    pid: int
    offers: tuple[Claimable, ...] | None
    """What its code handles; None until it has said hello."""
    run: RunInHand | None
    verdict: Failed | None
    """How its run ended, whatever it says from now on."""
    served: int
    kill_at: float
    """When it is killed unless something happens before (monotonic)."""
    hung_up: bool

    def __init__(self, jobs: str, environment: Mapping[str, str]) -> None:
        """Start the process in a group of its own, with one end of a new line."""
        self.line, theirs = socket.socketpair()
        self.line.setblocking(False)
        number = theirs.fileno()
        command = ["-m", "queue_core.worker.child", str(number), str(os.getpid()), jobs]
        try:
            self._process = subprocess.Popen(
                [sys.executable, *command],
                stdin=subprocess.DEVNULL,
                env=environment,
                pass_fds=[number],
                process_group=0,
            )
        except OSError:
            self.line.close()
            raise
        finally:
            theirs.close()
        self.pid = self._process.pid
        self.offers = None
        self.run = None
        self.verdict = None
        self.served = 0
        self.kill_at = time.monotonic() + START_SECONDS
        self.hung_up = False
        self._killed = False
        self._unsent = bytearray()
        self._frames = Frames(LARGEST_FROM_CHILD)

    @property
    def is_idle(self) -> bool:
        """Whether it could take a run now."""
        return not (self.offers is None or self.run or self.hung_up or self._killed)

    @property
    def has_unsent(self) -> bool:
        """Whether it has yet to take what was said to it."""
        return bool(self._unsent)

    def say(self, frame: bytes) -> None:
        """Send a frame, or as much of it as the line takes now; `send` goes on with the rest."""
        self._unsent += frame
        self.send()

    def send(self) -> None:
        """Send what is left, without waiting."""
        try:
            while self._unsent:
                del self._unsent[: self.line.send(self._unsent)]
        except BlockingIOError:
            return
        except OSError:
            self._unsent.clear()  # it is ending; its death says the rest

    def hear(self) -> list[Hello | NoHello | Report]:
        """Return what has arrived, without waiting. Raises FrameError for what is no message."""
        messages: list[Hello | NoHello | Report] = []
        for _ in range(_MOST_PIECES):
            try:
                data = self.line.recv(_PIECE)
            except BlockingIOError:
                break
            except OSError:
                data = b""
            self.hung_up = not data
            messages += [read_child(frame) for frame in self._frames.feed(data)]
            if self.hung_up:
                break
        return messages

    def kill(self) -> None:
        """Kill it at once, and all that its handlers started."""
        self._killed = True
        with suppress(OSError):
            os.killpg(self.pid, signal.SIGKILL)

    def is_dead(self) -> bool:
        """Say whether it has ended; until `reap` its number stays its own."""
        if not hasattr(os, "waitid"):
            return self._process.poll() is not None
        how = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, self.pid, how) is not None

    def reap(self) -> int:
        """Take leave of a dead child and return its exit code, negative for a signal."""
        self.line.close()
        return self._process.wait()
