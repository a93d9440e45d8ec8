"""The workshop: the crew, its guard and the signals, and the main thread's wait for all of them."""

import math
import selectors
import time
from typing import Final

from queue_core.worker.children import Child
from queue_core.worker.crew import Crew
from queue_core.worker.guarding import Watch, environment
from queue_core.worker.lines import Lines
from queue_core.worker.options import WorkerOptions
from queue_core.worker.roster import Roster
from queue_core.worker.signals import Signals

LOOK_SECONDS: Final = 0.5
"""The longest wait: waiting does not count the time that the machine was suspended."""

NAP_SECONDS: Final = 0.001
"""Before children are heard that have runs ahead, so that several reports are heard at once."""


class Workshop:
    """For the main thread alone, whose end would be the children's."""

    def __init__(self, options: WorkerOptions, signals: Signals, *, once: bool = False) -> None:
        """Start the guard; the children come with the first `look`.

        With `once` there is a single one, which runs whatever it is given, one at a time.
        """
        children_see = environment(options.url)
        self.signals = signals
        self.watch = Watch(children_see)
        self._selector = selectors.DefaultSelector()
        self._selector.register(signals.bell.ears, selectors.EVENT_READ)
        lines = Lines(self._selector)
        self.crew = Crew(Roster(options, children_see, self.watch, lines), lines, once=once)
        self.watch.start()

    def meet(self) -> str | None:
        """Wait for a first child's hello, or a signal; returns why there will be no hello."""
        while not self.crew.is_ready() and not self.signals.stops:
            if why := self.crew.hopeless():
                return why
            self.look()
            self.wait(math.inf)
        return None

    def wait(self, until: float) -> None:
        """Wait until something is said or `until` (monotonic), and hear it."""
        if self.crew.is_ahead():
            time.sleep(NAP_SECONDS)
        until = min(until, self.crew.next_look())
        if not self.signals.stops:
            until = min(until, self.crew.next_start())
        patience = min(max(0.0, until - time.monotonic()), LOOK_SECONDS)
        for key, _ in self._selector.select(patience):
            if isinstance(key.data, Child):
                self.crew.serve(key.data)
            else:
                self.signals.bell.hush()

    def look(self) -> None:
        """Bury the dead, stop what goes on for too long, and start what is missing."""
        self.crew.look()
        self.watch.restart_if_dead()
        if not self.signals.stops:
            self.crew.fill_up()

    def close(self) -> None:
        """Send the crew home, then the guard."""
        self.crew.leave()
        self.watch.close()
        self._selector.close()
