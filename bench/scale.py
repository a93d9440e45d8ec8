"""What much around it does to a drain: `python -m bench.scale [ENDED [READY [JOBS]]]`.

A worker drains 100,000 jobs from empty tables and, in turns, the first 100,000 where another
1,000,000 are ready behind them and 10,000,000 have ended, unless other numbers are given. Jobs a
second from the first run's beginning to the beginning of the last; the medians are printed.
"""

import sys
import time
from collections import defaultdict
from statistics import median
from typing import Final

from bench import harness, history
from bench.peers import contest, handlers
from bench.peers.field import COUNTERSIGN, peers

BENCH: Final = "scale"
ENDED: Final = 10_000_000
READY: Final = 1_000_000
JOBS: Final = 100_000
ROUNDS: Final = 3
EMPTY: Final = "empty tables"


def drained(entry: contest.Entry, jobs: int) -> float:
    """Add as many jobs as are drained, and return how many a second begin."""
    owner = entry.bench.owner()
    harness.load(owner, jobs, names=[handlers.NAME])
    harness.settle(owner)
    entry.start(1)
    try:
        entry.wait(jobs)
        return jobs / (time.monotonic() - entry.marks.first())
    finally:
        entry.stop()
        entry.marks.clear()


def main(ended: int = ENDED, ready: int = READY, jobs: int = JOBS) -> None:
    """Print the medians of both."""
    full = f"{ready:,} more ready, {ended:,} ended"
    rates = defaultdict[str, list[float]](list)
    ours = peers()[COUNTERSIGN]
    with (
        harness.server() as at,
        contest.entered(at, ours, "empty") as bare,
        contest.entered(at, ours, "full") as laden,
    ):
        owner, began = laden.bench.owner(), time.perf_counter()
        history.load(owner, ended, 0, 0, 0)
        harness.load(owner, ready, names=[handlers.NAME])
        harness.report(BENCH, "loaded", time.perf_counter() - began, "s")
        for _ in range(ROUNDS):
            for case, entry in ((EMPTY, bare), (full, laden)):
                rates[case].append(drained(entry, jobs))
    least, rate = median(rates[EMPTY]), median(rates[full])
    harness.report(BENCH, EMPTY, least, "jobs/s")
    harness.report(BENCH, full, rate, "jobs/s", ratio=rate / least, to=EMPTY)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
