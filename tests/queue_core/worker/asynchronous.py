"""A module with a handler that workers cannot call."""

from queue_core import Registry, Run

jobs = Registry()


@jobs.job("asynchronous.nap")
async def nap(run: Run) -> None: ...
