"""The roster: which children a worker has, started where they are missing, sent off where not."""

import math
import time
from collections.abc import Mapping
from typing import Final

from queue_core.outcomes import Failed
from queue_core.sharing import Shares
from queue_core.transitions.claim import Claimed
from queue_core.worker import logs
from queue_core.worker.children import Child
from queue_core.worker.guarding import Watch
from queue_core.worker.lines import Lines
from queue_core.worker.memory import killed_for_memory
from queue_core.worker.offers import Offers
from queue_core.worker.options import WorkerOptions
from queue_core.worker.seats import Seats
from queue_core.worker.starts import Starts
from queue_core.worker.verdicts import crashed

LEAVE_SECONDS: Final = 2.0
"""How long idle children get to leave in peace."""


class Roster:
    """The children, by the seats that there are for them. For the main thread alone."""

    def __init__(
        self,
        options: WorkerOptions,
        environment: Mapping[str, str],
        watch: Watch,
        lines: Lines,
    ) -> None:
        self._jobs = options.jobs
        self._memory = options.memory_limit
        self._environment = environment
        self._watch = watch
        self._lines = lines
        self.seats = Seats(options.processes, options.async_slots, options.thread_slots)
        self.starts = Starts()
        self.children: list[Child] = []

    def fill_up(self) -> None:
        """Start the children that are missing, unless starting them has just failed."""
        if time.monotonic() < self.starts.next_at:
            return
        for shares in self.seats.missing(self.children):
            try:
                child = self._child(shares)
            except OSError as error:  # no memory, no more processes: later, perhaps
                self.starts.failed(logs.cause(error))
                return
            self._watch.add(child.pid)
            self.children.append(child)
            self._lines.watch(child)

    def _child(self, shares: Shares | None) -> Child:
        slots = self.seats.slots(shares)
        return Child(self._jobs, self._environment, self._memory, shares=shares, slots=slots)

    def next_start(self) -> float:
        """Return when `fill_up` has something to do, on the monotonic clock."""
        return self.starts.next_at if self.seats.missing(self.children) else math.inf

    def place(self) -> None:
        """Let idle children that have no seat any more take one that is free, or leave."""
        for child in self.children:
            if not child.is_idle or self.seats.is_wanted(child):
                continue
            free = self.seats.missing(self.children)
            if free and not child.served:  # else it has made up its mind how its runs go on
                child.shares = free[0]
            child.slots = self.seats.slots(child.shares)
            if not self.seats.is_wanted(child):
                self.dismiss(child)

    def dismiss(self, child: Child) -> None:
        """Send an idle child home, with time to leave in peace."""
        child.dismiss(time.monotonic() + LEAVE_SECONDS)
        self._lines.watch(child)

    def with_a_free_slot(self, claimed: Claimed, offers: Offers) -> Child | None:
        """Return a child in which a run could begin now; None where its name is offered no more."""
        if not offers.has(claimed.name):
            return None
        shares = offers.shares(claimed.name)
        for child in self.children:
            if child.shares != shares or len(child.going) >= child.slots:
                continue
            # An earlier run of the job may still be there, if it lost its claim.
            if child.free and claimed.id not in child.going:
                return child
        return None

    def let_leave(self, child: Child) -> None:
        """Give a child that says that it leaves the time for it."""
        child.leaves = True
        child.kill_at = time.monotonic() + LEAVE_SECONDS

    def remove(self, child: Child) -> Failed:
        """Take leave of a dead child and of whatever it left running; returns how runs end so."""
        child.kill()
        self._watch.drop(child.pid)
        self.children.remove(child)
        self._lines.forget(child)
        kills = killed_for_memory() > child.kills
        return crashed(child.reap(), killed_for_memory=kills)
