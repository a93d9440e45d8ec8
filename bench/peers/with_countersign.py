"""Countersign, as it comes: a worker with two processes."""

import os
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Final

from bench.peers import adapter, handlers
from queue_core import Client, NewJob

PROCESSES: Final = 2


class Countersign:
    """Countersign, by what is measured of it."""

    async def setup(self) -> None:
        """Leave the tables to the migrations, which were run with the database."""

    async def opened(self) -> Callable[[int], Awaitable[object]]:
        """Connect."""
        client = Client(adapter.URL)

        async def one(number: int) -> None:
            client.enqueue(handlers.NAME, {"n": number})

        client.enqueue_many([])
        return one

    async def bulk(self, count: int) -> float:
        """Enqueue all in one call."""
        with Client(adapter.URL) as client:
            client.enqueue_many([])
            began = time.monotonic()
            client.enqueue_many([NewJob(handlers.NAME, {"n": n}) for n in range(count)])
            return time.monotonic() - began

    async def work(self) -> None:
        """Become the worker's process."""
        command = ["-m", "flask", "queue", "work", "--jobs", "bench.peers.handlers"]
        command += ["--processes", str(PROCESSES)]
        os.environ["DATABASE_URL"] = adapter.URL
        os.execv(sys.executable, [sys.executable, *command])  # noqa: S606 - no shell is wanted


if __name__ == "__main__":
    adapter.main(Countersign())
