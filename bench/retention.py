"""What counting by tallies and letting go cost: `python -m bench.retention [JOBS]`.

A day of 200,000 jobs that ended, unless another number is given.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, LiteralString

from bench import harness
from bench.handlers import noop
from queue_core import enqueue
from queue_core.clauses import TALLIED
from queue_core.outcomes import Completed, RunReport, report_columns
from queue_core.queries.counts import counts
from queue_core.retention import Keep, drop_weeks, trim
from queue_core.transitions.complete import COMPLETE

ENDED: Final = 200_000
FINISHED: Final = 20_000
TICKS: Final = 100
PAUSE_SECONDS: Final = 0.002

OLD_WEEKS: LiteralString = """
SELECT format('CREATE TABLE countersign.%%I PARTITION OF countersign.%%I
    FOR VALUES FROM (%%L) TO (%%L)', parent || to_char(week AT TIME ZONE 'UTC', '_IYYY"w"IW'),
    parent, countersign.lowest_id(week), countersign.lowest_id(week + interval '168 hours'))
    AS statement
FROM date_trunc('week', now() - make_interval(days => %(days)s), 'UTC') AS week
CROSS JOIN unnest(ARRAY['jobs', 'ended']) AS parent
"""
# All on the Monday of that week, so that they fit its tables.
OLD_JOBS: LiteralString = """
WITH old AS (
    SELECT (substr(countersign.lowest_id(each.at)::text, 1, 14) || '7'
        || substr(gen_random_uuid()::text, 16))::uuid AS id, each.at
    FROM (
        SELECT date_trunc('week', now() - make_interval(days => %(days)s), 'UTC')
            + interval '1 day' * n / %(jobs)s AS at
        FROM generate_series(1, %(jobs)s) AS n
    ) AS each
),
body AS (
    INSERT INTO countersign.jobs (id, name, queue, args, priority)
    SELECT old.id, 'bench.noop', 'default', '{"n": 1}', 0 FROM old
)
INSERT INTO countersign.ended (id, state, attempt, started_at, ended_at)
SELECT old.id, 'completed', 1, old.at, old.at FROM old
"""
RUNNING: LiteralString = """
INSERT INTO countersign.running (id, attempt, worker, queue, name, rank, run_at, attempts_allowed,
    on_lost)
SELECT countersign.new_id(), 1, %(worker)s, 'default', 'bench.noop', 0, now(), 1, 'attempts'
FROM generate_series(1, %(jobs)s)
"""


def cpu(conn: harness.Connection) -> float:
    """Return the seconds of processor that the connection's backend has used."""
    fields = Path(f"/proc/{conn.info.backend_pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def wal(conn: harness.Connection) -> float:
    """Return how many bytes of WAL the server has written so far."""
    (row,) = conn.execute("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn AS bytes").fetchall()
    return float(row["bytes"])


def finish(bench: harness.Bench, batch: int, *, tallied: bool) -> tuple[float, float]:
    """Complete jobs; returns microseconds of processor and bytes of WAL for each."""
    owner, conn = bench.owner(), bench.connect()
    worker = harness.worker(conn)
    owner.execute(RUNNING, {"worker": worker, "jobs": FINISHED})
    harness.settle(owner)
    rows = owner.execute("SELECT id FROM countersign.running ORDER BY id").fetchall()
    reports = [RunReport(row["id"], 1, Completed(), seconds=0.1) for row in rows]
    statement = COMPLETE if tallied else COMPLETE.replace(TALLIED, "")
    used, written = cpu(conn), wal(owner)
    for start in range(0, FINISHED, batch):
        some = reports[start : start + batch]
        parameters: dict[str, Any] = report_columns(worker, some) | {"results": [None] * len(some)}
        conn.execute(statement.encode(), parameters)
    return (cpu(conn) - used) * 1e6 / FINISHED, (wal(owner) - written) / FINISHED


def measure_finish(bench: harness.Bench) -> None:
    """Compare finishing jobs with and without their tally."""
    for batch in (64, 256):
        plain = finish(bench, batch, tallied=False)
        tallied = finish(bench, batch, tallied=True)
        for unit, before, after in zip(("us", "bytes"), plain, tallied, strict=True):
            case = f"finish, batch {batch}, a job"
            harness.report("tallies", f"{case}, untallied", before, unit)
            to = f"{case}, untallied"
            harness.report("tallies", case, after, unit, ratio=after / before, to=to)


def old_day(bench: harness.Bench, days: int, jobs: int = ENDED) -> None:
    """Make a day of completed jobs of so many days ago, tallied by the minute."""
    owner = bench.owner()
    for row in owner.execute(OLD_WEEKS, {"days": days}).fetchall():
        owner.execute(row["statement"].encode())
    owner.execute(OLD_JOBS, {"days": days, "jobs": jobs})
    owner.execute("SELECT countersign.recount()")
    harness.settle(owner)


def timed(what: str, jobs: int, bench: harness.Bench, do: Callable[[], object]) -> None:
    """Report how many jobs a second `do` takes away, and the WAL for each."""
    owner = bench.owner()
    written, began = wal(owner), time.perf_counter()
    do()
    seconds = time.perf_counter() - began
    harness.report("retention", what, jobs / seconds, "jobs/s")
    harness.report("retention", f"{what}, in all", seconds, "s")
    harness.report("retention", f"{what}, a job", (wal(owner) - written) / jobs, "bytes")


@contextmanager
def enqueuing(bench: harness.Bench) -> Iterator[None]:
    """Enqueue one job after the other meanwhile, and report the longest that one took."""
    conn, over, longest = bench.connect(""), threading.Event(), [0.0]

    def one_by_one() -> None:
        while not over.wait(PAUSE_SECONDS):
            began = time.perf_counter()
            enqueue(conn, noop, {"n": 1})
            longest[0] = max(longest[0], time.perf_counter() - began)

    thread = threading.Thread(target=one_by_one)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    harness.report("retention", "longest enqueue while a week is dropped", longest[0] * 1e3, "ms")


def measure_retention(bench: harness.Bench, jobs: int) -> None:
    """Trim one day of long ago, and drop the week of another."""
    conn = bench.owner()
    conn.execute("SELECT set_config('plan_cache_mode', 'force_custom_plan', false)")
    day = f"a day of {jobs:,}"
    old_day(bench, 60, jobs)
    began = time.perf_counter()
    counts(conn)
    harness.report("retention", "counts over that day", (time.perf_counter() - began) * 1e3, "ms")
    batches = 50 + jobs // 20
    timed(f"{day}, trimmed", jobs, bench, lambda: trim(conn, Keep(), batches=batches))
    old_day(bench, 90, jobs)
    with enqueuing(bench):
        timed(f"{day}, its week dropped", jobs, bench, lambda: drop_weeks(conn, Keep()))


def main(jobs: int = ENDED) -> None:
    """Measure both on a server of their own."""
    with harness.server() as at:
        with harness.database(at, "finish") as bench:
            measure_finish(bench)
        with harness.database(at, "retention") as bench:
            measure_retention(bench, jobs)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
