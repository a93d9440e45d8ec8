"""The heartbeat: a thread with a connection of its own that says that this worker lives.

Between beats it hears which runs are asked to stop.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from queue_core import fleet
from queue_core.worker import logs
from queue_core.worker.books import Begun, Key
from queue_core.worker.guard import boottime
from queue_core.worker.guarding import Watch
from queue_core.worker.link import LOCKED, Link

GUARD_DELAY: Final = 1 / 24
"""Of the stale time: how much later than the supervisor the guard loses its patience."""
GAP: Final = 1 / 4
"""Of the stale time: a longer silence of the database is a gap in its answers."""
HEAR_SECONDS: Final = 0.5
"""Between looks for runs that are asked to stop, while there are any that go on."""
SHORTEST: Final = 0.02


def beat_seconds(stale_after: float) -> float:
    """Return the time between beats: a twelfth of the stale time, never under 20 ms."""
    return max(stale_after / 12, SHORTEST)


@dataclass(frozen=True, slots=True)
class Beat:
    """An acknowledged beat, sent at `sent` (`boottime()`): the runs that the database has under us.

    `held` is None where this worker has been declared lost.
    """

    sent: float
    held: frozenset[Key] | None


@dataclass(frozen=True, slots=True)
class Stops:
    """Runs of ours that are asked to stop; told again until they end."""

    asked: tuple[fleet.Asked, ...]


class Heartbeat(threading.Thread):
    """Beats until it is stopped. At `deadline` (`boottime()`) this worker must give itself up."""

    def __init__(
        self,
        link: Link,
        worker: UUID,
        tell: Callable[[Beat | Stops], None],
        *,
        stale_after: float,
        registered: float,
        watch: Watch,
        begun: Begun,
    ) -> None:
        """Prepare the thread; the registration, sent at `registered`, counts as the first beat."""
        super().__init__(name="countersign-heartbeat", daemon=True)
        self._link = link
        self._worker = worker
        self._stale_after = stale_after
        self._watch = watch
        self._begun = begun
        self._tell = tell
        self._over = threading.Event()
        self._soon = threading.Event()
        self._answered = registered
        self._steady_since = registered
        self._failing = False
        self._has_runs = False
        self._hear_at = 0.0
        self.deadline = registered
        self._extend(registered)

    def run(self) -> None:
        """Beat at once, then every twelfth of the stale time (never under 20 ms)."""
        while not self._over.is_set():
            self._beat()
            self._hear_until(time.monotonic() + self._pause())
            self._soon.clear()
        self._link.close()

    def hurry(self) -> None:
        """Beat now, out of turn."""
        self._soon.set()

    def stop(self) -> None:
        """Beat no more."""
        self._over.set()
        self._soon.set()

    def may_judge(self) -> bool:
        """Say whether our own beats were answered, without a gap, for a whole stale time.

        Only then does the silence of another worker say something about that worker.
        """
        now = boottime()
        whole = now - self._steady_since >= self._stale_after
        return whole and not self._failing and now - self._answered <= self._stale_after * GAP

    def _hear_until(self, beat_at: float) -> None:
        """Look for requests to stop until the next beat is due (monotonic), or is hurried."""
        while time.monotonic() < beat_at:
            if self._soon.wait(max(0.0, min(beat_at, self._hear_at) - time.monotonic())):
                return
            if time.monotonic() >= self._hear_at:
                self._hear()

    def _hear(self) -> None:
        self._hear_at = time.monotonic() + HEAR_SECONDS
        if self._failing or not (self._has_runs or self._begun.snapshot()):
            return
        try:
            asked = fleet.asked_to_stop(self._link.open(), self._worker)
        except Exception as error:  # noqa: BLE001 - the next beat, at once, tries the connection
            self._miss(error)
            self.hurry()
        else:
            if asked:
                self._tell(Stops(tuple(asked)))

    def _pause(self) -> float:
        pause = beat_seconds(self._stale_after)
        return min(max(self._link.wait_seconds(), SHORTEST), pause) if self._failing else pause

    def _beat(self) -> None:
        sent = boottime()
        try:
            held = self._send()
        except Exception as error:  # noqa: BLE001 - a beat that failed is followed by another
            self._miss(error)
        else:
            self._acknowledge(sent, held)

    def _send(self) -> list[fleet.Held] | None:
        conn = self._link.open()
        begun = self._begun.snapshot()
        try:
            held = fleet.beat(conn, self._worker, begun.values())
        except LOCKED:  # somebody acts on a run that began: the beat alone waits for nobody
            held = fleet.beat(conn, self._worker)
        else:
            self._begun.drop(set(begun))
        self._link.worked()
        return held

    def _miss(self, error: Exception) -> None:
        if not self._failing:
            logs.warning("a beat failed", cause=logs.cause(error))
        self._link.failed(error)
        self._failing = True

    def _acknowledge(self, sent: float, held: list[fleet.Held] | None) -> None:
        now = boottime()
        if held is not None and now < self.deadline:
            self._extend(sent)
        if self._failing or now - self._answered > self._stale_after * GAP:
            self._steady_since = now
        self._answered = now
        self._failing = False
        self._has_runs = bool(held)
        keys = None if held is None else frozenset(Key(each.id, each.attempt) for each in held)
        self._tell(Beat(sent, keys))

    def _extend(self, sent: float) -> None:
        """Allow silence until two thirds of the stale time after a beat was sent."""
        deadline = sent + self._stale_after * 2 / 3
        # The guard first, and with more patience: it must never kill for a beat that we count on.
        self._watch.extend(deadline + self._stale_after * GUARD_DELAY)
        self.deadline = deadline
