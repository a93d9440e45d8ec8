"""The crew: all children of a worker, kept at full number, watched, stopped where they must be."""

import math
import selectors
import time
from collections import Counter
from collections.abc import Mapping
from typing import Final

from queue_core.outcomes import Ending, Failed
from queue_core.transitions.claim import Claimable, Claimed
from queue_core.worker import logs
from queue_core.worker.books import Begun, Finished, Key, RunInHand, finished
from queue_core.worker.children import Child
from queue_core.worker.frames import FrameError
from queue_core.worker.guard import boottime
from queue_core.worker.guarding import Watch
from queue_core.worker.messages import END, STOP, Hello, NoHello, Report, job_frame

STOP_SECONDS: Final = 5.0
"""From asking a run past its limit to stop until its child is killed."""
HANG_UP_SECONDS: Final = 0.25
"""How long a child may live on after it closed its line."""
LEAVE_SECONDS: Final = 2.0
"""How long idle children get to leave in peace."""
REAP_SECONDS: Final = 5.0
FIRST_PAUSE: Final = 0.5
LONGEST_PAUSE: Final = 10.0
HOPELESS_STARTS: Final = 3
CLAIM_TAKEN: Final = Failed("stopped: its claim was taken")
_NO_MESSAGE: Final = Failed("crashed: sent what is no message", outcome="crashed")
_HUNG_UP: Final = Failed("crashed: closed its line to the worker", outcome="crashed")


