"""The queues that are compared: how each is called, and when it has nothing left to do."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final, LiteralString

ROOT: Final = Path(__file__).parents[2]
HERE: Final = Path(__file__).parent


def folder() -> Path:
    """Return where `bench/peers/setup` installs."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("BENCH_PEERS") or cache / "countersign-peers")


@dataclass(frozen=True)
class Peer:
    """A queue; `part` of the jobs is what it drains, where all would take it minutes."""

    name: str
    program: Path
    script: tuple[str, ...]
    left: LiteralString
    """Answers true while a job is not finished."""
    part: float = 1.0

    @property
    def installed(self) -> bool:
        """Whether it is there."""
        return self.program.exists()

    def command(self, *arguments: object) -> list[str]:
        """Return what its adapter is started with."""
        return [str(self.program), *self.script, *map(str, arguments)]


COUNTERSIGN: Final = "countersign"


def peers() -> dict[str, Peer]:
    """Return all of them, installed or not, Countersign first."""
    at = folder()
    return {
        COUNTERSIGN: Peer(
            COUNTERSIGN,
            Path(sys.executable),
            ("-m", "bench.peers.with_countersign"),
            "SELECT EXISTS (SELECT FROM countersign.ready)"
            " OR EXISTS (SELECT FROM countersign.running) AS some",
        ),
        "graphile-worker": Peer(
            "graphile-worker",
            at / "graphile" / "node_modules" / ".bin" / "node",
            (str(HERE / "with_graphile.mjs"),),
            "SELECT EXISTS (SELECT FROM graphile_worker._private_jobs) AS some",
        ),
        "pgqueuer": Peer(
            "pgqueuer",
            at / "pgqueuer" / "bin" / "python",
            ("-m", "bench.peers.with_pgqueuer"),
            "SELECT EXISTS (SELECT FROM pgqueuer) AS some",
        ),
        "oban": Peer(
            "oban",
            at / "oban" / "bin" / "python",
            ("-m", "bench.peers.with_oban"),
            "SELECT EXISTS (SELECT FROM oban_jobs"
            " WHERE state IN ('available', 'scheduled', 'executing', 'retryable')) AS some",
            part=0.05,
        ),
    }
