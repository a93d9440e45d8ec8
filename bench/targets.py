"""What the benchmarks have to reach, and which line of which of them says whether they do."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

Line = dict[str, Any]


@dataclass(frozen=True)
class Part:
    """A benchmark as the report runs it, and with the numbers of the promise."""

    module: str
    arguments: tuple[str, ...] = ()
    whole: tuple[str, ...] | None = None
    """What replaces them where time does not matter."""

    def given(self, *, whole: bool) -> tuple[str, ...]:
        """Return the arguments it is run with."""
        return self.arguments if self.whole is None or not whole else self.whole


_RIVALS: Final = ("--peers", "countersign", "graphile-worker", "pgqueuer")

PARTS: Final = {
    "drain": Part("bench.drain"),
    "rivals": Part("bench.peers", ("--only", "drain", *_RIVALS, "--rounds", "2")),
    "workers": Part(
        "bench.peers", ("--only", "drain", "drain2", "--peers", "countersign", "--rounds", "3")
    ),
    "enqueue": Part("bench.enqueue"),
    "clients": Part("bench.clients", ("3",)),
    "wait": Part(
        "bench.peers", ("--only", "pickup", "--peers", "countersign", "oban", "--rounds", "3")
    ),
    "idle": Part("bench.pickup", ("100",)),
    "scale": Part("bench.scale", ("1000000", "1000000"), ()),
    "claims": Part("bench.claims"),
    "recovery": Part("bench.recovery"),
    "retention": Part("bench.retention", ("1000000",)),
}
"""In the order in which they are run."""


@dataclass(frozen=True)
class Target:
    """A figure of a part: lines whose case and `to` match whole, each within the bounds."""

    what: str
    part: str
    case: str
    to: str = ""
    at_least: float | None = None
    at_most: float | None = None

    @property
    def must(self) -> str:
        """Say what is asked for."""
        if self.at_least is not None:
            return f"≥ {self.at_least:g}"
        return "" if self.at_most is None else f"≤ {self.at_most:g}"

    def found(self, lines: Sequence[Line]) -> list[Line]:
        """Return the lines that are meant."""
        return [
            line
            for line in lines
            if re.fullmatch(self.case, line["case"])
            and re.fullmatch(self.to, line["to"] or "")
            and self.value(line) is not None
        ]

    def value(self, line: Line) -> float | None:
        """Return a line's figure: its ratio, where it is compared with another."""
        return line["ratio" if self.to else "value"]

    def met(self, line: Line) -> bool:
        """Say whether a line's figure is within the bounds."""
        value = self.value(line)
        return value is not None and (
            (self.at_least is None or value >= self.at_least)
            and (self.at_most is None or value <= self.at_most)
        )


def _claims(case: str) -> Target:
    what = f"claim p99 with {case}, against the plain case"
    return Target(what, "claims", rf"{case}, p99", r"plain, .*", at_most=2)


TARGETS: Final = (
    Target("drain of ready jobs that do nothing, one worker, against the bare loop of our "
           "own statements", "drain", r"noop", r"bare loop.*", at_least=0.6),
    Target("the same against graphile-worker at its best settings", "rivals",
           r"drain, one worker, countersign", r".*graphile-worker", at_least=1.1),
    Target("the same against pgqueuer at its best settings, the fastest Python peer", "rivals",
           r"drain, one worker, countersign", r".*pgqueuer", at_least=2),
    Target("two workers against one", "workers", r"drain, two workers, countersign",
           r".*one worker, countersign", at_least=1.3),
    Target("enqueue, one a commit, against raw inserts of the same rows", "enqueue",
           r"one a commit", r"raw inserts", at_least=0.85),
    Target("enqueue, many, against raw COPY of the same rows", "enqueue", r".* in one call",
           r"raw COPY", at_least=0.5),
    Target("enqueue commits/s of 32 clients while a worker is busy, against the same without "
           "NOTIFY", "clients", r".*worker busy", r".*without NOTIFY", at_least=0.9),
    Target("idle pickup p50, enqueue commit to handler start, against oban", "wait",
           r"pickup, p50, countersign", r".*oban", at_most=1.0),
    Target("idle pickup p99, against oban", "wait", r"pickup, p99, countersign", r".*oban",
           at_most=1.2),
    Target("drain with many more ready and ended rows, against empty tables", "scale",
           r".* more ready, .* ended", r"empty tables", at_least=0.9),
    Target("an old snapshot held throughout a drain of 150,000: claim p99 of the last tenth "
           "against the first", "claims", r"old snapshot .*, last tenth, p99", r".*first tenth.*",
           at_most=1.5),
    _claims("1M waiting at better priority"),
    _claims("500,000 of a name at its limit"),
    _claims("200 names over 32 queues"),
    _claims("stale statistics"),
    Target("WAL a drained job, bytes", "drain", r"noop, WAL", at_most=900),
    Target("a job back at work after kill -9 of its worker, QUEUE_STALE_AFTER=30, seconds",
           "recovery", r"another worker, .*", at_most=35),
    Target("the same where the worker is started again on the same host, defaults, seconds",
           "recovery", r"started again on the same host.*", at_most=2),
    Target("an idle worker, statements a second", "idle", r"idle", at_most=3),
    Target("a supervisor in memory, MiB", "idle", r"supervisor", at_most=60),
    Target("a child in memory, MiB", "idle", r"child", at_most=45),
    Target("retention: a day of 1,000,000 ended jobs gone with its week, seconds", "retention",
           r"a day of .*, its week dropped, in all", at_most=1),
    Target("retention: the longest enqueue meanwhile, ms", "retention",
           r"longest enqueue while a week is dropped", at_most=250),
)  # fmt: skip

COSTS: Final = (
    Target("jobs a second, one worker", "drain", r"noop", r"bare loop.*"),
    Target("bytes of WAL a job", "drain", r"noop, WAL"),
    Target("commits a job", "drain", r"noop, commits"),
)
"""What matters to who pays for the server."""
