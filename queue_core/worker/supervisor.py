"""The supervisor: claims runs, hands them to its children and stores what came of them.

It imports no handler's code. Its main thread never waits for the database: that is done by the
clerk, the heartbeat and maintenance, threads with a connection each, so that limits hold and
crashes are seen while the database is away.
"""

import math
import queue
import time
from typing import Final

from queue_core import fleet
from queue_core.database import connect
from queue_core.transitions import recover as recovery
from queue_core.transitions.dispute import dispute
from queue_core.transitions.give_back import give_back
from queue_core.worker import logs, processes
from queue_core.worker.books import Finished, Key, Returned, finished, not_begun
from queue_core.worker.burial import succeed
from queue_core.worker.clerk import Clerk
from queue_core.worker.force import STOP_SECONDS
from queue_core.worker.guard import boottime
from queue_core.worker.heartbeat import Beat, Heartbeat, Stops, beat_seconds
from queue_core.worker.intake import Intake
from queue_core.worker.link import APPLICATION, BUSY, Link
from queue_core.worker.maintenance import Maintenance
from queue_core.worker.options import WorkerOptions
from queue_core.worker.requests import Claims, Connection, Woken
from queue_core.worker.retaining import PATIENT, Retention
from queue_core.worker.verdicts import CLAIM_TAKEN
from queue_core.worker.workshop import Workshop

DRAINED: Final = 0
CUT_OFF: Final = 4
GAVE_UP: Final = 5

PARTING_SECONDS: Final = 5.0
"""How long the last writes of a worker that stops may take, beyond its grace."""
KEEPING_SECONDS: Final = 600.0
"""How long a worker that gave itself up keeps results for a database that is away."""
JOIN_SECONDS: Final = 1.0


