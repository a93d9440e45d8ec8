"""What an enqueue costs beside the rows that it writes: `python -m bench.enqueue [CASE…]`.

`single`: one job a commit, beside one statement that inserts the same two rows. `many`: one call
for all jobs, made and checked within it, beside COPY of the same rows one by one, and of text
made beforehand, which is the server's part alone; their ids are there already. In turns on one
server, on an ordinary connection; the medians are printed.
"""

import json
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from statistics import median
from typing import Any, Final, LiteralString

from bench import handlers, harness
from queue_core import NewJob, enqueue, enqueue_many

BENCH: Final = "enqueue"
NAME: Final = "bench.noop"
ROUNDS: Final = 5
SINGLES: Final = 500
MANY: Final = 20_000

INSERTS: Final = """
WITH body AS (
    INSERT INTO countersign.jobs (id, name, queue, args, priority)
    VALUES (countersign.new_id(), %(name)s, %(queue)s, %(args)s::jsonb, 0)
    RETURNING jobs.id
)
INSERT INTO countersign.ready (id, queue, name, rank, run_at)
SELECT body.id, %(queue)s, %(name)s, 0, now() FROM body
RETURNING ready.id
"""


def singles(bench: harness.Bench) -> tuple[str, dict[str, float]]:
    """Return the jobs a second of enqueues and of bare inserts, each its own commit."""
    conn = bench.connect("")
    row = {"name": NAME, "queue": "default", "args": '{"n":1}'}
    doings = {
        "one a commit": lambda: enqueue(conn, handlers.noop, {"n": 1}),
        "raw inserts": lambda: conn.execute(INSERTS, row),
    }
    found = defaultdict[str, list[float]](list)
    for _ in range(ROUNDS):
        for case, do in doings.items():
            began = time.perf_counter()
            for _ in range(SINGLES):
                do()
            found[case].append(SINGLES / (time.perf_counter() - began))
    return "raw inserts", {case: median(values) for case, values in found.items()}


IDS: Final = """
SELECT countersign.new_id()::text AS id, now()::text AS at FROM generate_series(1, %(count)s)
ORDER BY id
"""
COPIES: Final[tuple[LiteralString, ...]] = (
    "COPY countersign.jobs (id, name, queue, args, priority) FROM STDIN",
    "COPY countersign.ready (id, queue, name, rank, run_at) FROM STDIN",
)


def copied(conn: harness.Connection, made: list[dict[str, Any]]) -> None:
    """Write the rows of so many jobs in one transaction, one by one, as psycopg documents it."""
    with conn.transaction(), conn.cursor() as cursor:
        with cursor.copy(COPIES[0]) as copy:
            for n, row in enumerate(made):
                copy.write_row((row["id"], NAME, "default", json.dumps({"n": n}), 0))
        with cursor.copy(COPIES[1]) as copy:
            for row in made:
                copy.write_row((row["id"], "default", NAME, 0, row["at"]))


def sent(conn: harness.Connection, made: list[dict[str, Any]]) -> Callable[[], None]:
    """Return what writes the same rows from text that is there already: the server's part."""
    jobs = "".join(f'{row["id"]}\t{NAME}\tdefault\t{{"n":1}}\t0\n' for row in made)
    ready = "".join(f"{row['id']}\tdefault\t{NAME}\t0\t{row['at']}\n" for row in made)

    def send() -> None:
        with conn.transaction(), conn.cursor() as cursor:
            for statement, text in zip(COPIES, (jobs, ready), strict=True):
                with cursor.copy(statement) as copy:
                    copy.write(text)

    return send


def many(bench: harness.Bench) -> tuple[str, dict[str, float]]:
    """Return the jobs a second of one call, its jobs made within it, and of COPY."""
    conn = bench.connect("")
    found = defaultdict[str, list[float]](list)
    for _ in range(ROUNDS):
        made = [conn.execute(IDS, {"count": MANY}).fetchall() for _ in range(2)]
        send = sent(conn, made[1])
        doings: dict[str, Callable[[], object]] = {
            f"{MANY:,} in one call": lambda: enqueue_many(
                conn, [NewJob(NAME, {"n": n}) for n in range(MANY)]
            ),
            "raw COPY": lambda rows=made[0]: copied(conn, rows),
            "raw COPY of text made beforehand": send,
        }
        for case, do in doings.items():
            harness.settle(bench.owner())
            began = time.perf_counter()
            do()
            found[case].append(MANY / (time.perf_counter() - began))
    return "raw COPY", {case: median(values) for case, values in found.items()}


CASES: Final = {"single": singles, "many": many}


def main(chosen: list[str]) -> None:
    """Measure the cases that are named: all, if there are none."""
    with harness.server() as at:
        for case in chosen or CASES:
            with harness.database(at, "enqueue") as bench:
                to, values = CASES[case](bench)
            for label, value in values.items():
                ratio = None if label == to else value / values[to]
                harness.report(BENCH, label, value, "jobs/s", ratio=ratio, to=to if ratio else "")


if __name__ == "__main__":
    main(sys.argv[1:])
