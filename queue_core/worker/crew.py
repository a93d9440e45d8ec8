"""The crew: all children of a worker, kept at full number, watched, stopped where they must be."""

import math
import selectors
import time
from collections.abc import Mapping
from typing import Final

from queue_core.handlers import Declared
from queue_core.outcomes import Ending, Failed
from queue_core.rules import Schedule
from queue_core.run import StopReason
from queue_core.transitions.claim import Claimable, Claimed
from queue_core.worker import logs
from queue_core.worker.books import Key, Returned, RunInHand
from queue_core.worker.children import Child
from queue_core.worker.frames import FrameError
from queue_core.worker.guard import boottime
from queue_core.worker.guarding import Watch
from queue_core.worker.lead import Lead
from queue_core.worker.lines import Lines
from queue_core.worker.memory import killed_for_memory
from queue_core.worker.messages import (
    END,
    RECALL,
    Dropped,
    Hello,
    Message,
    NoHello,
    Report,
    Stain,
    ask_frame,
    job_frame,
    stop_frame,
)
from queue_core.worker.offers import Offers
from queue_core.worker.options import WorkerOptions
from queue_core.worker.starts import Starts
from queue_core.worker.tray import Tray
from queue_core.worker.verdicts import CLAIM_TAKEN, HUNG_UP, NO_MESSAGE, by_force, crashed

STOP_SECONDS: Final = 5.0
"""From asking a run past its limit to stop until its child is killed."""
HANG_UP_SECONDS: Final = 0.25
"""How long a child may live on after it closed its line."""
LEAVE_SECONDS: Final = 2.0
"""How long idle children get to leave in peace."""
REAP_SECONDS: Final = 5.0


