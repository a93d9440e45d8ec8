"""The clerk: a thread with a connection of its own that claims runs and stores how they ended.

What ended stays with it until the database has it, however long that takes.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Final
from uuid import UUID

import psycopg

from queue_core.database import rows
from queue_core.outcomes import Completed, Deferred, Failed, Moved, Unreadable
from queue_core.queries.runs import own_record
from queue_core.transitions.claim import Claimable, Claimed, claim
from queue_core.transitions.complete import complete
from queue_core.transitions.defer import defer
from queue_core.transitions.dispute import dispute
from queue_core.transitions.fail import fail
from queue_core.transitions.give_back import give_back
from queue_core.transitions.set_aside import set_aside
from queue_core.worker import logs
from queue_core.worker.books import Finished, Key, Returned
from queue_core.worker.link import LOCKED, Link, is_bad_value

BATCH: Final = 256
AGAIN_SECONDS: Final = 0.2
"""Between tries to store what others had locked."""
UNSTORABLE: Final = Failed("result could not be stored", retryable=False)

Connection = psycopg.Connection[dict[str, object]]


@dataclass(frozen=True, slots=True)
class Request:
    """Asks for up to `free` runs of these names, from queues as their caps allow.

    `queues` maps queues to caps (None: no cap), empty for all queues; `used` counts the
    runs in hand by queue.
    """

    free: int
    offers: Sequence[Claimable]
    queues: Mapping[str, int | None]
    used: Mapping[str, int]


@dataclass(slots=True)
class Claims:
    """What came of a request: the runs that are ours now, even where it broke off."""

    taken: list[Claimed] = field(default_factory=list[Claimed])


@dataclass(frozen=True, slots=True)
class _Id:
    """A row that is only an id."""

    id: UUID


LOCKED_BY_OTHERS = """
SELECT running.id
FROM countersign.running
WHERE running.id = ANY(%(ids)s) AND running.worker = %(worker)s
EXCEPT
SELECT free.id
FROM (
    SELECT running.id
    FROM countersign.running
    WHERE running.id = ANY(%(ids)s) AND running.worker = %(worker)s
    FOR UPDATE SKIP LOCKED
) AS free
"""


class Clerk(threading.Thread):
    """Claims and stores. Asked by the main thread; answers through `tell`, from its own."""

    def __init__(
        self,
        link: Link,
        worker: UUID,
        tell: Callable[[Claims], None],
        reconnected: Callable[[], None],
    ) -> None:
        """Prepare the thread; `reconnected` is called after a lost connection came back."""
        super().__init__(name="countersign-clerk", daemon=True)
        self._link = link
        self._worker = worker
        self._tell = tell
        self._reconnected = reconnected
        self._news = threading.Condition()
        self._has_news = False
        self._outbox: dict[Key, Finished] = {}
        self._request: Request | None = None
        self._farewell: Callable[[Connection], None] | None = None
        self._give_up_at = 0.0
        self._lost = False

    def store(self, ended: Sequence[Finished]) -> None:
        """Keep what ended until the database has it."""
        with self._news:
            self._outbox |= {each.key: each for each in ended}
            self._wake()

    def ask(self, request: Request) -> None:
        """Ask for runs; answered once, whatever happens. One request at a time."""
        with self._news:
            self._request = request
            self._wake()

    def keys(self) -> set[Key]:
        """Return the runs that the database has yet to take."""
        with self._news:
            return set(self._outbox)

    def close(self, farewell: Callable[[Connection], None], give_up_at: float) -> None:
        """End the thread: store all there is, then do `farewell`, until both are done.

        Both are tried again until `give_up_at` (monotonic), and must bear it.
        """
        with self._news:
            self._request = None
            self._farewell = farewell
            self._give_up_at = give_up_at
            self._wake()

    def hurry(self, give_up_at: float) -> None:
        """Give up sooner than was said at `close`."""
        with self._news:
            self._give_up_at = min(self._give_up_at, give_up_at)
            self._wake()

    def run(self) -> None:
        """Work until the farewell is said or given up."""
        while self._farewell is None or time.monotonic() < self._give_up_at:
            self._await_news()
            if self._round():
                break
        self._link.close()

    def _wake(self) -> None:
        self._has_news = True
        self._news.notify()

    def _await_news(self) -> None:
        with self._news:
            self._news.wait_for(lambda: self._has_news, self._patience())
            self._has_news = False

    def _patience(self) -> float | None:
        if not self._outbox and self._farewell is None:
            return None
        return max(self._link.wait_seconds(), AGAIN_SECONDS)

    def _round(self) -> bool:
        """Do what there is to do; True when the farewell has been said."""
        claims = Claims()
        with self._news:
            request, self._request = self._request, None
        try:
            conn = self._open()
            self._store_all(conn)
            if request:
                self._claim(conn, request, claims)
            done = self._say_farewell(conn)
            self._link.worked()
        except Exception as error:  # noqa: BLE001 - what ended is kept, and tried again
            self._stumble(error)
            done = False
        finally:
            if request:
                self._tell(claims)
        return done

    def _open(self) -> Connection:
        conn = self._link.open()
        if self._lost:
            logs.info("the database is back", unstored=len(self._outbox))
            self._lost = False
            self._reconnected()
        return conn

    def _stumble(self, error: Exception) -> None:
        lost = self._link.failed(error)
        if isinstance(error, LOCKED):
            return
        if lost or not self._lost:
            logs.warning("storing or claiming failed", cause=logs.cause(error), lost=lost)
        self._lost = True

    def _claim(self, conn: Connection, request: Request, claims: Claims) -> None:
        """Claim until the slots are full or nothing is left, never past a queue's cap."""
        used = dict(request.used)
        free = request.free
        while free > 0:
            queues, count = open_queues(request.queues, used, free)
            if count == 0:
                return
            taken = claim(
                conn, worker=self._worker, names=request.offers, queues=queues, count=count
            )
            claims.taken += taken
            if len(taken) < count:
                return
            free -= count
            for each in taken:
                used[each.queue] = used.get(each.queue, 0) + 1

    def _store_all(self, conn: Connection) -> None:
        with self._news:
            waiting = sorted(self._outbox.values(), key=_kind)
        trouble: list[Exception] = []
        for _, alike in groupby(waiting, key=_kind):
            batch = list(alike)
            for start in range(0, len(batch), BATCH):
                self._store(conn, batch[start : start + BATCH], trouble)
        if trouble:
            raise trouble[0]

    def _store(self, conn: Connection, batch: list[Finished], trouble: list[Exception]) -> None:
        """Store runs that ended alike; where one spoils it for all, each by itself."""
        try:
            moved = _move(conn, self._worker, batch)
            self._forget(batch, {Key(each.id, each.attempt): each.state for each in moved})
            self._look_into(conn, [each for each in batch if each.key in self.keys()])
        except Exception as error:
            if self._link.is_lost(error):
                raise
            if len(batch) > 1:
                singles = self._unlocked(conn, batch) if isinstance(error, LOCKED) else batch
                for each in singles:
                    if each.key in self.keys():
                        self._store(conn, [each], trouble)
            elif is_bad_value(error):
                self._replace(batch[0], error)
            elif not isinstance(error, LOCKED):
                trouble.append(error)

    def _unlocked(self, conn: Connection, batch: Sequence[Finished]) -> list[Finished]:
        """Return the runs that nobody else has locked; the others stay for the next round."""
        parameters = {"ids": [each.key.id for each in batch], "worker": self._worker}
        locked = {row.id for row in rows(conn, LOCKED_BY_OTHERS, parameters, _Id)}
        return [each for each in batch if each.key.id not in locked]

    def _look_into(self, conn: Connection, absent: Sequence[Finished]) -> None:
        """Settle runs that the database no longer had under us: stored before, or taken from us."""
        if not absent:
            return
        begun = [each for each in absent if not isinstance(each.ending, Returned)]
        recorded = own_record(conn, self._worker, [each.key for each in begun])
        disputed = [each for each in begun if each.key not in recorded]
        if disputed:
            dispute(conn, self._worker, [each.report() for each in disputed])
        self._forget(disputed, dict.fromkeys((each.key for each in disputed), "lost its claim"))
        self._forget(absent, dict.fromkeys((each.key for each in absent), "as recorded"))

    def _replace(self, each: Finished, error: Exception) -> None:
        """Let a run whose ending cannot be stored fail for good, saying so."""
        if each.ending == UNSTORABLE:
            return
        logs.error("an ending could not be stored", cause=logs.cause(error), **_named(each))
        with self._news:
            self._outbox[each.key] = replace(each, ending=UNSTORABLE)
            self._wake()

    def _forget(self, batch: Sequence[Finished], states: Mapping[Key, str]) -> None:
        with self._news:
            stored = [each for each in batch if each.key in states and each.key in self._outbox]
            for each in stored:
                del self._outbox[each.key]
        # A line for each that completed would bury the ones that somebody should see.
        for each in [each for each in stored if states[each.key] != "completed"]:
            facts = {"outcome": _outcome(each), "seconds": _rounded(each.seconds)}
            logs.info("run ended", **_named(each), **facts, state=states[each.key])

    def _say_farewell(self, conn: Connection) -> bool:
        if self._farewell is None or self.keys():
            return False
        self._farewell(conn)
        return True


