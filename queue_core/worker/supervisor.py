"""The supervisor: claims runs, hands them to its children and stores what came of them.

It imports no handler's code. Its main thread never waits for the database: that is done by the
clerk, the heartbeat and maintenance, threads with a connection each, so that limits hold and
crashes are seen while the database is away.
"""

import math
import queue
import random
import time
from collections import Counter
from typing import Final

import psycopg

from queue_core import fleet
from queue_core.check import require_sound
from queue_core.database import connect
from queue_core.errors import DatabaseAwayError, SchemaError
from queue_core.outcomes import Failed, Unreadable
from queue_core.transitions.claim import Claimed
from queue_core.transitions.dispute import dispute
from queue_core.transitions.give_back import give_back
from queue_core.transitions.recover import BATCH, recover
from queue_core.worker import logs, processes
from queue_core.worker.books import Finished, Key, Returned, finished, not_begun
from queue_core.worker.clerk import Claims, Clerk, Connection, Request
from queue_core.worker.frames import FrameError
from queue_core.worker.guard import boottime
from queue_core.worker.heartbeat import Beat, Heartbeat, beat_seconds
from queue_core.worker.link import APPLICATION, BUSY, Link
from queue_core.worker.maintenance import Maintenance
from queue_core.worker.options import WorkerOptions
from queue_core.worker.signals import Signals
from queue_core.worker.workshop import Workshop

DRAINED: Final = 0
UNUSABLE: Final = 2
NO_DATABASE: Final = 3
CUT_OFF: Final = 4
GAVE_UP: Final = 5

POLL_SECONDS: Final = 0.5
PARTING_SECONDS: Final = 5.0
"""How long the last writes of a worker that stops may take, beyond its grace."""
KEEPING_SECONDS: Final = 600.0
"""How long a worker that gave itself up keeps results for a database that is away."""
JOIN_SECONDS: Final = 1.0

GONE_BODY: Final = Unreadable("its arguments are gone")
HUGE_BODY: Final = Unreadable("its arguments are too large to be handed over")
CUT_SHORT: Final = Failed("stopped: its claim was taken")


def run_worker(options: WorkerOptions) -> int:
    """Run a worker until it is told to stop, and return its exit code.

    0: drained. 2: its jobs cannot be used. 3: no database, or a schema that is missing, newer
    or unsound. 4: stopped with runs cut off. 5: it gave itself up. Only for the main thread of
    a process that does nothing else: it takes over the process's signals for good.
    """
    logs.configure(options.log)
    signals = Signals()
    signals.catch()
    try:
        with connect(options.url, name=APPLICATION) as conn:
            require_sound(conn)
        return _run(options, signals)
    except (DatabaseAwayError, SchemaError, psycopg.Error) as error:
        logs.error("the worker cannot run", why=logs.cause(error))
        return NO_DATABASE
    finally:
        signals.release()


def _run(options: WorkerOptions, signals: Signals) -> int:
    workshop = Workshop(options, signals)
    try:
        if why := workshop.meet():
            logs.error("the worker cannot run", why=why)
            return UNUSABLE
        if signals.stops:
            return DRAINED
        return Supervisor(options, workshop).work()
    finally:
        workshop.close()


