"""The job that Countersign's worker does in the comparison."""

from typing import Final

from bench.peers.marks import Marker
from queue_core import Registry, Run

MARKER: Final = Marker()
NAME: Final = "peers.noop"

jobs = Registry()


@jobs.job(NAME, safe_to_repeat=True)
def noop(run: Run, n: int) -> None:
    """Count the run, and do nothing."""
    del run
    MARKER.run(n)