def open_queues(
    caps: Mapping[str, int | None], used: Mapping[str, int], free: int
) -> tuple[list[str] | None, int]:
    """Return the queues with room, and how many runs cannot take any of them past its cap."""
    if not caps:
        return None, free
    room = {queue: free if cap is None else cap - used.get(queue, 0) for queue, cap in caps.items()}
    queues = [queue for queue, left in room.items() if left > 0]
    return queues, min([free, *(room[queue] for queue in queues)]) if queues else 0


def _move(conn: Connection, worker: UUID, batch: Sequence[Finished]) -> list[Moved]:
    """Do the one transition that belongs to how these runs ended."""
    match batch[0].ending:
        case Completed():
            return complete(conn, worker, [each.report() for each in batch])
        case Failed():
            return fail(conn, worker, [each.report() for each in batch])
        case Deferred():
            return defer(conn, worker, [each.report() for each in batch])
        case Unreadable():
            return set_aside(conn, worker, [each.report() for each in batch])
        case Returned():
            return give_back(conn, worker, [each.key for each in batch])


def _kind(each: Finished) -> str:
    return type(each.ending).__name__


def _outcome(each: Finished) -> str:
    return each.ending.outcome if isinstance(each.ending, Failed) else _kind(each).lower()


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)


def _named(each: Finished) -> dict[str, object]:
    return {"job": each.key.id, "name": each.name, "attempt": each.key.attempt}
