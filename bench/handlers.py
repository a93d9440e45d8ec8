"""Jobs that do nothing, for what it costs to do them."""

from queue_core import Registry, Run

jobs = Registry()


@jobs.job("bench.noop", safe_to_repeat=True)
def noop(run: Run, n: int) -> None:
    """Do nothing, and let a run be claimed ahead."""
    del run, n


@jobs.job("bench.careful")
def careful(run: Run, n: int) -> None:
    """Do nothing; a run is claimed only when a slot is free."""
    del run, n