class Supervisor:
    """One worker, from its registration to its end."""

    def __init__(self, options: WorkerOptions, workshop: Workshop) -> None:
        """Add the worker's row. Raises DatabaseAwayError."""
        self._options = options
        self._workshop = workshop
        self._signals = workshop.signals
        self._crew = workshop.crew
        self._inbox: queue.SimpleQueue[Beat | Claims] = queue.SimpleQueue()
        self._request_is_open = False
        self._claim_at = 0.0
        self._grace_ends = math.inf
        self._is_lost = False
        self._strangers: frozenset[Key] = frozenset()
        self._has_compared = False
        identity = processes.identity(options)
        with connect(options.url, name=APPLICATION) as conn:
            registered = boottime()
            self._worker = fleet.register(conn, identity)
        pause = beat_seconds(options.stale_after)
        self._heartbeat = Heartbeat(
            Link(options.url, "-c lock_timeout=100ms", longest_pause=pause),
            self._worker,
            self._tell,
            stale_after=options.stale_after,
            registered=registered,
            watch=workshop.watch,
            begun=self._crew.begun,
        )
        self._clerk = Clerk(
            Link(options.url, BUSY), self._worker, self._tell, self._heartbeat.hurry
        )
        self._maintenance = Maintenance(
            Link(options.url, BUSY), self._worker, identity, options.stale_after, self._heartbeat
        )

    def work(self) -> int:
        """Run jobs until told to stop or giving itself up, and return the exit code."""
        for thread in (self._heartbeat, self._clerk, self._maintenance):
            thread.start()
        logs.info("worker started", worker=self._worker, slots=self._options.processes)
        while not self._is_over():
            self._workshop.look()
            self._hand_on()
            self._drain_if_asked()
            self._ask_for_runs()
            self._workshop.wait(self._next_act())
            self._read_inbox()
        return self._part()

    def _tell(self, news: Beat | Claims) -> None:
        """Take news from a thread to the main thread."""
        self._inbox.put(news)
        self._signals.wake()

    def _is_over(self) -> bool:
        # Before any death is looked at: past the deadline it is the guard that kills.
        self._is_lost = self._is_lost or boottime() >= self._heartbeat.deadline
        if self._is_lost or self._signals.stops > 1 or time.monotonic() >= self._grace_ends:
            return True
        if not self._is_draining():
            return False
        return not (self._crew.in_hand() or self._request_is_open or self._clerk.keys())

    def _is_draining(self) -> bool:
        return self._grace_ends < math.inf

    def _next_act(self) -> float:
        claim_at = math.inf if self._request_is_open or not self._crew.free() else self._claim_at
        return min(self._grace_ends, claim_at)

    def _hand_on(self) -> None:
        """Pass what ended to the clerk."""
        if self._crew.ended:
            self._clerk.store(self._crew.ended)
            self._crew.ended = []

    def _drain_if_asked(self) -> None:
        if self._signals.stops and not self._is_draining():
            logs.info("worker draining", in_hand=len(self._crew.in_hand()))
            self._grace_ends = time.monotonic() + self._options.grace

    def _ask_for_runs(self) -> None:
        """Ask for as many runs as could begin at once: claimed means started."""
        due = time.monotonic() >= self._claim_at
        free, offers = self._crew.free(), self._crew.offers()
        if self._request_is_open or self._is_draining() or not (due and free and offers):
            return
        used = Counter(run.claimed.queue for run in self._crew.in_hand().values())
        self._request_is_open = True
        self._clerk.ask(Request(free, offers, self._options.queues, used))

    def _read_inbox(self) -> None:
        while not self._inbox.empty():
            match self._inbox.get():
                case Claims() as claims:
                    self._begin(claims.taken)
                case Beat() as beat:
                    self._compare(beat)

    def _begin(self, taken: list[Claimed]) -> None:
        """Start what was claimed, and look for more at once if there was anything."""
        self._request_is_open = False
        spread = random.uniform(0.75, 1.25)  # noqa: S311 - parts a crowd, guards nothing
        self._claim_at = time.monotonic() + (0.0 if taken else POLL_SECONDS * spread)
        not_given = [each for claimed in taken if (each := self._give(claimed))]
        if not_given:
            self._clerk.store(not_given)

    def _give(self, claimed: Claimed) -> Finished | None:
        """Hand a run to a child, or return how it ended without one."""
        if self._is_draining():
            return not_begun(claimed, Returned())
        if claimed.args is None:
            return not_begun(claimed, GONE_BODY)
        try:
            given = self._crew.give(claimed)
        except FrameError:
            return not_begun(claimed, HUGE_BODY)
        return None if given else not_begun(claimed, Returned())

    def _compare(self, beat: Beat) -> None:
        """Compare what the database has under us with what we hold."""
        if beat.held is None:
            logs.error("this worker was declared lost")
            self._is_lost = True
            return
        in_hand = self._crew.in_hand()
        older = {key for key, run in in_hand.items() if run.began < beat.sent}
        self._crew.stop(older - beat.held)
        if self._request_is_open:
            return  # runs may be ours by now of which we have not heard
        strangers = beat.held - in_hand.keys() - self._clerk.keys()
        # Twice in a row: what ended while the beat was under way looks strange once.
        for key in strangers & self._strangers:
            logs.warning("a run that nobody here holds is given back", job=key.id)
            self._clerk.store([Finished(key, "unknown", Returned())])
        self._strangers = strangers

    def _part(self) -> int:
        """End everything in the order in which nothing is lost."""
        if self._is_lost:
            logs.error("the worker gives itself up: it could not beat, or was declared lost")
            self._heartbeat.stop()
            self._maintenance.stop()
        self._crew.leave()
        self._hand_on()
        self._return_late_claims()
        self._wait_for_clerk()
        self._heartbeat.stop()
        self._maintenance.stop()
        for thread in (self._heartbeat, self._maintenance):
            thread.join(JOIN_SECONDS)
        return self._exit_code()

    def _return_late_claims(self) -> None:
        while not self._inbox.empty():
            news = self._inbox.get()
            if isinstance(news, Claims):
                self._clerk.store([not_begun(each, Returned()) for each in news.taken])

    def _wait_for_clerk(self) -> None:
        keeps = self._is_lost and (self._clerk.keys() or self._crew.cut)
        give_up_at = time.monotonic() + (KEEPING_SECONDS if keeps else PARTING_SECONDS)
        self._clerk.close(self._say_farewell, give_up_at)
        stops = self._signals.stops
        while self._clerk.is_alive() and time.monotonic() < give_up_at + JOIN_SECONDS:
            self._clerk.join(0.05)
            if self._signals.stops > stops:
                stops = self._signals.stops
                give_up_at = min(give_up_at, time.monotonic() + PARTING_SECONDS)
                self._clerk.hurry(give_up_at)

    def _say_farewell(self, conn: Connection) -> None:
        """Leave nothing in the database under this worker; done again until it succeeds."""
        if not self._has_compared:
            self._settle_cut(conn)
            self._has_compared = True
        (fleet.give_up if self._is_lost else fleet.stop)(conn, self._worker)
        self._recover_own(conn)

    def _settle_cut(self, conn: Connection) -> None:
        """Report the runs that were cut off and are not ours any more.

        What the database has under us and no child was given was claimed too late to begin.
        """
        cut = {run.key: run for run in self._crew.cut}
        held = fleet.beat(conn, self._worker)
        if held is None:
            self._recover_own(conn)
            ours: set[Key] = set()
        else:
            ours = {Key(run.id, run.attempt) for run in held}
            give_back(conn, self._worker, ours - cut.keys())
        taken = [finished(run, CUT_SHORT).report() for key, run in cut.items() if key not in ours]
        if taken:
            dispute(conn, self._worker, taken)

    def _recover_own(self, conn: Connection) -> None:
        while len(recover(conn, worker=self._worker)) == BATCH:
            pass

    def _exit_code(self) -> int:
        unstored = self._clerk.keys()
        if unstored:
            logs.error("results could not be stored", runs=len(unstored))
        cut = len(self._crew.cut)
        logs.info("worker ended", worker=self._worker, cut_off=cut)
        if self._is_lost:
            return GAVE_UP
        return CUT_OFF if cut or unstored or self._clerk.is_alive() else DRAINED
