"""The guard: a process that kills a worker's children once their supervisor is silent too long.

It is told over a socket, in lines: `+PID` a child was made, `-PID` it is gone, `=SECONDS` the
instant, on the clock that counts suspended time too, after which silence means death. It runs
by its file alone, on the standard library, so that it is small and starts at once.
"""

import contextlib
import os
import select
import signal
import socket
import sys
import time

LOOK_SECONDS = 0.5
"""Between looks at the clock: waiting does not count the time that the machine was suspended."""


def boottime() -> float:
    """Return seconds on a clock that goes on while the machine is suspended."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class Guard:
    """What a guard knows: the children that live, and until when silence is allowed."""

    def __init__(self) -> None:
        self.children: set[int] = set()
        self.deadline: float | None = None
        self._rest = b""

    def hear(self, data: bytes) -> None:
        """Take the next bytes of what the supervisor says."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            sign, number = line[:1], line[1:]
            if sign == b"+":
                self.children.add(int(number))
            elif sign == b"-":
                self.children.discard(int(number))
            else:
                self.deadline = float(number)

    def patience(self) -> float | None:
        """Return how long to wait for the next word, in seconds; None is for ever."""
        if self.deadline is None:
            return None
        return min(max(self.deadline - boottime(), 0.0), LOOK_SECONDS)

    def overdue(self) -> bool:
        """Say whether the supervisor has been silent for too long."""
        return self.deadline is not None and boottime() >= self.deadline

    def kill(self) -> None:
        """Kill every child, and with it all that its handlers started."""
        for pid in self.children:
            with contextlib.suppress(OSError):
                os.killpg(pid, signal.SIGKILL)


def watch(line: socket.socket) -> None:
    """Return when the supervisor is gone or overdue; its children are killed by then."""
    guard = Guard()
    while True:
        # What was said comes before the clock: this process may itself have been kept waiting.
        if select.select([line], [], [], guard.patience())[0]:
            data = _heard(line)
            if not data:
                break
            guard.hear(data)
        elif guard.overdue():
            break
    guard.kill()


def _heard(line: socket.socket) -> bytes:
    try:
        return line.recv(65_536)
    except OSError:
        return b""


if __name__ == "__main__":
    # The supervisor ends us by closing the line; what ends it by a signal must find us still here.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    watch(socket.socket(fileno=int(sys.argv[1])))
