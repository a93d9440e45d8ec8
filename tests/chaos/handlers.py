"""Handlers under chaos: each tells the witness what its run did, and when."""

import os
import time
from typing import Final

import psycopg

from queue_core import NewJob, Registry, RetryAfter, Run

WITNESS: Final = "CHAOS_WITNESS"
"""Names the URL of the database in which effects are written; nobody breaks that one."""
MARK: Final = "canary-7c1e-do-not-repeat"
"""The canary of all tests; importing it would make every child import all that tests need."""
TICK_SECONDS: Final = 0.05
SAW: Final = "INSERT INTO effects (job, attempt, pid, what) VALUES (%s, %s, %s, %s)"

jobs = Registry()
_line: list[psycopg.Connection[tuple[object, ...]]] = []


def saw(run: Run, what: str) -> None:
    """Write what a run does, before anything else can go wrong with it."""
    if not _line:
        _line.append(psycopg.connect(os.environ[WITNESS], autocommit=True))
    _line[0].execute(SAW, [run.id, run.attempt, os.getpid(), what])


def _go_on(run: Run, seconds: float) -> None:
    ends = time.monotonic() + seconds
    saw(run, "begun")
    while (left := ends - time.monotonic()) > 0:
        time.sleep(min(left, TICK_SECONDS))
        saw(run, "going on")


@jobs.job("chaos.quick", attempts=1_000, safe_to_repeat=True)
def quick(run: Run, ticket: str = "", mark: str = MARK) -> None:
    """May be claimed ahead."""
    saw(run, "done")


@jobs.job("chaos.plain", attempts=1_000)
def plain(run: Run, ticket: str = "", mark: str = MARK) -> int:
    """Is claimed when a slot is free for it."""
    saw(run, "done")
    return run.attempt


@jobs.job("chaos.once")
def once(run: Run, ticket: str = "", seconds: float = 0.0, mark: str = MARK) -> None:
    """Has one attempt."""
    _go_on(run, seconds)
    saw(run, "done")


@jobs.job("chaos.long", attempts=1_000)
def long(
    run: Run, seconds: float, again: float | None = None, ticket: str = "", mark: str = MARK
) -> None:
    """Is seen for as long as it runs; where it is begun again it takes `again` seconds."""
    _go_on(run, seconds if again is None or run.attempt == 1 else again)
    saw(run, "done")


@jobs.job("chaos.limited", attempts=1_000, time_limit=0.3)
def limited(run: Run, ticket: str = "", mark: str = MARK) -> None:
    """Is too slow at first, and then is not."""
    _go_on(run, 60.0 if run.attempt == 1 else 0.0)
    saw(run, "done")


@jobs.job("chaos.deferring")
def deferring(run: Run, ticket: str = "", mark: str = MARK) -> None:
    """Puts its job back twice."""
    saw(run, "done")
    if run.attempt <= 2:
        run.defer(0.2)


@jobs.job("chaos.failing", attempts=3)
def failing(run: Run, ticket: str = "", mark: str = MARK) -> None:
    """Fails until nothing is left, or all but once."""
    saw(run, "done")
    if run.attempt < 3 or run.id.int % 2:
        raise RetryAfter(0.1)


@jobs.job("chaos.reviewed", on_lost="review")
def reviewed(run: Run, seconds: float, ticket: str = "", mark: str = MARK) -> None:
    """Goes to a person where it was lost."""
    _go_on(run, seconds)
    saw(run, "done")


jobs.every("chaos.clock", seconds=1, job=NewJob("chaos.plain", {"mark": MARK}))
