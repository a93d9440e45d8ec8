"""Maintenance: a thread with a connection of its own for what no run waits for."""

import math
import random
import threading
import time
from collections.abc import Callable
from typing import Final
from uuid import UUID

from queue_core import fleet, handlers, schedules, seals
from queue_core.database import execute
from queue_core.migrate import MAKE_PARTITIONS
from queue_core.tallies import fold
from queue_core.transitions import promote as promotion
from queue_core.transitions import recover as recovery
from queue_core.waking import wake
from queue_core.worker import logs
from queue_core.worker.burial import bury_dead, tell_recovered
from queue_core.worker.claimer import Claimer
from queue_core.worker.crew import Crew
from queue_core.worker.heartbeat import Heartbeat, beat_seconds
from queue_core.worker.link import LOCKED, Link
from queue_core.worker.requests import Connection

EVERY_SECONDS: Final = 1.0
FIRST_PARTITIONS_SECONDS: Final = 30.0
"""After the start: runs to take up again come first, and weeks are there for months ahead."""
PARTITIONS_SECONDS: Final = 3_600.0
SEAL_SECONDS: Final = 5.0
ARCHIVE_SECONDS: Final = 60.0
SHORTEST_PAUSE: Final = 0.01
FOLD_SECONDS: Final = 10.0
MOST_BATCHES: Final = 20
"""Of one chore in a row, so that no chore keeps the others waiting for long."""


class Maintenance(threading.Thread):
    """Does every chore once a second; a chore that fails keeps no other from being done."""

    def __init__(
        self,
        link: Link,
        worker: UUID,
        identity: fleet.Identity,
        stale_after: float,
        *,
        heartbeat: Heartbeat,
        crew: Crew,
        claimer: Claimer,
    ) -> None:
        super().__init__(name="countersign-maintenance", daemon=True)
        self._link = link
        self._worker = worker
        self._identity = identity
        self._stale_after = stale_after
        self._heartbeat = heartbeat
        self._schedules = crew.schedules
        self._handlers = crew.handlers
        self._declared: tuple[handlers.Declared, ...] = ()
        self._tick_at = math.inf
        self._archive_at = 0.0
        self._line = promotion.Line()
        self._probe = claimer.probe
        self._over = threading.Event()
        self._draining = False
        self._said_draining = False
        self._partitions_at = time.monotonic() + FIRST_PARTITIONS_SECONDS
        self._sweep_at = 0.0
        self._sweeps = True
        self._seal_at = 0.0
        self._fold_at = 0.0
        self._troubled: set[str] = set()

    def run(self) -> None:
        """Do all chores at once, then every second or so; tick schedules when they are due."""
        chores: tuple[Callable[[Connection], None], ...] = (
            self._promote,
            self._declare_handlers,
            self._say_draining,
            self._tick_schedules,
            self._archive_schedules,
            self._probe,
            self._bury_dead,
            self._bury_stale,
            self._recover,
            self._make_partitions,
            self._seal,
            self._fold_tallies,
        )
        while not self._over.is_set():
            self._begin_round()
            for chore in chores:
                self._do(chore)
            self._rest()
        self._link.close()

    def _begin_round(self) -> None:
        """Look for lost workers and their runs in this round if it is time to.

        As often as workers beat: none is found to be lost much sooner by looking more often.
        """
        now = time.monotonic()
        self._sweeps = now >= self._sweep_at
        if self._sweeps:
            self._sweep_at = now + beat_seconds(self._stale_after)

    def drain(self) -> None:
        """Have the worker's row say, with the next round, that it takes no more jobs."""
        self._draining = True

    def stop(self) -> None:
        """Begin no further round."""
        self._over.set()

    def _rest(self) -> None:
        spread = random.uniform(0.8, 1.2)  # noqa: S311 - parts a crowd, guards nothing
        ends = time.monotonic() + EVERY_SECONDS * spread
        while time.monotonic() < ends and not self._over.wait(pause(ends, self._tick_at)):
            if time.monotonic() >= self._tick_at:
                self._do(self._tick_schedules)

    def _do(self, chore: Callable[[Connection], None]) -> None:
        name = chore.__name__.strip("_").replace("_", " ")
        try:
            chore(self._link.open())
            self._link.worked()
        except LOCKED:
            return  # others are at it; the next round comes soon
        except Exception as error:  # noqa: BLE001 - one chore's failure stops no other
            self._link.failed(error)
            if name not in self._troubled:
                logs.warning("a chore failed", chore=name, cause=logs.cause(error))
            self._troubled.add(name)
        else:
            self._troubled.discard(name)

    def _promote(self, conn: Connection) -> None:
        for _ in range(MOST_BATCHES):
            moved = promotion.promote(conn, line=self._line)
            if moved:
                wake(conn)
            if moved < promotion.BATCH:
                return

    def _declare_handlers(self, conn: Connection) -> None:
        """Write what the code says of its names: once, and again when a child has newer code."""
        declared = self._handlers()
        if declared != self._declared:
            handlers.declare(conn, self._worker, declared)
            self._declared = declared

    def _say_draining(self, conn: Connection) -> None:
        if self._draining and not self._said_draining:
            fleet.drain(conn, self._worker)
            self._said_draining = True

    def _tick_schedules(self, conn: Connection) -> None:
        self._tick_at = math.inf  # where it fails, the next round tries again
        ticked = schedules.tick(conn, self._schedules())
        self._tick_at = time.monotonic() + ticked.due_in
        if ticked.enqueued:
            wake(conn)

    def _archive_schedules(self, conn: Connection) -> None:
        if time.monotonic() >= self._archive_at:
            archived = schedules.archive_schedules(conn, self._schedules())
            self._archive_at = time.monotonic() + ARCHIVE_SECONDS
            if archived:
                logs.info("schedules archived that no code has any more", schedules=archived)

    def _bury_dead(self, conn: Connection) -> None:
        """Declare workers of this host lost whose process is gone, however fresh their beat."""
        if self._sweeps:
            bury_dead(conn, self._worker, self._identity)

    def _bury_stale(self, conn: Connection) -> None:
        if self._sweeps and self._heartbeat.may_judge():
            silent = fleet.bury_stale(conn, self._worker, self._stale_after)
            for worker in silent:
                logs.warning("worker declared lost", lost=worker, why="it was not heard from")

    def _recover(self, conn: Connection) -> None:
        if not self._sweeps:
            return
        for _ in range(MOST_BATCHES):
            moved = recovery.recover(conn)
            tell_recovered(moved)
            if any(each.state == "ready" for each in moved):
                wake(conn)
            if len(moved) < recovery.BATCH:
                return

    def _make_partitions(self, conn: Connection) -> None:
        if time.monotonic() >= self._partitions_at:
            execute(conn, MAKE_PARTITIONS, {})
            self._partitions_at = time.monotonic() + PARTITIONS_SECONDS

    def _seal(self, conn: Connection) -> None:
        if time.monotonic() >= self._seal_at:
            for _ in range(MOST_BATCHES):
                if not seals.seal(conn):
                    break
            self._seal_at = time.monotonic() + SEAL_SECONDS

    def _fold_tallies(self, conn: Connection) -> None:
        if time.monotonic() >= self._fold_at:
            fold(conn)
            self._fold_at = time.monotonic() + FOLD_SECONDS


def pause(ends: float, due: float) -> float:
    """Return the seconds to wait for the earlier of two times (monotonic), never none at all."""
    return max(SHORTEST_PAUSE, min(ends, due) - time.monotonic())
