"""Countersign beside other queues, in turns against one server: `python -m bench.peers`.

`bench/peers/setup` installs the others; who is not installed is left out, with a line that says so.
Values are the medians of the rounds, and each ratio is Countersign's median to that peer's.
"""

import argparse
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable
from typing import Final

from bench import harness
from bench.peers import contest
from bench.peers.field import COUNTERSIGN, Peer, peers
from queue_core.embedded import Server

BENCH: Final = "peers"
Values = dict[str, float]
Medians = dict[tuple[str, str], float]
UNITS: Final = {"pickup": "ms", "WAL": "bytes a job", "commits": "a job"}


def _drain(workers: int, label: str) -> Callable[[Server, Peer, argparse.Namespace], Values]:
    def measure(at: Server, peer: Peer, sizes: argparse.Namespace) -> Values:
        drained = contest.drain(at, peer, sizes.jobs, workers)
        values = {f"drain, {label}": drained.rate}
        return values | {f"WAL, {label}": drained.wal, f"commits, {label}": drained.commits}

    return measure


def _pickup(at: Server, peer: Peer, sizes: argparse.Namespace) -> Values:
    taken = contest.pickups(at, peer, sizes.pickups)
    parts = (0.5, 0.95, 0.99)
    return {f"pickup, p{part * 100:g}": harness.percentile(taken, part) * 1e3 for part in parts}


def _single(at: Server, peer: Peer, sizes: argparse.Namespace) -> Values:
    return {"enqueue, one a commit": contest.singles(at, peer, sizes.singles)}


def _bulk(at: Server, peer: Peer, sizes: argparse.Namespace) -> Values:
    return {"enqueue, in bulk": contest.bulk(at, peer, sizes.bulk)}


CASES: Final = {
    "drain": _drain(1, "one worker"),
    "drain2": _drain(2, "two workers"),
    "pickup": _pickup,
    "single": _single,
    "bulk": _bulk,
}


def tell(found: dict[str, dict[str, list[float]]]) -> None:
    """Print each case's medians: two workers beside one, and Countersign beside every peer."""
    medians = {
        (case, name): statistics.median(values)
        for case, by_peer in found.items()
        for name, values in by_peer.items()
    }
    for (case, name), value in medians.items():
        alone = (case.replace("two workers", "one worker"), name)
        _line(medians, (case, name), alone if alone[0] != case else None)
        if name != COUNTERSIGN and (case, COUNTERSIGN) in medians and value:
            _line(medians, (case, COUNTERSIGN), (case, name))


def _line(medians: Medians, what: tuple[str, str], to: tuple[str, str] | None) -> None:
    unit = UNITS.get(what[0].partition(",")[0], "jobs/s")
    if to in medians:
        ratio = medians[what] / medians[to]
        harness.report(BENCH, ", ".join(what), medians[what], unit, ratio=ratio, to=", ".join(to))
    else:
        harness.report(BENCH, ", ".join(what), medians[what], unit)


def asked(arguments: list[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES), metavar="CASE")
    parser.add_argument("--peers", nargs="+", choices=peers(), default=list(peers()))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=100_000, help="drained (of oban: a 20th)")
    parser.add_argument("--pickups", type=int, default=300)
    parser.add_argument("--singles", type=int, default=1_000)
    parser.add_argument("--bulk", type=int, default=50_000)
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> None:
    """Measure in turns and print the medians."""
    sizes = asked(arguments)
    chosen = [peer for name, peer in peers().items() if name in sizes.peers]
    for peer in chosen:
        if not peer.installed:
            print(f"{peer.name} is left out: bench/peers/setup installs it", file=sys.stderr)
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    with harness.server() as at:
        for _ in range(sizes.rounds):
            for case in sizes.only:
                for peer in filter(lambda each: each.installed, chosen):
                    for label, value in CASES[case](at, peer, sizes).items():
                        found[label][peer.name].append(value)
    tell(found)


if __name__ == "__main__":
    main(sys.argv[1:])
