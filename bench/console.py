"""How long the console's pages take on a long history while a worker drains.

`python -m bench.console [ENDED [REPEATS]]`, 10,000,000 jobs that ended and 40 requests of each
page unless given. A tenth as many are ready, one in 200 is in review, and there is an act for one
in 100. Pages are asked in process, all of them in turn, so that each is measured in the same
minutes; `/healthz`, which opens no database, is among them and is what each is compared with. Of
the ledger's CSV it is the first thousand acts, as its reader gets them at once; the whole file is
measured apart. The last line is the slowest page.
"""

import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Final

from flask import Flask
from flask.testing import FlaskClient

from bench import harness, history
from bench.addresses import CODE, EXPORT, addresses, onward
from console import create_app
from queue_core import operators
from queue_core.settings import from_environment

BENCH: Final = "console"
ENDED: Final = 10_000_000
REPEATS: Final = 40
WARM: Final = 2
ALIVE: Final = "/healthz"
PASSWORD: Final = "correct horse battery"  # noqa: S105 - of a database that is dropped again
OK: Final = 200
WRONG: Final = 500


def signed_in(app: Flask) -> FlaskClient:
    """Return a browser in which an admin is signed in."""
    client = app.test_client()
    token = client.get("/sign-in").text.partition('name="csrf_token" value="')[2].partition('"')[0]
    client.post("/sign-in", data={"code": CODE, "password": PASSWORD, "csrf_token": token})
    return client


def ask(client: FlaskClient, paths: list[str], repeats: int) -> dict[str, list[float]]:
    """Ask for each page in turn, again and again; returns the milliseconds of each."""
    taken: dict[str, list[float]] = defaultdict(list)
    for number in range(WARM + repeats):
        for path in paths:
            began = time.perf_counter()
            answer = client.get(path)  # a page is one piece, a file its first
            answer.close()
            milliseconds = (time.perf_counter() - began) * 1e3
            status = answer.status_code
            if status >= WRONG or (status != OK and path != "/sign-in"):
                harness.report(BENCH, f"{path} answered", status, "status")
            if number >= WARM:
                taken[path].append(milliseconds)
    return taken


def whole_file(client: FlaskClient) -> None:
    """Take the ledger's CSV to its end, and print what one act of it took."""
    began = time.perf_counter()
    lines = client.get(EXPORT, buffered=True).text.count("\n")
    each = (time.perf_counter() - began) / lines
    harness.report(BENCH, f"{EXPORT}, {lines:,} lines, each", each * 1e6, "µs")


LIVE: Final = """
SELECT FROM countersign.workers WHERE workers.stopped_at IS NULL AND workers.lost_at IS NULL
"""


def worker(bench: harness.Bench) -> subprocess.Popen[bytes]:
    """Start a worker that drains the jobs of a name, and wait until it has begun."""
    command = ["-m", "flask", "queue", "work", "--jobs", "bench.handlers", "--processes", "2"]
    process = subprocess.Popen(
        [sys.executable, *command],
        cwd=Path(__file__).parents[1],
        env=os.environ | {"DATABASE_URL": bench.url, "QUEUE_KEEP_DAYS": "60"},
        stderr=subprocess.DEVNULL,
    )
    owner = bench.owner()
    while owner.execute(LIVE).fetchone() is None:
        if process.poll() is not None:
            message = f"the worker ended with {process.returncode}"
            raise RuntimeError(message)
        time.sleep(0.1)
    return process


READY: Final = "SELECT count(*) AS jobs FROM countersign.ready"


def measure(bench: harness.Bench, repeats: int = REPEATS) -> None:
    """Ask for all pages while a worker drains, and print what they took."""
    owner = bench.owner()
    settings = {"DATABASE_URL": bench.url, "QUEUE_SECRET_KEY": "k" * 32}
    app = create_app(from_environment(settings))
    draining = worker(bench)
    try:
        paths = [ALIVE, *(path for path in addresses(app, owner) if path != ALIVE)]
        client = signed_in(app)
        paths += dict.fromkeys(onward(client, paths))
        before, began = _count(owner), time.perf_counter()
        taken = ask(client, paths, repeats)
        drained = (before - _count(owner)) / (time.perf_counter() - began)
        whole_file(client)
    finally:
        draining.send_signal(signal.SIGTERM)
        draining.wait()
    harness.report(BENCH, "drained meanwhile", drained, "jobs/s")
    harness.report(BENCH, "load of the machine", os.getloadavg()[0], "processes")
    tell(taken)


def tell(taken: dict[str, list[float]]) -> None:
    """Print p50 and p95 of each page, beside those of `/healthz`, and the slowest page last."""
    for part in (0.5, 0.95):
        values = {path: harness.percentile(each, part) for path, each in taken.items()}
        slowest = max(values, key=lambda path: values[path])
        what = f"p{round(part * 100)}"
        for path, value in [*values.items(), (f"the slowest is {slowest}", values[slowest])]:
            to = f"{ALIVE}, {what}"
            ratio = value / values[ALIVE]
            harness.report(BENCH, f"{path}, {what}", value, "ms", ratio=ratio, to=to)


def _count(owner: harness.Connection) -> int:
    return int((owner.execute(READY).fetchone() or {})["jobs"])


def main(ended: int = ENDED, repeats: int = REPEATS) -> None:
    """Load a history on a server of its own, and measure."""
    with harness.server() as at, harness.database(at, "console") as bench:
        owner, began = bench.owner(), time.perf_counter()
        history.load(owner, ended, ended // 10, ended // 200, ended // 100)
        by = {"by": "setup:bench", "reason": "bench", "via": "code"}
        operators.add(owner, CODE, "admin", PASSWORD, **by)
        harness.report(BENCH, "loaded", time.perf_counter() - began, "s")
        measure(bench, repeats)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
