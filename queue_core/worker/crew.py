"""The crew: all children of a worker, kept at full number, watched, stopped where they must be."""

import math
import time
from collections.abc import Mapping
from typing import Final

from queue_core.handlers import Declared
from queue_core.outcomes import Failed
from queue_core.rules import Schedule
from queue_core.run import StopReason
from queue_core.sharing import Shares
from queue_core.transitions.claim import Claimed
from queue_core.worker import force, logs
from queue_core.worker.books import Key, RunInHand
from queue_core.worker.children import Child
from queue_core.worker.frames import FrameError
from queue_core.worker.guard import boottime
from queue_core.worker.lead import PORTION, Lead
from queue_core.worker.lines import Lines
from queue_core.worker.messages import (
    RECALL,
    Dropped,
    Hello,
    Message,
    NoHello,
    Report,
    ask_frame,
    job_frame,
)
from queue_core.worker.offers import Offers
from queue_core.worker.roster import Roster
from queue_core.worker.tray import Tray
from queue_core.worker.verdicts import CLAIM_TAKEN, HUNG_UP, NO_MESSAGE

HANG_UP_SECONDS: Final = 0.25  # how long a child may live on after it closed its line
REAP_SECONDS: Final = 5.0


class Crew:
    """The children. For the main thread alone. What came of their runs lies in `tray`."""

    def __init__(self, roster: Roster, lines: Lines, *, once: bool = False) -> None:
        """With `once` its only child runs what it is given one at a time."""
        self._lines = lines
        self._roster = roster
        self._newest = Hello((), (), ())
        self.offers = Offers(alone=once)
        """The names that every child handles, so that any may get any run."""
        self._lead = Lead()
        self._closing = False
        self.tray = Tray(self.offers, self._lead)

    @property
    def _children(self) -> list[Child]:
        return self._roster.children

    def fill_up(self) -> None:
        """Start the children that are missing, unless starting them has just failed."""
        if not self._closing:
            self._roster.fill_up()

    def is_ready(self) -> bool:
        """Say whether any child has said hello."""
        return any(child.offers is not None for child in self._children)

    def hopeless(self) -> str | None:
        """Say why no child will ever say hello, if so it seems."""
        return self._roster.starts.hopeless()

    def slots(self) -> int:
        """Return how many runs may go on at once in all."""
        return self._roster.seats.total()

    def schedules(self) -> tuple[Schedule, ...]:
        """Return the schedules that the newest child's code has; any thread may ask."""
        return self._newest.schedules

    def handlers(self) -> tuple[Declared, ...]:
        """Return what the newest child's code says of the names it handles; any thread may ask."""
        return self._newest.handlers

    def free(self, shares: Shares | None) -> int:
        """Return how many runs that share so could begin now."""
        return sum(child.free for child in self._children if child.shares == shares)

    def lead(self) -> int:
        """Return how many runs that are safe to repeat a child is given at once."""
        return min(self._lead.size, PORTION)

    def portion(self) -> int:
        """Return how many more such runs are to be brought to children that work on theirs."""
        return self._lead.portion(self._children, self.offers)

    def is_ahead(self) -> bool:
        """Say whether a child has runs that have not begun."""
        return any(child.ahead for child in self._children)

    def in_hand(self) -> dict[Key, RunInHand]:
        """Return the runs that children have, begun or not."""
        return {run.key: run for child in self._children for run in child.runs}

    def give(self, claimed: Claimed, *, goes_on: bool = False) -> bool:
        """Hand a run to a child, to be told by `send`; False where none may have it.

        With `goes_on` it is of a lead that may be over by now. FrameError if it is too large.
        """
        frame, child = job_frame(claimed), self._roster.with_a_free_slot(claimed, self.offers)
        child = child or self._lead.behind(self._children, claimed.name, self.offers)
        if child:
            on = goes_on and self._lead.is_of_late(child)
            child.give(RunInHand(claimed, child.pid, boottime()), frame, goes_on=on)
        return child is not None

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
            elif child.killed:
                continue
            elif now >= child.kill_at:
                self._kill_overdue(child)
            else:
                force.look_at_runs(child)
                if now >= self._lead.gives_back_at(child):
                    self._recall(child)
                self._lines.watch(child)

    def next_look(self) -> float:
        """Return when something will have gone on for too long, on the monotonic clock."""
        living = [child for child in self._children if not child.killed]
        times = [child.kill_at for child in living]
        times += [run.next_act() for child in living for run in child.going.values()]
        times += [self._lead.gives_back_at(child) for child in living]
        return min(times, default=math.inf)

    def next_start(self) -> float:
        """Return when `fill_up` has something to do, on the monotonic clock."""
        return self._roster.next_start()

    def ask_to_stop(self, why: StopReason, asked: Mapping[Key, int | None]) -> None:
        """Ask runs to stop, within their seconds if they have any; the not begun are given back."""
        for child in self._children:
            for run in child.runs:
                if run.key in asked and run.ask(why, asked[run.key]):
                    self._say(child, ask_frame(*run.key, why))
            if any(run.asked for run in child.ahead):
                self._recall(child)

    def stop(self, keys: set[Key]) -> None:
        """Stop runs whose claim was taken; each is reported when it is over or its child is dead.

        A child that has such a run alone is killed at once. Those that have not begun are given
        back, and found to be gone.
        """
        for child in self._children:
            if any(run.key in keys for run in child.ahead):
                self._recall(child)
            for run in child.going.values():
                if run.key in keys and run.verdict is None:
                    logs.warning("a run lost its claim and is stopped", **run.named())
                    force.end_by_force(child, run, CLAIM_TAKEN)
            if child.shares is None and child.run and child.run.verdict is CLAIM_TAKEN:
                child.kill()
            self._lines.watch(child)

    def leave(self, patience: float = 0.0) -> None:
        """End the crew: idle children in peace, the others by force, their runs cut off.

        Those in an event loop are cancelled first, and have `patience` seconds to tidy up.
        """
        self._closing = True
        until = time.monotonic() + patience
        for child in self._children:
            self._hear(child)
            if patience and child.shares == "loop" and child.going:
                force.cancel_all(child, until)
            elif not child.is_idle:
                child.kill()
        while self._children and time.monotonic() < until + REAP_SECONDS:
            self._let_go()
            self.look()
            time.sleep(0.005)
        for child in self._children:
            self.tray.give_back(child)
            for run in list(child.going.values()):
                self.tray.cut_off(child, run)

    def _let_go(self) -> None:
        for child in self._children:
            self.serve(child)
            if child.is_idle:
                self._roster.dismiss(child)

    def _hear(self, child: Child) -> None:
        try:
            for message in child.hear():
                self._understand(child, message)
        except FrameError:
            force.judge(child, NO_MESSAGE)
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
                self._roster.starts.complain(message.why, message.traceback)
            case Report() if run := child.going.get(message.id):
                self._end(child, run, message)
                self._roster.starts.worked()
            case Dropped() if child.leaves:
                pass  # it was given back
            case Dropped() if child.recalled:
                child.recalled = False
                self.tray.take_back(child, message.ids)
            case _:
                raise FrameError("not what is to be said now")

    def _end(self, child: Child, run: RunInHand, report: Report) -> None:
        if report.stain:
            logs.info("a child is replaced", child=child.pid, left=report.stain, **run.named())
            self._roster.let_leave(child)
            self.tray.give_back(child)
        # Past its limit the limit decides, whatever the handler still said.
        ending = run.verdict if isinstance(run.verdict, Failed) else report.ending
        if self._closing and force.was_cut_off(child, ending):
            self.tray.cut_off(child, run)
        else:
            self.tray.end(child, run, ending, report)

    def _recall(self, child: Child) -> None:
        if child.ahead and not (child.recalled or child.leaves):
            child.recalled = True
            self._say(child, RECALL)

    def _kill_overdue(self, child: Child) -> None:
        if child.offers is None:
            logs.error("a child did not say hello in time and is killed", child=child.pid)
        elif child.hung_up and not self._closing:
            force.judge(child, HUNG_UP)
        child.kill()

    def _bury(self, child: Child) -> None:
        """Take leave of a dead child: its last words, its runs, and whatever it left running."""
        self._hear(child)
        killed = child.killed
        how = self._roster.remove(child)
        self._compare_offers()
        if not (child.going or child.served or child.leaves or self._closing):
            self._roster.starts.ended(how, greeted=child.offers is not None, by_us=killed)
        self.tray.give_back(child)
        has_crashed = False
        for run in list(child.going.values()):
            if self._closing and run.verdict is None:
                self.tray.cut_off(child, run)
            else:
                ending = force.ending_in_death(child, run, how, killed=killed)
                self.tray.end(child, run, ending)
                has_crashed |= isinstance(ending, Failed) and ending.outcome == "crashed"
        if has_crashed:
            self._roster.starts.crashed()
        self.tray.note(child)

    def _compare_offers(self) -> None:
        self.offers.compare([child.offers for child in self._children if child.offers is not None])
        if self.offers.names and not self._closing:
            self._roster.seats.fit(self.offers.names)
            self._roster.place()

    def _say(self, child: Child, frame: bytes) -> None:
        child.say(frame)
        self._lines.watch(child)
