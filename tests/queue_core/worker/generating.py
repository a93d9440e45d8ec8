"""A module with a handler that workers cannot call: calling it runs nothing."""

from collections.abc import AsyncIterator

from queue_core import Registry, Run

jobs = Registry()


@jobs.job("generating.pages")
async def pages(run: Run) -> AsyncIterator[int]:
    yield 1
