"""When children may be started: at once, or after a pause that grows while starts fail."""

import signal
import time
from typing import Final

from queue_core.outcomes import Failed
from queue_core.worker import logs

FIRST_PAUSE: Final = 0.5
LONGEST_PAUSE: Final = 10.0
CRASHES: Final = 5
"""So many in a row cost nothing but themselves; after each further one starts wait."""
LONGEST_AFTER_CRASH: Final = 2.0
"""Shorter, since the jobs behind those that crash wait as well."""
SENT: Final = frozenset(
    {signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT}
)
"""Signals of whoever kills, such as the kernel for want of memory; no crash is one of them."""
HOPELESS: Final = 3
"""After so many children that ended without a hello there will be none."""


class Starts:
    """What the starts that failed have taught. All times are on the monotonic clock."""

    def __init__(self) -> None:
        self.next_at = 0.0
        """When the next child may be started."""
        self._speechless = 0
        self._pause = 0.0
        self._crashes = 0
        self._complaint: str | None = None

    def worked(self) -> None:
        """Note that a child has run something: the next pause is a short one again."""
        self._pause = 0.0
        self._crashes = 0

    def crashed(self) -> None:
        """Note that a child died of its run. Many in a row would do nothing but start children."""
        self._crashes += 1
        if self._crashes > CRASHES:
            self._wait(LONGEST_AFTER_CRASH)
            logs.warning("children crash in a row", crashes=self._crashes, pause=self._pause)

    def ended(self, how: Failed, *, greeted: bool, by_us: bool) -> None:
        """Note that a child ended before it had a run, killed `by_us` or not.

        Without a hello it speaks against its program, unless somebody else killed it.
        """
        if not greeted and (by_us or how.signal not in SENT):
            self._speechless += 1
        self.failed(how.error)

    def failed(self, why: str) -> None:
        """Wait longer each time before the next start, so that a broken start eats no processor."""
        self._wait(LONGEST_PAUSE)
        logs.error("a child ended before it had a run", why=why, pause=self._pause)

    def _wait(self, longest: float) -> None:
        self._pause = min(max(self._pause * 2, FIRST_PAUSE), longest)
        self.next_at = time.monotonic() + self._pause

    def complain(self, why: str, traceback: str) -> None:
        """Note what a child said why it cannot use the jobs."""
        self._complaint = why
        logs.error("a child cannot use the jobs", why=why)
        if traceback:
            logs.error("its traceback", traceback=traceback)

    def hopeless(self) -> str | None:
        """Say why no child will ever say hello, if so it seems."""
        if self._complaint is None and self._speechless >= HOPELESS:
            return "its children end before they have said hello"
        return self._complaint
