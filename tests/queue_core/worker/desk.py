"""A clerk of the worker's at work, for tests that say what ends and when."""

import queue
from collections.abc import Sequence
from typing import Any
from uuid import UUID, uuid4

from queue_core import fleet
from queue_core.outcomes import Ending
from queue_core.transitions.claim import Claimable, Claimed
from queue_core.worker.books import Finished, Key, Returned
from queue_core.worker.clerk import Clerk
from queue_core.worker.link import BUSY, Link
from queue_core.worker.requests import Request
from tests.conftest import Database
from tests.queue_core.worker.conftest import wait_for

NAMES = [Claimable("sample.echo", 3), Claimable("sample.raise", 3)]


def finished(ended: Sequence[tuple[Claimed, Ending | Returned]]) -> list[Finished]:
    return [Finished(Key(run.id, run.attempt), run.name, ending, wait=60) for run, ending in ended]


class Desk:
    """A clerk at work, and what it told."""

    def __init__(self, database: Database) -> None:
        self.conn = database.connect()
        identity = fleet.Identity("pay-3", 4121, "boot", "pid:[1]", "0.1.0", [], 4)
        self.worker: UUID = fleet.register(self.conn, identity)
        self.line = uuid4().hex
        self.told: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.reconnected: list[bool] = []
        self.clerk = Clerk(
            Link(database.url, BUSY), self.worker, self.told.put,
            lambda: self.reconnected.append(True),
        )  # fmt: skip
        self.clerk.start()

    def claim(
        self, free: int, *, ended: Sequence[tuple[Claimed, Ending]] = (), **options: object
    ) -> list[Claimed]:
        asked = {"offers": NAMES, "queues": {self.line: None}, "used": {}} | options
        request = Request(free, **asked)  # pyright: ignore[reportArgumentType]
        self.clerk.ask([request], finished(ended))
        return self.told.get(timeout=10).taken

    def store(self, *ended: tuple[Claimed, Ending | Returned]) -> None:
        self.clerk.store(finished(ended))

    def stored(self) -> None:
        wait_for(lambda: not self.clerk.keys())
