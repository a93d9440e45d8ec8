"""A module all of whose handlers are async."""

from queue_core import Registry, Run

jobs = Registry()


@jobs.job("only.echo")
async def echo(run: Run) -> None: ...
