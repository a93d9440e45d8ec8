"""How fast the transitions' own statements are in a bare loop, beside the least a queue can be.

`python -m bench.limit [SECONDS]`: one connection claims and completes jobs that are ready, with
one commit a round as in a worker, history kept. Beside it pgbench claims and ends rows of one
small table on the same server. Each is run three times in turns; the medians are printed.
"""

import os
import re
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import psycopg
from psycopg import conninfo
from psycopg.rows import tuple_row

from bench import harness
from queue_core.embedded.folders import PORT
from queue_core.lanes import END
from queue_core.queries.lanes import heads
from queue_core.transitions.claim.statement import BEST, FIRST_LOOK, LANES, POOL, RUN
from queue_core.transitions.complete import COMPLETE

LIMITS: Final = Path(__file__).parent / "limits"
ROUNDS: Final = 3
READY: Final = 400_000
CLAIM: Final = LANES + FIRST_LOOK + POOL + BEST + RUN
ONE, HUNDRED = "pgbench, 1 a claim", "pgbench, 100 a claim"


def started(conn: harness.Connection, worker: UUID, batch: int) -> dict[str, Any]:
    """Return the claim's parameters where the only lane begins."""
    ((lane, place),) = heads(conn)
    return {
        "worker": worker,
        "count": batch,
        "names": [lane.name],
        "attempts": [1],
        "on_losts": ["attempts"],
        "time_limits": [None],
        "safes": [True],
        "lane_queues": [lane.queue],
        "lane_names": [lane.name],
        "ranks": [place.rank],
        "dues": [place.due],
        "lane_ids": [place.id],
        "quotas": [batch],
        "name_rooms": [batch],
        "queue_rooms": [batch],
        "until_rank": END.rank,
        "until_due": END.due,
        "until_id": END.id,
        "behind": list[UUID](),
    }


def ended(worker: UUID, claimed: list[Any]) -> dict[str, Any]:
    """Return the parameters that complete these runs."""
    return {
        "worker": worker,
        "ids": [row[1] for row in claimed],
        "attempts": [row[2] for row in claimed],
        "seconds": [0.0] * len(claimed),
        "child_pids": [os.getpid()] * len(claimed),
        "results": ["1"] * len(claimed),
    }


def bare_loop(conn: harness.Connection, worker: UUID, batch: int, seconds: float) -> float:
    """Return how many jobs a second one connection claims and completes."""
    claims = started(conn, worker, batch)
    cursor = psycopg.Cursor(conn, row_factory=tuple_row)
    done, claimed, began = 0, list[Any](), time.perf_counter()
    while time.perf_counter() - began < seconds:
        with conn.transaction():
            if claimed:
                cursor.execute(COMPLETE, ended(worker, claimed))
            *claimed, following = cursor.execute(CLAIM, claims).fetchall()
        claims |= {"ranks": [following[10]], "dues": [following[11]], "lane_ids": [following[1]]}
        done += len(claimed)
    cursor.execute(COMPLETE, ended(worker, claimed))
    return done / (time.perf_counter() - began)


def pgbench(bench: harness.Bench, script: str, seconds: float) -> float:
    """Return how many transactions a second pgbench's one client does."""
    database = conninfo.conninfo_to_dict(bench.owner_url)["dbname"]
    told = subprocess.run(
        [harness.program("pgbench"), "-n", "-M", "prepared", "-c", "1", "-T", str(int(seconds)),
         "-h", bench.folder, "-p", str(PORT), "-U", "postgres", "-f", LIMITS / script,
         str(database)],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    found = re.search(r"^tps = ([\d.]+)", told, re.MULTILINE)
    if not found:
        raise ValueError(told)
    return float(found[1])


def main(seconds: float) -> None:
    """Measure in turns and print the medians."""
    found = defaultdict[str, list[float]](list)
    with harness.server() as server, harness.database(server, "limit") as bench:
        owner, conn = bench.owner(), bench.connect()
        worker = harness.worker(conn)
        for _ in range(ROUNDS):
            owner.execute((LIMITS / "table.sql").read_bytes())
            harness.load(owner, READY)
            harness.settle(owner)
            found[ONE].append(pgbench(bench, "claim_one.sql", seconds))
            found[HUNDRED].append(100 * pgbench(bench, "claim_hundred.sql", seconds))
            for batch in (64, 256):
                found[f"batch {batch}"].append(bare_loop(conn, worker, batch, seconds))
    medians = {case: statistics.median(values) for case, values in found.items()}
    for case, value in medians.items():
        harness.report("limit", case, value, "jobs/s", ratio=value / medians[HUNDRED], to=HUNDRED)


if __name__ == "__main__":
    main(float(sys.argv[1]) if sys.argv[1:] else 4.0)
