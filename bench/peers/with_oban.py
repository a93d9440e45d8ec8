"""oban, the open edition, at the settings that drained fastest: a limit of 100, uvloop."""
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false
# It has an environment of its own: see bench/peers/setup.

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

import uvloop
from oban import Job, Oban, worker
from oban.schema import install

from bench.peers import adapter
from bench.peers.marks import Marker

LIMIT: Final = 100
CONNECTIONS: Final = 10
MARKER: Final = Marker()


@worker(queue="default")
class Noop:
    """The job that does nothing."""

    async def process(self, job: Job) -> None:
        """Count the run."""
        MARKER.run(job.args["n"])


async def _enqueuer() -> Oban:
    return Oban(pool=await Oban.create_pool(adapter.URL, min_size=1, max_size=1))


class Obans:
    """oban, by what is measured of it."""

    async def setup(self) -> None:
        """Install its tables."""
        pool = await Oban.create_pool(adapter.URL)
        await install(pool)
        await pool.close()

    async def opened(self) -> Callable[[int], Awaitable[object]]:
        """Connect."""
        oban = await _enqueuer()
        return lambda number: oban.enqueue(Noop.new({"n": number}))

    async def bulk(self, count: int) -> float:
        """Enqueue all in one call."""
        oban = await _enqueuer()
        began = time.monotonic()
        await oban.enqueue_many(*[Noop.new({"n": number}) for number in range(count)])
        return time.monotonic() - began

    async def work(self) -> None:
        """Work on the one queue."""
        pool = await Oban.create_pool(adapter.URL, min_size=2, max_size=CONNECTIONS)
        async with Oban(pool=pool, queues={"default": LIMIT}):
            await asyncio.Event().wait()


if __name__ == "__main__":
    adapter.main(Obans(), uvloop.run)
