"""How long a claim takes in the cases that ruin claims elsewhere, against the plain case.

`python -m bench.claims [CASE…]`: claims of 64 as a worker makes them, with its memory of lanes and
the probe of its maintenance once a second. Each bad case has a database of its own, and its claims
are made in turns with those of the plain one, so that a busy machine slows both alike.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import psycopg

from bench import harness
from queue_core.embedded import Server
from queue_core.outcomes import Completed, RunReport
from queue_core.transitions.claim import Claimable, claim
from queue_core.transitions.complete import complete
from queue_core.transitions.promote import Line, promote
from queue_core.worker.claimer import Claimer
from queue_core.worker.requests import Request

BATCH: Final = 64
CLAIMS: Final = 400
MINE: Final = 50_000
EVERY: Final = 25
"""Claims after which a frozen claimer is followed by the next."""
DRAINED: Final = 150_000
PLAIN: Final = "plain"


class Desk:
    """A worker's connections at work: claims are timed, what they took is completed untimed."""

    def __init__(self, bench: harness.Bench, names: list[Claimable]) -> None:
        self.bench = bench
        self.names = names
        self.conn = bench.connect()
        self.aside = bench.connect()
        self.worker = harness.worker(self.conn)
        self.claimer = Claimer(self.worker)
        self.held: dict[str, int] = {}
        self.seconds: list[float] = []
        self.before: Callable[[int], None] = lambda _: None

    def claim(self) -> int:
        """Claim once, and return how many jobs it took."""
        self.before(len(self.seconds))
        request = Request(BATCH, self.names, {}, {}, self.held)
        began = time.perf_counter()
        taken = self.claimer.claim(self.conn, request)
        self.seconds.append(time.perf_counter() - began)
        reports = [RunReport(run.id, run.attempt, Completed("1"), 0.0) for run in taken]
        complete(self.conn, self.worker, reports)
        return len(taken)

    @contextmanager
    def maintained(self) -> Iterator[None]:
        """Promote and look behind once a second meanwhile, as maintenance does."""
        over, line = threading.Event(), Line()

        def chores() -> None:
            while not over.wait(1.0):
                promote(self.aside, line=line)
                self.claimer.probe(self.aside)

        thread = threading.Thread(target=chores)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


def plain(bench: harness.Bench) -> Desk:
    """Load jobs of one name in one queue, and nothing else."""
    owner = bench.owner()
    harness.load(owner, MINE)
    harness.settle(owner)
    return Desk(bench, [Claimable("bench.noop")])


def waiting(bench: harness.Bench) -> Desk:
    """Beside them a million jobs of the future, at better priority."""
    harness.load(bench.owner(), 1_000_000, rank=-10, place=harness.WAITING)
    return plain(bench)


def limited(bench: harness.Bench) -> Desk:
    """In front 500,000 jobs of a name that is at its limit."""
    harness.load(bench.owner(), 500_000, names=["bench.alone"], rank=-10)
    desk = plain(bench)
    desk.names += [Claimable("bench.alone", limit=1)]
    desk.held = {"bench.alone": 1}
    return desk


def lanes(bench: harness.Bench) -> Desk:
    """Scatter the jobs of 200 names over 32 queues."""
    names = [f"bench.{number}" for number in range(200)]
    owner = bench.owner()
    harness.load(owner, MINE, names=names, queues=[f"queue-{number}" for number in range(32)])
    harness.settle(owner)
    return Desk(bench, [Claimable(name) for name in names])


def stale(bench: harness.Bench) -> Desk:
    """Load them after the session prepared its claim on empty tables, and analyze nothing."""
    owner = bench.owner()
    for table in ("ready", "running"):
        owner.execute(f"ALTER TABLE countersign.{table} SET (autovacuum_enabled = false)".encode())
    desk = Desk(bench, [Claimable("bench.noop")])
    for _ in range(8):
        harness.load(owner, 1)
        desk.claim()
    desk.seconds.clear()
    harness.load(owner, 4 * MINE)
    return desk


def frozen(bench: harness.Bench) -> Desk:
    """Let other claimers take 64 and freeze in their transaction, one after the other."""
    desk = plain(bench)
    other = bench.connect("", autocommit=False)

    def freeze(number: int) -> None:
        if number % EVERY == 0:
            other.rollback()
            claim(other, worker=desk.worker, names=desk.names, count=BATCH)

    desk.before = freeze
    return desk


CASES: Final[dict[str, Callable[[harness.Bench], Desk]]] = {
    "1M waiting at better priority": waiting,
    "500,000 of a name at its limit": limited,
    "200 names over 32 queues": lanes,
    "stale statistics": stale,
    "a frozen claimer": frozen,
}
SNAPSHOT: Final = "old snapshot over 150,000 jobs"


def compare(server: Server, case: str) -> None:
    """Measure a bad case and the plain one in turns, and print both."""
    with (
        harness.database(server, "plain") as one,
        harness.database(server, "bad") as other,
    ):
        good, bad = plain(one), CASES[case](other)
        with good.maintained(), bad.maintained():
            for _ in range(CLAIMS):
                if min(good.claim(), bad.claim()) < BATCH:
                    raise ValueError(f"{case}: a claim fell short")
    for part, of in (("p50", 0.5), ("p99", 0.99)):
        usual = harness.percentile(good.seconds, of)
        found = harness.percentile(bad.seconds, of)
        label = f"{PLAIN}, beside {case}, {part}"
        harness.report("claims", label, 1_000 * usual, "ms")
        harness.report(
            "claims", f"{case}, {part}", 1_000 * found, "ms", ratio=found / usual, to=label
        )


def drain(server: Server) -> None:
    """Measure the first and the last tenth of a drain while an old snapshot is held open."""
    with harness.database(server, "drained") as bench:
        owner = bench.owner()
        harness.load(owner, DRAINED)
        harness.settle(owner)
        desk = Desk(bench, [Claimable("bench.noop")])
        reader = bench.owner()
        reader.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        with reader.transaction(), desk.maintained():
            reader.execute("SELECT count(*) FROM countersign.ready")
            while desk.claim() == BATCH:
                pass
    tenth = len(desk.seconds) // 10
    for part, of in (("p50", 0.5), ("p99", 0.99)):
        first = harness.percentile(desk.seconds[1 : tenth + 1], of)
        last = harness.percentile(desk.seconds[-tenth - 1 : -1], of)
        label = f"{SNAPSHOT}, first tenth, {part}"
        harness.report("claims", label, 1_000 * first, "ms")
        harness.report(
            "claims", f"{SNAPSHOT}, last tenth, {part}", 1_000 * last, "ms",
            ratio=last / first, to=label,
        )  # fmt: skip


def main(chosen: list[str]) -> None:
    """Measure the cases whose name holds one of these words: all, if there are none."""
    with harness.server() as server:
        for case in (*CASES, SNAPSHOT):
            if chosen and not any(word in case for word in chosen):
                continue
            if case == SNAPSHOT:
                drain(server)
            else:
                compare(server, case)


if __name__ == "__main__":
    main(sys.argv[1:])