class Supervisor:
    """One worker, from its registration to its end."""

    def __init__(self, options: WorkerOptions, workshop: Workshop, *, once: bool = False) -> None:
        """Add the worker's row. Raises DatabaseAwayError.

        With `once` it claims a single time, and is over when it has run what came of that.
        """
        self._options = options
        self._once = once
        self._workshop = workshop
        self._signals = workshop.signals
        self._crew = workshop.crew
        self._inbox: queue.SimpleQueue[Beat | Claims | Stops | Woken] = queue.SimpleQueue()
        self._grace_ends = math.inf
        self._is_lost = False
        self._strangers: frozenset[Key] = frozenset()
        self._has_compared = False
        self._slots = self._crew.slots()
        identity = processes.identity(options, self._slots)
        with connect(options.url, name=APPLICATION, options=BUSY) as conn:
            registered = boottime()
            self._worker = fleet.register(conn, identity)
            succeed(conn, self._worker, identity)
        pause = beat_seconds(options.stale_after)
        self._heartbeat = Heartbeat(
            Link(options.url, "-c lock_timeout=100ms", longest_pause=pause),
            self._worker,
            self._tell,
            stale_after=options.stale_after,
            registered=registered,
            watch=workshop.watch,
            begun=self._crew.tray.begun,
        )
        self._clerk = Clerk(
            Link(options.url, BUSY), self._worker, self._tell, self._heartbeat.hurry
        )
        self._intake = Intake(options, self._crew, self._clerk, once=once)
        self._maintenance = Maintenance(
            Link(options.url, BUSY),
            self._worker,
            identity,
            options.stale_after,
            crew=self._crew,
            heartbeat=self._heartbeat,
            claimer=self._clerk.claimer,
        )

        self._retention = Retention(Link(options.owner_url or options.url, PATIENT), options.keep)

    def work(self) -> int:
        """Run jobs until told to stop or giving itself up, and return the exit code."""
        for thread in (self._heartbeat, self._clerk, self._maintenance, self._retention):
            thread.start()
        logs.info("worker started", worker=self._worker, slots=self._slots)
        while not self._is_over():
            self._workshop.look()
            self._drain_if_asked()
            self._intake.ask_if_due()
            self._intake.hand_on_if_due()
            self._workshop.wait(min(self._grace_ends, self._intake.next_act()))
            self._read_inbox()
        return self._part()

    def found(self) -> bool:
        """Say whether there was a job to run, the last time it asked."""
        return bool(self._intake.taken)

    def _tell(self, news: Beat | Claims | Stops | Woken) -> None:
        """Take news from a thread to the main thread."""
        self._inbox.put(news)
        self._signals.bell.ring()

    def _is_over(self) -> bool:
        # Before any death is looked at: past the deadline it is the guard that kills.
        self._is_lost = self._is_lost or boottime() >= self._heartbeat.deadline
        if self._is_lost or self._signals.stops > 1 or time.monotonic() >= self._grace_ends:
            return True
        if not self._intake.is_closed:
            return False
        return not (self._crew.in_hand() or self._intake.is_open or self._intake.unstored())

    def _drain_if_asked(self) -> None:
        if self._signals.stops and self._grace_ends == math.inf:
            logs.info("worker draining", in_hand=len(self._crew.in_hand()))
            self._grace_ends = time.monotonic() + self._options.grace
            self._intake.is_closed = True
            self._maintenance.drain()
            self._crew.recall()
            self._crew.ask_to_stop("shutdown", dict.fromkeys(self._crew.in_hand()))

    def _read_inbox(self) -> None:
        while not self._inbox.empty():
            match self._inbox.get():
                case Claims() as claims:
                    self._intake.begin(claims)
                case Woken():
                    self._intake.look_again()
                case Beat() as beat:
                    self._compare(beat)
                case Stops() as stops:
                    asked = {Key(run.id, run.attempt): run.kill_after for run in stops.asked}
                    self._crew.ask_to_stop("cancelled", asked)

    def _compare(self, beat: Beat) -> None:
        """Compare what the database has under us with what we hold."""
        if beat.held is None:
            logs.error("this worker was declared lost")
            self._is_lost = True
            return
        in_hand = self._crew.in_hand()
        older = {key for key, run in in_hand.items() if run.given < beat.sent}
        self._crew.stop(older - beat.held)
        if self._intake.is_open:
            return  # runs may be ours by now of which we have not heard
        strangers = beat.held - in_hand.keys() - self._intake.unstored()
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
            self._retention.stop()
        # Told twice to stop, or lost, it waits for nobody.
        is_patient = not self._is_lost and self._signals.stops == 1
        self._crew.leave(STOP_SECONDS if is_patient else 0.0)
        self._intake.hand_on()
        self._return_late_claims()
        self._wait_for_clerk()
        self._heartbeat.stop()
        self._maintenance.stop()
        self._retention.stop()
        for thread in (self._heartbeat, self._maintenance, self._retention):
            thread.join(JOIN_SECONDS)
        return self._exit_code()

    def _return_late_claims(self) -> None:
        while not self._inbox.empty():
            news = self._inbox.get()
            if isinstance(news, Claims):
                self._clerk.store([not_begun(each, Returned()) for each in news.taken])

    def _wait_for_clerk(self) -> None:
        keeps = self._is_lost and (self._clerk.keys() or self._crew.tray.cut)
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
        cut = {run.key: run for run in self._crew.tray.cut}
        held = fleet.beat(conn, self._worker)
        if held is None:
            self._recover_own(conn)
            ours: set[Key] = set()
        else:
            ours = {Key(run.id, run.attempt) for run in held}
            give_back(conn, self._worker, ours - cut.keys())
        taken = [finished(run, CLAIM_TAKEN).report() for key, run in cut.items() if key not in ours]
        if taken:
            dispute(conn, self._worker, taken)

    def _recover_own(self, conn: Connection) -> None:
        while len(recovery.recover(conn, worker=self._worker)) == recovery.BATCH:
            pass

    def _exit_code(self) -> int:
        unstored = self._clerk.keys()
        if unstored:
            logs.error("results could not be stored", runs=len(unstored))
        cut = len(self._crew.tray.cut)
        logs.info("worker ended", worker=self._worker, cut_off=cut)
        if self._is_lost:
            return GAVE_UP
        return CUT_OFF if cut or unstored or self._clerk.is_alive() else DRAINED
