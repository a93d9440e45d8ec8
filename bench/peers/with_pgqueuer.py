"""pgqueuer at the settings that drained fastest: two managers, 500 a batch, uvloop, durable."""
# pyright: basic, reportMissingImports=false
# It has an environment of its own: see bench/peers/setup.

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries

from bench.peers import adapter
from bench.peers.marks import Marker

MANAGERS: Final = 2
BATCH: Final = 500


async def _queries() -> Queries:
    return Queries(AsyncpgDriver(await asyncpg.connect(adapter.URL)))


class PgQueuers:
    """pgqueuer, by what is measured of it."""

    async def setup(self) -> None:
        """Install its tables, and the autovacuum settings that it recommends."""
        program = str(Path(sys.executable).with_name("pgq"))
        for command in (["install", "-d", "durable"], ["autovac"]):
            arguments = [program, "--pg-dsn", adapter.URL, *command]
            subprocess.run(arguments, check=True, stdout=subprocess.DEVNULL)  # noqa: ASYNC221 - nothing else runs

    async def opened(self) -> Callable[[int], Awaitable[object]]:
        """Connect."""
        queries = await _queries()
        return lambda number: queries.enqueue("noop", b'{"n": %d}' % number, 0)

    async def bulk(self, count: int) -> float:
        """Enqueue all in one call."""
        queries = await _queries()
        began = time.monotonic()
        bodies: list[bytes | None] = [b'{"n": %d}' % number for number in range(count)]
        await queries.enqueue(["noop"] * count, bodies, [0] * count)
        return time.monotonic() - began

    async def work(self) -> None:
        """Run the managers side by side."""
        marker, running = Marker(), []
        for _ in range(MANAGERS):
            manager = PgQueuer(AsyncpgDriver(await asyncpg.connect(adapter.URL)))

            @manager.entrypoint("noop")
            async def noop(job: Job) -> None:
                marker.run(json.loads(job.payload or b"")["n"])

            running.append(manager.run(batch_size=BATCH))
        await asyncio.gather(*running)


if __name__ == "__main__":
    adapter.main(PgQueuers(), uvloop.run)
