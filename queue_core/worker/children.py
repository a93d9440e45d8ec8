"""One child as the supervisor sees it: a process, a line to it, and the run in its hands."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from queue_core.outcomes import Failed, Stopped
from queue_core.transitions.claim import Claimable
from queue_core.worker.books import RunInHand
from queue_core.worker.frames import LARGEST_FROM_CHILD, Frames
from queue_core.worker.memory import killed_for_memory
from queue_core.worker.messages import Message, read_child

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
    """The run that goes on."""
    ahead: deque[RunInHand]
    """The runs that begin after it, in their order."""
    lead: int
    """How many runs it has ended since it was last idle."""
    lead_seconds: float
    """How long these took, as it says."""
    lead_began: float
    noted: RunInHand | None
    """The run of which the heartbeat knows that it goes on."""
    leaves: bool
    """Whether it said that it leaves: what it was given and has not begun, it never will."""
    recalled: bool
    """Whether it was asked to give back what has not begun, and has not answered."""
    verdict: Failed | Stopped | None
    """How its run ended, whatever it says from now on."""
    served: int
    kills: int
    """How often the kernel had killed for want of memory when it began."""
    kill_at: float
    """When it is killed unless something happens before (monotonic)."""
    hung_up: bool
    killed: bool

    def __init__(
        self, jobs: str, environment: Mapping[str, str], memory: int | None = None
    ) -> None:
        """Start the process in a group of its own, with one end of a new line."""
        self.line, theirs = socket.socketpair()
        self.line.setblocking(False)
        number = theirs.fileno()
        command = ["-m", "queue_core.worker.child", str(number), str(os.getpid()), jobs]
        command += [] if memory is None else [str(memory)]
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
        self.ahead = deque()
        self.lead = 0
        self.lead_seconds = 0.0
        self.lead_began = 0.0
        self.leaves = False
        self.recalled = False
        self.noted = None
        self.verdict = None
        self.served = 0
        self.kills = killed_for_memory()
        self.kill_at = time.monotonic() + START_SECONDS
        self.hung_up = False
        self.killed = False
        self._unsent = bytearray()
        self._frames = Frames(LARGEST_FROM_CHILD)

    @property
    def is_idle(self) -> bool:
        """Whether it could take a run now."""
        return not (self.offers is None or self.run or self._is_leaving)

    @property
    def takes_more(self) -> bool:
        """Whether it could take runs behind the one that goes on."""
        return not (self.run is None or self.verdict or self._is_leaving)

    @property
    def _is_leaving(self) -> bool:
        return self.leaves or self.recalled or self.hung_up or self.killed

    @property
    def runs(self) -> list[RunInHand]:
        """The runs in its hands, the one that goes on first."""
        return [self.run, *self.ahead] if self.run else []

    @property
    def has_unsent(self) -> bool:
        """Whether it has yet to take what was said to it."""
        return bool(self._unsent)

    def give(self, run: RunInHand, frame: bytes) -> None:
        """Hand over a run with the next `send`: it begins when all that it has are over."""
        self._unsent += frame
        if self.run:
            self.ahead.append(run)
        else:
            run.begin()
            self.run = run
            self.lead = 0
            self.lead_seconds = 0.0
            self.lead_began = time.monotonic()

    def next_run(self, seconds: float) -> None:
        """Note that the run is over, and that the one behind it has begun if there is one."""
        self.run = self.ahead.popleft() if self.ahead else None
        if self.run:
            self.run.begin()
        self.verdict = None
        self.served += 1
        self.lead += 1
        self.lead_seconds += seconds

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

    def hear(self) -> list[Message]:
        """Return what has arrived, without waiting. Raises FrameError for what is no message."""
        messages: list[Message] = []
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
        self.killed = True
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
