"""What an adapter of a Python peer is asked: one command, answered by one JSON line.

`setup`, `singles COUNT`, `paced COUNT SECONDS`, `bulk COUNT` and `work`, which does not return.
The standard library alone, since every Python peer imports it.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, Protocol

URL: Final = os.environ.get("PEER_URL", "")
Runner = Callable[[Coroutine[Any, Any, None]], None]


class Peer(Protocol):
    """A queue, by what is measured of it."""

    async def setup(self) -> None:
        """Make its tables."""

    async def opened(self) -> Callable[[int], Awaitable[object]]:
        """Connect, and return what enqueues the job of a number and commits it."""
        ...

    async def bulk(self, count: int) -> float:
        """Enqueue so many jobs the fastest way it has; returns the seconds, connecting left out."""
        ...

    async def work(self) -> None:
        """Work as one worker until it is killed."""


async def singles(peer: Peer, count: int) -> dict[str, object]:
    """Enqueue jobs one by one, one commit each."""
    one = await peer.opened()
    began = time.monotonic()
    for number in range(count):
        await one(number)
    return {"seconds": time.monotonic() - began}


async def paced(peer: Peer, count: int, every: float) -> dict[str, object]:
    """Enqueue one job every so many seconds; answers when each enqueue returned."""
    one = await peer.opened()
    returned: list[float] = []
    first = time.monotonic() + 0.5
    for number in range(count):
        await asyncio.sleep(max(0.0, first + number * every - time.monotonic()))
        await one(number)
        returned.append(time.monotonic())
    return {"returned": returned}


async def answer(peer: Peer, command: str, *arguments: str) -> None:
    """Do what is asked, and print the answer."""
    told: dict[str, object] = {}
    match command:
        case "setup":
            await peer.setup()
        case "singles":
            told = await singles(peer, int(arguments[0]))
        case "paced":
            told = await paced(peer, int(arguments[0]), float(arguments[1]))
        case "bulk":
            told = {"seconds": await peer.bulk(int(arguments[0]))}
        case "work":
            await peer.work()
        case _:
            sys.exit(f"no such command: {command}")
    print(json.dumps(told), flush=True)


def main(peer: Peer, run: Runner = asyncio.run) -> None:
    """Answer the command of the command line."""
    run(answer(peer, *sys.argv[1:]))