class Crew:
    """The children. For the main thread alone. What came of their runs lies in `tray`."""

    def __init__(
        self,
        options: WorkerOptions,
        environment: Mapping[str, str],
        watch: Watch,
        selector: selectors.BaseSelector,
    ) -> None:
        self._jobs = options.jobs
        self._size = options.processes
        self._memory = options.memory_limit
        self._environment = environment
        self._watch = watch
        self._lines = Lines(selector)
        self._children: list[Child] = []
        self._starts = Starts()
        self._newest = Hello((), (), ())
        self._offers = Offers()
        self._lead = Lead()
        self._closing = False
        self.tray = Tray(self._offers, self._lead)

    def fill_up(self) -> None:
        """Start the children that are missing, unless starting them has just failed."""
        if self._closing or time.monotonic() < self._starts.next_at:
            return
        while len(self._children) < self._size:
            try:
                child = Child(self._jobs, self._environment, self._memory)
            except OSError as error:  # no memory, no more processes: later, perhaps
                self._starts.failed(logs.cause(error))
                return
            self._watch.add(child.pid)
            self._children.append(child)
            self._lines.watch(child)

    def is_ready(self) -> bool:
        """Say whether any child has said hello."""
        return any(child.offers is not None for child in self._children)

    def hopeless(self) -> str | None:
        """Say why no child will ever say hello, if so it seems."""
        return self._starts.hopeless()

    def offers(self) -> list[Claimable]:
        """Return the names that every child handles, so that any may get any run."""
        return self._offers.names

    def schedules(self) -> tuple[Schedule, ...]:
        """Return the schedules that the newest child's code has; any thread may ask."""
        return self._newest.schedules

    def handlers(self) -> tuple[Declared, ...]:
        """Return what the newest child's code says of the names it handles; any thread may ask."""
        return self._newest.handlers

    def free(self) -> int:
        """Return how many runs could begin now."""
        return sum(child.is_idle for child in self._children)

    def lead(self) -> int:
        """Return how many runs that are safe to repeat a child is given at once."""
        return self._lead.size

    def is_ahead(self) -> bool:
        """Say whether a child has runs that have not begun."""
        return any(child.ahead for child in self._children)

    def in_hand(self) -> dict[Key, RunInHand]:
        """Return the runs that children have, begun or not."""
        return {run.key: run for child in self._children for run in child.runs}

    def give(self, claimed: Claimed) -> bool:
        """Hand a run to a child, to be told by `send`; False where no child may have it.

        FrameError if it is too large.
        """
        frame = job_frame(claimed)
        child = next((child for child in self._children if child.is_idle), None)
        child = child or self._lead.behind(self._children, claimed.name, self._offers)
        if child is None:
            return False
        child.give(RunInHand(claimed, child.pid, boottime()), frame)
        return True

    def send(self) -> None:
        """Tell the children of the runs that they were given."""
        for child in self._children:
            if child.has_unsent:
                child.send()
                self._lines.watch(child)
            self.tray.note(child)

    def recall(self) -> None:
        """Have all children give back the runs that have not begun."""
        for child in self._children:
            self._recall(child)

    def serve(self, child: Child) -> None:
        """Hear what a child has said, and go on with what it was told."""
        child.send()
        self._hear(child)
        self._lines.watch(child)

    def look(self) -> None:
        """Bury the dead, and stop what has gone on for too long."""
        now = time.monotonic()
        for child in list(self._children):
            if child.is_dead():
                self._bury(child)
            elif now >= child.kill_at:
                self._kill_overdue(child)
            elif child.run and now >= child.run.force_at and child.verdict is None:
                self._stop_by_force(child, child.run)
            elif now >= self._lead.gives_back_at(child):
                self._recall(child)

    def next_look(self) -> float:
        """Return when something will have gone on for too long, on the monotonic clock."""
        times = [child.kill_at for child in self._children]
        times += [child.run.force_at for child in self._children if child.run and not child.verdict]
        times += [self._lead.gives_back_at(child) for child in self._children]
        return min(times, default=math.inf)

    def next_start(self) -> float:
        """Return when `fill_up` has something to do, on the monotonic clock."""
        return self._starts.next_at if len(self._children) < self._size else math.inf

    def ask_to_stop(self, why: StopReason, asked: Mapping[Key, int | None]) -> None:
        """Ask runs to stop, within their seconds if they have any; the not begun are given back."""
        for child in self._children:
            for run in child.runs:
                if run.key in asked and run.ask(why, asked[run.key]):
                    self._say(child, ask_frame(*run.key, why))
            if any(run.asked for run in child.ahead):
                self._recall(child)

    def stop(self, keys: set[Key]) -> None:
        """Kill the children of runs whose claim was taken; each is reported when it is dead.

        Those that have not begun are given back, and found to be gone.
        """
        for child in self._children:
            if any(run.key in keys for run in child.ahead):
                self._recall(child)
            if child.run and child.run.key in keys and child.verdict is None:
                logs.warning("a run lost its claim and is stopped", **child.run.named())
                child.verdict = CLAIM_TAKEN
                child.kill()

    def leave(self) -> None:
        """End the crew: idle children in peace, the others by force, their runs cut off."""
        self._closing = True
        until = time.monotonic() + LEAVE_SECONDS
        for child in self._children:
            self._hear(child)
            if child.is_idle:
                child.say(END)
                child.kill_at = until
            else:
                child.kill()
        give_up = time.monotonic() + REAP_SECONDS
        while self._children and time.monotonic() < give_up:
            self.look()
            time.sleep(0.005)
        for child in self._children:
            self.tray.cut_off(child)

    def _hear(self, child: Child) -> None:
        try:
            for message in child.hear():
                self._understand(child, message)
        except FrameError:
            child.verdict = child.verdict or NO_MESSAGE
            child.kill()
        if child.hung_up:
            child.kill_at = min(child.kill_at, time.monotonic() + HANG_UP_SECONDS)
        self.tray.note(child)

    def _understand(self, child: Child, message: Message) -> None:
        match message:
            case Hello() if child.offers is None:
                child.offers = message.offers
                self._newest = message
                child.kill_at = math.inf
                self._compare_offers()
            case NoHello() if child.offers is None:
                self._starts.complain(message.why, message.traceback)
            case Report() if child.run and message.id == child.run.claimed.id:
                # Past its limit the limit decides, whatever the handler still said.
                decided = child.verdict if isinstance(child.verdict, Failed) else message.ending
                self._end(child, decided, message)
                self._starts.worked()
            case Dropped() if child.leaves:
                pass  # it was given back
            case Dropped() if child.recalled:
                child.recalled = False
                self.tray.take_back(child, message.ids)
            case _:
                raise FrameError("not what is to be said now")

    def _end(self, child: Child, ending: Ending | Returned, report: Report | None = None) -> None:
        if child.verdict is not None and not child.hung_up:
            child.kill_at = math.inf  # it ended before it was told to stop, and goes on
        if report and report.stain:
            self._replace(child, report.stain)
        self.tray.end(child, ending, report)

    def _replace(self, child: Child, stain: Stain) -> None:
        """Let a child leave that would not run another job in a clean process."""
        if child.run:
            logs.info("a child is replaced", child=child.pid, left=stain, **child.run.named())
        child.leaves = True
        child.kill_at = time.monotonic() + LEAVE_SECONDS
        self.tray.give_back(child)

    def _recall(self, child: Child) -> None:
        if child.ahead and not (child.recalled or child.leaves):
            child.recalled = True
            self._say(child, RECALL)

    def _stop_by_force(self, child: Child, run: RunInHand) -> None:
        child.verdict = by_force(run)
        child.kill_at = time.monotonic() + STOP_SECONDS
        self._say(child, stop_frame(run.claimed.id))

    def _kill_overdue(self, child: Child) -> None:
        if child.offers is None:
            logs.error("a child did not say hello in time and is killed", child=child.pid)
        elif child.hung_up and child.run and not self._closing:
            child.verdict = child.verdict or HUNG_UP
        child.kill()
        child.kill_at = math.inf

    def _bury(self, child: Child) -> None:
        """Take leave of a dead child: its last words, its run, and whatever it left running."""
        self._hear(child)
        killed = child.killed
        child.kill()
        self._watch.drop(child.pid)
        self._children.remove(child)
        self._lines.forget(child)
        kills = killed_for_memory() > child.kills
        how = crashed(child.reap(), killed_for_memory=kills)
        self._compare_offers()
        if self._closing and child.verdict is None:
            self.tray.cut_off(child)
        elif child.run:
            # Killed for the sake of a run that was over by then, this one may begin anew.
            innocent = killed and child.verdict is None
            self.tray.give_back(child)
            ending = Returned() if innocent else child.verdict or how
            if isinstance(ending, Failed) and ending.outcome == "crashed":
                self._starts.crashed()
            self._end(child, ending)
        elif not child.served and not self._closing:
            self._starts.speechless += child.offers is None
            self._starts.failed(how.error)
        self.tray.note(child)

    def _compare_offers(self) -> None:
        self._offers.compare([child.offers for child in self._children if child.offers is not None])

    def _say(self, child: Child, frame: bytes) -> None:
        child.say(frame)
        self._lines.watch(child)
