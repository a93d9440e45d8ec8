"""The outbox: what ended stays in it until the database has it, however long that takes."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Final
from uuid import UUID

from queue_core.outcomes import Completed, Deferred, Failed, Moved, Stopped, Unreadable
from queue_core.queries.runs import locked_by_others, own_record
from queue_core.transitions.complete import complete
from queue_core.transitions.defer import defer
from queue_core.transitions.dispute import dispute
from queue_core.transitions.fail import fail
from queue_core.transitions.give_back import give_back
from queue_core.transitions.set_aside import set_aside
from queue_core.transitions.stop import stop
from queue_core.worker import logs
from queue_core.worker.books import Finished, Key, Returned
from queue_core.worker.link import LOCKED, Link, is_bad_value
from queue_core.worker.requests import Connection

BATCH: Final = 500
UNSTORABLE: Final = Failed("result could not be stored", retryable=False)


class Outbox:
    """The runs that ended. Any thread puts them in; one stores them, on the link's connection."""

    def __init__(self, link: Link, worker: UUID) -> None:
        self._link = link
        self._worker = worker
        self._lock = threading.Lock()
        self._runs: dict[Key, Finished] = {}

    def put(self, ended: Sequence[Finished]) -> None:
        """Keep what ended until the database has it."""
        with self._lock:
            self._runs |= {each.key: each for each in ended}

    def keys(self) -> set[Key]:
        """Return the runs that the database has yet to take."""
        with self._lock:
            return set(self._runs)

    def is_empty(self) -> bool:
        """Say whether the database has taken all of it."""
        return not self._runs

    def contents(self) -> list[Finished]:
        """Return what is in it."""
        with self._lock:
            return list(self._runs.values())

    def move(self, conn: Connection, ended: Sequence[Finished]) -> list[Moved]:
        """Move all of these to where they end, or raise; to be settled once that is committed."""
        return [moved for batch in _batches(ended) for moved in _move(conn, self._worker, batch)]

    def store(self, conn: Connection, ended: Sequence[Finished]) -> None:
        """Store each that can be, and raise the first error that is neither a lock nor a bad value.

        What others have locked stays for the next time. One that cannot be stored fails for good.
        """
        trouble: list[Exception] = []
        for batch in _batches(ended):
            self._store(conn, batch, trouble)
        if trouble:
            raise trouble[0]

    def settle(self, conn: Connection, ended: Sequence[Finished], moved: Sequence[Moved]) -> None:
        """Forget what the database has taken, and look into what it no longer had under us."""
        states = {Key(each.id, each.attempt): each.state for each in moved}
        self._forget(ended, states)
        if len(moved) < len(ended):
            self._look_into(conn, [each for each in ended if each.key not in states])

    def unlocked(self, conn: Connection, ended: Sequence[Finished]) -> list[Finished]:
        """Return the runs that nobody else has locked; the others stay for the next time."""
        locked = locked_by_others(conn, self._worker, [each.key.id for each in ended])
        return [each for each in ended if each.key.id not in locked]

    def _store(self, conn: Connection, batch: list[Finished], trouble: list[Exception]) -> None:
        """Store runs that ended alike; where one spoils it for all, by halves down to that one."""
        try:
            self.settle(conn, batch, _move(conn, self._worker, batch))
        except Exception as error:
            if self._link.is_lost(error):
                raise
            if len(batch) > 1:
                self._store_parts(conn, batch, error, trouble)
            elif is_bad_value(error):
                self._replace(conn, batch[0], error, trouble)
            elif not isinstance(error, LOCKED):
                trouble.append(error)

    def _store_parts(
        self, conn: Connection, batch: list[Finished], error: Exception, trouble: list[Exception]
    ) -> None:
        rest = self.unlocked(conn, batch) if isinstance(error, LOCKED) else batch
        left = self.keys()
        rest = [each for each in rest if each.key in left]
        half = -(-len(rest) // 2) or 1
        for start in range(0, len(rest), half):
            self._store(conn, rest[start : start + half], trouble)

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

    def _replace(
        self, conn: Connection, each: Finished, error: Exception, trouble: list[Exception]
    ) -> None:
        """Let a run whose ending cannot be stored fail for good, saying so."""
        if each.ending == UNSTORABLE:
            return
        logs.error("an ending could not be stored", cause=logs.cause(error), **_named(each))
        failed = replace(each, ending=UNSTORABLE)
        self.put([failed])
        self._store(conn, [failed], trouble)

    def _forget(self, batch: Sequence[Finished], states: Mapping[Key, str]) -> None:
        stored: list[tuple[Finished, str]] = []
        with self._lock:
            for each in batch:
                state = states.get(each.key)
                if state is not None and self._runs.pop(each.key, None):
                    stored.append((each, state))
        # A line for each that completed, or never began, would bury the ones to be seen.
        for each, state in stored:
            if state != "completed" and not isinstance(each.ending, Returned):
                facts = {"outcome": _outcome(each), "seconds": _rounded(each.seconds)}
                logs.info("run ended", **_named(each), **facts, state=state)


def _batches(ended: Sequence[Finished]) -> Iterator[list[Finished]]:
    """Return runs that ended alike together, at most BATCH at a time."""
    for _, alike in groupby(sorted(ended, key=_kind), key=_kind):
        batch = list(alike)
        for start in range(0, len(batch), BATCH):
            yield batch[start : start + BATCH]


def _move(conn: Connection, worker: UUID, batch: Sequence[Finished]) -> list[Moved]:
    """Do the one transition that belongs to how these runs ended."""
    match batch[0].ending:
        case Completed():
            return complete(conn, worker, [each.report() for each in batch])
        case Failed():
            return fail(conn, worker, [each.report() for each in batch])
        case Deferred():
            return defer(conn, worker, [each.report() for each in batch])
        case Stopped():
            return stop(conn, worker, [each.report() for each in batch])
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
