"""The signals of the supervisor: requests to stop, counted, and a way to be woken."""

import math
import signal
import time
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Final

from queue_core.worker.bell import Bell

Handler = Callable[[int, FrameType | None], object] | int | None

SAME_REQUEST_SECONDS: Final = 1.0
"""SIGINT and SIGTERM so close together are one request: a terminal and a manager each sent one."""


class Signals:
    """Counts in `stops` how often this process was asked to stop, and rings the `bell`."""

    def __init__(self) -> None:
        self.stops = 0
        self.bell = Bell()
        self._last: tuple[int, float] = (0, -math.inf)

    def catch(self) -> dict[int, Handler]:
        """Take over SIGTERM, SIGINT, SIGHUP and SIGCHLD; returns what was there before.

        SIGHUP, of a terminal that went away, is a request to stop unless it is ignored (nohup).
        In a process that is nothing but a worker they stay with us after its end, so that an
        impatient second Ctrl-C does not break off what is done at the exit of the process.
        """
        before: dict[int, Handler] = {}
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
                before[number] = signal.signal(number, self._take)
        signal.set_wakeup_fd(self.bell.mouth.fileno(), warn_on_full_buffer=False)
        return before

    def restore(self, before: Mapping[int, Handler]) -> None:
        """Give the signals back."""
        for number, handler in before.items():
            signal.signal(number, handler)

    def release(self) -> None:
        """Stop waking."""
        signal.set_wakeup_fd(-1)
        self.bell.close()

    def _take(self, number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGCHLD:
            return
        (last, at), now = self._last, time.monotonic()
        self._last = (number, now)
        # Of SIGHUP kernel and shell send one each.
        again = number == last and number != signal.SIGHUP
        if again or now - at > SAME_REQUEST_SECONDS:
            self.stops += 1
