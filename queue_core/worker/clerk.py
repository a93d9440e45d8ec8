"""The clerk: a thread with a connection of its own that claims runs and stores how they ended."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Final
from uuid import UUID

from queue_core.worker import logs
from queue_core.worker.bell import Bell
from queue_core.worker.books import Finished, Key
from queue_core.worker.claimer import Claimer
from queue_core.worker.link import LOCKED, Link
from queue_core.worker.outbox import BATCH, Outbox
from queue_core.worker.plans import Plans
from queue_core.worker.requests import Claims, Connection, Request, Woken
from queue_core.worker.sleep import Sleep

MOST_WITH_CLAIM: Final = 2 * BATCH
"""Runs stored in one commit with a claim; more of them lie there after an outage alone."""
AGAIN_SECONDS: Final = 0.2
"""Between tries to store what others had locked."""


class Clerk(threading.Thread):
    """Claims and stores. Asked by the main thread; answers through `tell`, from its own."""

    def __init__(
        self,
        link: Link,
        worker: UUID,
        tell: Callable[[Claims | Woken], None],
        reconnected: Callable[[], None],
    ) -> None:
        """Prepare the thread; `reconnected` is called after a lost connection came back."""
        super().__init__(name="countersign-clerk", daemon=True)
        self._link = link
        self.claimer = Claimer(worker)
        self._tell = tell
        self._reconnected = reconnected
        self._news = threading.RLock()
        self._bell = Bell()
        self._sleep = Sleep()
        self._plans = Plans()
        self._outbox = Outbox(link, worker)
        self._requests: Sequence[Request] = ()
        self._farewell: Callable[[Connection], None] | None = None
        self._give_up_at = 0.0
        self._lost = False

    def store(self, ended: Sequence[Finished]) -> None:
        """Keep what ended until the database has it."""
        with self._news:
            self._outbox.put(ended)
            self._bell.ring()

    def ask(self, requests: Sequence[Request], ended: Sequence[Finished] = ()) -> None:
        """Ask for runs and store what ended, in one commit where nothing is in the way.

        All are answered at once, whatever happens; until then no more may be asked.
        """
        with self._news:
            self._outbox.put(ended)
            self._requests = requests
            self._bell.ring()

    def keys(self) -> set[Key]:
        """Return the runs that the database has yet to take."""
        return self._outbox.keys()

    def close(self, farewell: Callable[[Connection], None], give_up_at: float) -> None:
        """End the thread: store all there is, then do `farewell`, until both are done.

        Both are tried again until `give_up_at` (monotonic), and must bear it.
        """
        with self._news:
            self._requests = ()
            self._farewell = farewell
            self._give_up_at = give_up_at
            self._bell.ring()

    def hurry(self, give_up_at: float) -> None:
        """Give up sooner than was said at `close`."""
        with self._news:
            self._give_up_at = min(self._give_up_at, give_up_at)
            self._bell.ring()

    def run(self) -> None:
        """Work until the farewell is said or given up."""
        while self._farewell is None or time.monotonic() < self._give_up_at:
            self._await_news()
            if self._round():
                break
        self._link.close()
        self._bell.close()

    def _await_news(self) -> None:
        """Wait until there is something to do; say so when we are woken meanwhile."""
        while self._hear() and self._bell.wait(self._patience(), self._sleep.line()):
            pass

    def _hear(self) -> bool:
        """Read what woke us; False where the connection turns out to be lost."""
        try:
            if self._sleep.heard():
                self._tell(Woken())
        except Exception as error:  # noqa: BLE001 - as in any round
            self._stumble(error)
            self._tell(Woken())  # nobody can wake us until we ask anew
            return False
        return True

    def _patience(self) -> float | None:
        if self._outbox.is_empty() and self._farewell is None:
            return None
        return max(self._link.wait_seconds(), AGAIN_SECONDS)

    def _round(self) -> bool:
        """Do what there is to do; True when the farewell has been said."""
        claims = Claims()
        with self._news:
            requests, self._requests = self._requests, ()
            ended = self._outbox.contents()
        try:
            conn = self._open()
            if any(request.sleeps for request in requests):
                self._sleep.fall(conn)
            if requests and 0 < len(ended) <= MOST_WITH_CLAIM:
                self._store_and_claim(conn, requests, ended, claims)
            else:
                self._store(conn, ended)
                self._claim(conn, requests, claims)
            done = self._say_farewell(conn)
            self._link.worked()
        except Exception as error:  # noqa: BLE001 - what ended is kept, and tried again
            self._stumble(error)
            claims.broke_off = True
            done = False
        else:
            claims.is_heard = self._sleep.is_heard()
            if requests and not claims.taken:
                claims.naps = self._sleep.nap_if_disturbed()
        finally:
            if requests:
                self._tell(claims)
        if claims.taken:
            self._sleep.end()
        return done

    def _open(self) -> Connection:
        conn = self._link.open()
        if self._lost:
            logs.info("the database is back", unstored=len(self.keys()))
            self._lost = False
            self._reconnected()
        return conn

    def _stumble(self, error: Exception) -> None:
        self.claimer.forget()
        self._plans.forget()
        lost = self._link.failed(error)
        if isinstance(error, LOCKED):
            return
        if lost or not self._lost:
            logs.warning("storing or claiming failed", cause=logs.cause(error), lost=lost)
        self._lost = True

    def _store_and_claim(
        self,
        conn: Connection,
        requests: Sequence[Request],
        ended: Sequence[Finished],
        claims: Claims,
    ) -> None:
        """Store what ended and claim what is next in one commit, or one by one if that fails."""
        taken = Claims()
        try:
            with conn.transaction():
                self._plans.make_anew(conn)
                moved = self._outbox.move(conn, ended)
                self._claim(conn, requests, taken)
        except Exception as error:
            if self._link.is_lost(error):
                raise
            self.claimer.forget()
            self._plans.forget()
            is_locked = isinstance(error, LOCKED)
            self._store(conn, self._outbox.unlocked(conn, ended) if is_locked else ended)
            self._claim(conn, requests, claims)
        else:
            claims.taken += taken.taken
            if len(moved) < len(ended):  # some are to be looked for elsewhere
                self._plans.make_anew(conn)
            self._outbox.settle(conn, ended, moved)

    def _store(self, conn: Connection, ended: Sequence[Finished]) -> None:
        if ended:
            self._plans.make_anew(conn)
            self._outbox.store(conn, ended)

    def _claim(self, conn: Connection, requests: Sequence[Request], claims: Claims) -> None:
        """Claim for the slots that are free, then what may be claimed ahead behind those runs."""
        if requests:
            self._plans.keep(conn)
        for request in requests:
            more: Request | None = request.after(claims.taken)
            while more:
                taken = self.claimer.claim(conn, more)
                claims.taken += taken
                more = more.ahead_of(taken)

    def _say_farewell(self, conn: Connection) -> bool:
        if self._farewell is None or not self._outbox.is_empty():
            return False
        self._farewell(conn)
        return True
