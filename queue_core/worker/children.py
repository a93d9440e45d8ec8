"""One child as the supervisor sees it: a process, a line to it, and the runs in its hands."""

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
from uuid import UUID

from queue_core.sharing import Shares
from queue_core.transitions.claim import Claimable
from queue_core.worker.books import RunInHand
from queue_core.worker.frames import LARGEST_FROM_CHILD, Frames
from queue_core.worker.memory import killed_for_memory
from queue_core.worker.messages import END, Message, read_child

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
    going: dict[UUID, RunInHand]
    """The runs that go on, by their jobs."""
    ahead: deque[RunInHand]
    """The runs that begin after the one that goes on, in their order."""
    lead: int
    """How many runs it has ended since it was last idle."""
    lead_seconds: float
    """How long these took, as it says."""
    lead_began: float
    noted: tuple[RunInHand, ...]
    """The runs of which the heartbeat knows that they go on."""
    leaves: bool
    """Whether it is about to leave: what it was given and has not begun, it never will."""
    recalled: bool
    """Whether it was asked to give back what has not begun, and has not answered."""
    served: int
    kills: int
    """How often the kernel had killed for want of memory when it began."""
    kill_at: float
    """When it is killed unless something happens before (monotonic), whatever its runs do."""
    hung_up: bool
    killed: bool

    def __init__(
        self,
        jobs: str,
        environment: Mapping[str, str],
        memory: int | None = None,
        *,
        shares: Shares | None = None,
        slots: int = 1,
    ) -> None:
        """Start the process in a group of its own, with one end of a new line.

        It is to have up to `slots` runs at once, of names whose runs share so.
        """
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
        self.shares: Shares | None = shares
        self.slots = slots
        self.offers = None
        self.going = {}
        self.ahead = deque()
        self.lead = 0
        self.lead_seconds = 0.0
        self.lead_began = 0.0
        self.leaves = False
        self.recalled = False
        self.noted = ()
        self.served = 0
        self.kills = killed_for_memory()
        self.kill_at = time.monotonic() + START_SECONDS
        self.hung_up = False
        self.killed = False
        self._unsent = bytearray()
        self._frames = Frames(LARGEST_FROM_CHILD)

    @property
    def run(self) -> RunInHand | None:
        """The run that has gone on for longest."""
        return next(iter(self.going.values()), None)

    @property
    def is_idle(self) -> bool:
        """Whether it could take a run now, and has none."""
        return not self.going and self.free > 0

    @property
    def free(self) -> int:
        """How many runs it could begin now."""
        if self.offers is None or self._is_leaving:
            return 0
        if any(run.verdict for run in self.going.values()):
            return 0  # it may have to be killed, so the fewer runs with it the better
        return self.slots - len(self.going)

    @property
    def takes_more(self) -> bool:
        """Whether it could take runs behind the one that goes on."""
        if self.shares or self.run is None:
            return False
        return not (self.run.verdict or self._is_leaving)

    @property
    def _is_leaving(self) -> bool:
        return self.leaves or self.recalled or self.hung_up or self.killed

    @property
    def runs(self) -> list[RunInHand]:
        """The runs in its hands, those that go on first."""
        return [*self.going.values(), *self.ahead]

    @property
    def has_unsent(self) -> bool:
        """Whether it has yet to take what was said to it."""
        return bool(self._unsent)

    def give(self, run: RunInHand, frame: bytes, *, goes_on: bool = False) -> None:
        """Hand over a run with the next `send`: it begins when all that it has are over.

        If that is at once a lead begins with it, unless the last one `goes_on`.
        """
        self._unsent += frame
        if len(self.going) >= self.slots:
            self.ahead.append(run)
            return
        self._begin(run)
        if not goes_on:
            self.lead = 0
            self.lead_seconds = 0.0
            self.lead_began = time.monotonic()

    def end(self, run: RunInHand, seconds: float) -> None:
        """Note that a run is over, and that the one behind it has begun if there is one."""
        del self.going[run.claimed.id]
        if self.ahead:
            self._begin(self.ahead.popleft())
        self.served += 1
        self.lead += 1
        self.lead_seconds += seconds

    def _begin(self, run: RunInHand) -> None:
        run.begin()
        self.going[run.claimed.id] = run

    def dismiss(self, until: float) -> None:
        """Tell it to leave, as it has no run, and to have done so by `until` (monotonic)."""
        self.leaves = True
        self.kill_at = until
        self.say(END)

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
