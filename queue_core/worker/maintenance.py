"""Maintenance: a thread with a connection of its own for what no run waits for."""

import random
import threading
import time
from collections.abc import Callable
from typing import Final
from uuid import UUID

from queue_core import fleet
from queue_core.database import execute
from queue_core.migrate import MAKE_PARTITIONS
from queue_core.transitions import promote as promotion
from queue_core.transitions import recover as recovery
from queue_core.worker import logs
from queue_core.worker.clerk import Connection
from queue_core.worker.heartbeat import Heartbeat
from queue_core.worker.link import LOCKED, Link
from queue_core.worker.processes import can_judge, is_gone

EVERY_SECONDS: Final = 1.0
PARTITIONS_SECONDS: Final = 3_600.0
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
        heartbeat: Heartbeat,
    ) -> None:
        super().__init__(name="countersign-maintenance", daemon=True)
        self._link = link
        self._worker = worker
        self._identity = identity
        self._stale_after = stale_after
        self._heartbeat = heartbeat
        self._over = threading.Event()
        self._partitions_at = 0.0
        self._troubled: set[str] = set()

    def run(self) -> None:
        """Do all chores at once, then every second or so."""
        chores: tuple[Callable[[Connection], None], ...] = (
            self._promote,
            self._bury_dead,
            self._bury_stale,
            self._recover,
            self._make_partitions,
        )
        while not self._over.is_set():
            for chore in chores:
                self._do(chore)
            spread = random.uniform(0.8, 1.2)  # noqa: S311 - parts a crowd, guards nothing
            self._over.wait(EVERY_SECONDS * spread)
        self._link.close()

    def stop(self) -> None:
        """Begin no further round."""
        self._over.set()

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
            if promotion.promote(conn) < promotion.BATCH:
                return

    def _bury_dead(self, conn: Connection) -> None:
        """Declare workers of this host lost whose process is gone, however fresh their beat."""
        if not can_judge(self._identity):
            return
        peers = fleet.same_host(conn, self._worker, self._identity)
        dead = [peer.id for peer in peers if is_gone(peer.pid)]
        if dead:
            _tell(fleet.bury_dead(conn, self._worker, dead), "its process is gone")

    def _bury_stale(self, conn: Connection) -> None:
        if self._heartbeat.may_judge():
            silent = fleet.bury_stale(conn, self._worker, self._stale_after)
            _tell(silent, "it was not heard from")

    def _recover(self, conn: Connection) -> None:
        for _ in range(MOST_BATCHES):
            moved = recovery.recover(conn)
            for each in moved:
                logs.warning("run recovered", job=each.id, attempt=each.attempt, state=each.state)
            if len(moved) < recovery.BATCH:
                return

    def _make_partitions(self, conn: Connection) -> None:
        if time.monotonic() >= self._partitions_at:
            execute(conn, MAKE_PARTITIONS, {})
            self._partitions_at = time.monotonic() + PARTITIONS_SECONDS


def _tell(lost: list[UUID], why: str) -> None:
    for worker in lost:
        logs.warning("worker declared lost", lost=worker, why=why)