class Crew:
    """The children. For the main thread alone.

    What ended is put into `ended`, to be taken from there; runs that were cut off, without
    an ending of their own, into `cut`.
    """

    def __init__(
        self,
        jobs: str,
        size: int,
        environment: Mapping[str, str],
        watch: Watch,
        selector: selectors.BaseSelector,
    ) -> None:
        self._jobs = jobs
        self._size = size
        self._environment = environment
        self._watch = watch
        self._selector = selector
        self._children: list[Child] = []
        self._offers: list[Claimable] = []
        self._pause = 0.0
        self._start_at = 0.0
        self._failed_starts = 0
        self._complaint: str | None = None
        self._closing = False
        self.begun = Begun()
        self.ended: list[Finished] = []
        self.cut: list[RunInHand] = []

    def fill_up(self) -> None:
        """Start the children that are missing, unless starting them has just failed."""
        now = time.monotonic()
        while len(self._children) < self._size and now >= self._start_at and not self._closing:
            try:
                child = Child(self._jobs, self._environment)
            except OSError as error:  # no memory, no more processes: later, perhaps
                self._note_bad_start(logs.cause(error))
                return
            self._watch.add(child.pid)
            self._children.append(child)
            self._select(child)

    def is_ready(self) -> bool:
        """Say whether any child has said hello."""
        return any(child.offers is not None for child in self._children)

    def hopeless(self) -> str | None:
        """Say why no child will ever say hello, if so it seems."""
        if self._complaint is None and self._failed_starts >= HOPELESS_STARTS:
            return "its children end before they have said hello"
        return self._complaint

    def offers(self) -> list[Claimable]:
        """Return the names that every child handles, so that any may get any run."""
        return self._offers

    def free(self) -> int:
        """Return how many runs could begin now."""
        return sum(child.is_idle for child in self._children)

    def in_hand(self) -> dict[Key, RunInHand]:
        """Return the runs that children have."""
        return {child.run.key: child.run for child in self._children if child.run}

    def give(self, claimed: Claimed) -> bool:
        """Hand a run to an idle child; False where there is none. FrameError if it is too large."""
        frame = job_frame(claimed)
        child = next((child for child in self._children if child.is_idle), None)
        if child is None:
            return False
        limit = math.inf if claimed.time_limit is None else claimed.time_limit
        child.run = RunInHand(claimed, child.pid, boottime(), time.monotonic() + limit)
        self.begun.add(child.run)
        self._say(child, frame)
        return True

    def serve(self, child: Child) -> None:
        """Hear what a child has said, and go on with what it was told."""
        child.send()
        self._hear(child)
        self._select(child)

    def look(self) -> None:
        """Bury the dead, and stop what has gone on for too long."""
        now = time.monotonic()
        for child in list(self._children):
            if child.is_dead():
                self._bury(child)
            elif now >= child.kill_at:
                self._kill_overdue(child)
            elif child.run and now >= child.run.stop_at and child.verdict is None:
                self._time_out(child, child.run)

    def next_look(self) -> float:
        """Return when something will have gone on for too long, on the monotonic clock."""
        times = [child.kill_at for child in self._children]
        times += [child.run.stop_at for child in self._children if child.run and not child.verdict]
        return min(times, default=math.inf)

    def next_start(self) -> float:
        """Return when `fill_up` has something to do, on the monotonic clock."""
        return self._start_at if len(self._children) < self._size else math.inf

    def stop(self, keys: set[Key]) -> None:
        """Kill the children of runs whose claim was taken; each is reported when it is dead."""
        for child in self._children:
            if child.run and child.run.key in keys and child.verdict is None:
                logs.warning("a run lost its claim and is stopped", **_named(child.run))
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
        self.cut += [child.run for child in self._children if child.run]

    def _hear(self, child: Child) -> None:
        try:
            for message in child.hear():
                self._understand(child, message)
        except FrameError:
            child.verdict = child.verdict or _NO_MESSAGE
            child.kill()
        if child.hung_up:
            child.kill_at = min(child.kill_at, time.monotonic() + HANG_UP_SECONDS)

    def _understand(self, child: Child, message: Hello | NoHello | Report) -> None:
        match message:
            case Hello() if child.offers is None:
                child.offers = message.offers
                child.kill_at = math.inf
                self._compare_offers()
            case NoHello() if child.offers is None:
                self._complaint = message.why
                logs.error("a child cannot use the jobs", why=message.why)
                if message.traceback:
                    logs.error("its traceback", traceback=message.traceback)
            case Report() if child.run and message.id == child.run.claimed.id:
                # Past its limit the limit decides, whatever the handler still said.
                if child.verdict is None:
                    self._end(child, message.ending)
            case _:
                raise FrameError("not what is to be said now")

    def _end(self, child: Child, ending: Ending) -> None:
        if child.run:
            self.begun.drop({child.run.key})
            self.ended.append(finished(child.run, ending))
        child.run = None
        child.verdict = None
        child.served += 1
        self._pause = 0.0

    def _time_out(self, child: Child, run: RunInHand) -> None:
        limit = _seconds(run.claimed.time_limit or 0.0)
        child.verdict = Failed(f"timed out after {limit}", outcome="timed_out")
        child.kill_at = time.monotonic() + STOP_SECONDS
        self._say(child, STOP)

    def _kill_overdue(self, child: Child) -> None:
        if child.offers is None:
            logs.error("a child did not say hello in time and is killed", child=child.pid)
        elif child.hung_up and child.run and not self._closing:
            child.verdict = child.verdict or _HUNG_UP
        child.kill()
        child.kill_at = math.inf

    def _bury(self, child: Child) -> None:
        """Take leave of a dead child: its last words, its run, and whatever it left running."""
        self._hear(child)
        child.kill()
        self._watch.drop(child.pid)
        self._children.remove(child)
        if child.line in self._selector.get_map():
            self._selector.unregister(child.line)
        code = child.reap()
        self._compare_offers()
        if child.run and self._closing and child.verdict is None:
            self.cut.append(child.run)
        elif child.run:
            self._end(child, child.verdict or _crash(code))
        elif not child.served and not self._closing:
            self._failed_starts += child.offers is None
            self._note_bad_start(_crash(code).error)

    def _note_bad_start(self, why: str) -> None:
        """Wait longer each time before the next start, so that a broken start eats no processor."""
        self._pause = min(max(self._pause * 2, FIRST_PAUSE), LONGEST_PAUSE)
        self._start_at = time.monotonic() + self._pause
        logs.error("a child ended before it had a run", why=why, pause=self._pause)

    def _compare_offers(self) -> None:
        ready = [child.offers for child in self._children if child.offers is not None]
        known = Counter(offer.name for offers in ready for offer in offers)
        newest = ready[-1] if ready else ()
        self._offers = [offer for offer in newest if known[offer.name] == len(ready)]

    def _say(self, child: Child, frame: bytes) -> None:
        child.say(frame)
        self._select(child)

    def _select(self, child: Child) -> None:
        events = selectors.EVENT_READ * (not child.hung_up)
        events |= selectors.EVENT_WRITE * child.has_unsent
        known = child.line in self._selector.get_map()
        if known and events:
            self._selector.modify(child.line, events, child)
        elif known:
            self._selector.unregister(child.line)
        elif events:
            self._selector.register(child.line, events, child)


def _crash(code: int) -> Failed:
    if code < 0:
        return Failed(f"crashed: signal {-code}", outcome="crashed", signal=-code)
    return Failed(f"crashed: exit code {code}", outcome="crashed")


def _seconds(limit: float) -> str:
    return f"{limit:.0f}s" if limit >= 1 and limit.is_integer() else f"{limit:g}s"


def _named(run: RunInHand) -> dict[str, object]:
    return {"job": run.key.id, "name": run.claimed.name, "attempt": run.key.attempt}
