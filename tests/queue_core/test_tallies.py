"""Tallies: counts of what ended, right at every instant, however they are folded."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from queue_core import NewJob, cancel, check, enqueue_many, migrate, retry
from queue_core.check import tallies as agreement
from queue_core.errors import ContendedError
from queue_core.outcomes import Completed, RunReport
from queue_core.queries.counts import COUNTS, counts
from queue_core.tallies import fold
from queue_core.transitions.claim import Claimable, claim
from queue_core.transitions.complete import complete
from queue_core.transitions.give_back import give_back

SIGNED: dict[str, Any] = {"by": "ops:alice", "reason": "seen_in_test"}
ROWS = "SELECT * FROM countersign.tallies ORDER BY minute, name, state"
SUMS = """
SELECT name, state, sum(entered) AS entered, sum(removed) AS removed, sum(timed) AS timed,
    round(sum(seconds)::numeric, 6) AS seconds
FROM countersign.tallies GROUP BY name, state ORDER BY name, state
"""
PUT = """
INSERT INTO countersign.tallies (minute, name, state, entered, removed, timed, seconds)
VALUES (%s, %s, %s, %s, %s, %s, %s)
"""


def rows(conn, statement: str = ROWS) -> list[dict[str, Any]]:
    return conn.execute(statement).fetchall()


@pytest.mark.parametrize("place", ["completed", "failed"])
def test_a_run_that_ends_its_job_is_tallied_in_its_minute_with_how_long_it_took(
    conn, job_in, place
) -> None:
    job_in(conn, place)
    (tally,) = rows(conn)
    minute = rows(conn, "SELECT date_trunc('minute', now()) AS at")[0]["at"]
    assert tally.pop("seconds") >= 0
    assert tally == {
        "minute": minute,
        "name": "mail.send",
        "state": place,
        "entered": 1,
        "removed": 0,
        "timed": tally["timed"],
    }


def test_the_seconds_of_runs_add_up_and_what_never_ran_adds_none(
    conn, registry, make_worker
) -> None:
    enqueue_many(conn, [NewJob("mail.send")] * 3)
    worker = make_worker(conn)
    runs = claim(conn, worker=worker, names=[Claimable("mail.send")], count=2)
    for run, seconds in zip(runs, (1.5, 4.0), strict=True):
        complete(conn, worker, [RunReport(run.id, 1, Completed(), seconds=seconds)])
    (waiting,) = rows(conn, "SELECT id FROM countersign.ready")
    cancel(conn, [waiting["id"]], **SIGNED)
    assert [
        (row["state"], row["entered"], row["timed"], float(row["seconds"]))
        for row in rows(conn, SUMS)
    ] == [("cancelled", 1, 0, 0.0), ("completed", 2, 2, 5.5)]


def test_a_batch_is_one_row_for_each_name_and_state(conn, registry, make_worker) -> None:
    registry.job("mail.sort")(lambda _run: None)
    enqueue_many(conn, [NewJob("mail.send")] * 3 + [NewJob("mail.sort")] * 2)
    cancel(conn, [row["id"] for row in rows(conn, "SELECT id FROM countersign.ready")], **SIGNED)
    assert [(row["name"], row["entered"]) for row in rows(conn)] == [
        ("mail.send", 3),
        ("mail.sort", 2),
    ]


def test_what_is_retried_leaves_the_count_of_its_state(conn, job_in) -> None:
    failed, cancelled = job_in(conn, "failed"), job_in(conn, "cancelled")
    retry(conn, [failed.id, cancelled.id], **SIGNED)
    assert [(row["state"], row["entered"], row["removed"]) for row in rows(conn, SUMS)] == [
        ("cancelled", 1, 1),
        ("failed", 1, 1),
    ]
    found = counts(conn)
    assert (found.failed, found.cancelled, found.ready) == (0, 0, 2)


def test_counting_reads_no_history(conn, job_in) -> None:
    job_in(conn, "completed")
    plan = rows(conn, "EXPLAIN " + COUNTS)
    assert "on ended" not in str(plan)
    assert "on tallies" in str(plan)


# Folding ------------------------------------------------------------------------------------------


NOW = datetime.now(UTC)


def put(conn, ago: timedelta, state: str = "completed", entered: int = 1, removed: int = 0) -> None:
    minute = (NOW - ago).replace(second=0, microsecond=0)
    conn.execute(PUT, [minute, "mail.send", state, entered, removed, entered, 2.5 * entered])


AGES = (
    timedelta(0),
    timedelta(minutes=2),
    timedelta(hours=2),
    timedelta(hours=5),
    timedelta(hours=5, minutes=1),
    timedelta(days=7),
    timedelta(days=30),
    timedelta(days=30, hours=1),
    timedelta(days=500),
    timedelta(days=2_000),
)


def test_folding_changes_no_sum(conn) -> None:
    for state in ("completed", "failed", "cancelled"):
        for ago in AGES:
            for entered, removed in ((3, 0), (0, 2), (7, 7)):
                put(conn, ago, state, entered, removed)
    before = rows(conn, SUMS)
    assert fold(conn) > 0
    assert rows(conn, SUMS) == before
    folded = rows(conn)
    assert fold(conn) == 0
    assert rows(conn) == folded


@pytest.mark.parametrize(
    ("ago", "span"),
    [
        (timedelta(hours=2), "minute"),
        (timedelta(hours=4), "hour"),
        (timedelta(days=7), "hour"),
        (timedelta(days=9), "day"),
        (timedelta(days=399), "day"),
        (timedelta(days=401), "year"),
    ],
)
@pytest.mark.parametrize("zone", ["UTC", "Asia/Kathmandu", "America/St_Johns"])
def test_the_older_a_tally_the_longer_its_span_whatever_the_zone(conn, ago, span, zone) -> None:
    conn.execute("SELECT set_config('TimeZone', %s, true)", [zone])
    put(conn, ago)
    put(conn, ago)
    fold(conn)
    (row,) = rows(conn, "SELECT *, minute AT TIME ZONE 'UTC' AS utc FROM countersign.tallies")
    at = (NOW - ago).replace(second=0, microsecond=0, tzinfo=None)
    shorter = {"hour": {"minute": 0}, "day": {"minute": 0, "hour": 0}}
    year = {"minute": 0, "hour": 0, "day": 1, "month": 1}
    assert row["utc"] == at.replace(**{**shorter, "minute": {}, "year": year}[span])
    assert (row["entered"], row["timed"], row["seconds"]) == (2, 2, 5.0)


def test_a_fold_takes_so_many_at_most_and_the_next_goes_on(conn) -> None:
    for _ in range(10):
        put(conn, timedelta(hours=1))
    fold(conn, most=4)
    assert len(rows(conn)) == 7
    while fold(conn, most=4):
        pass
    assert [row["entered"] for row in rows(conn)] == [10]


def test_while_another_folds_nothing_is_done_and_nobody_waits(database) -> None:
    first, second = database.connect(autocommit=False), database.connect()
    for _ in range(3):
        put(second, timedelta(hours=1))
    assert fold(first) == 1
    assert fold(second) == 0
    first.rollback()
    assert fold(second) == 1


def test_counts_are_right_at_every_instant_while_jobs_end_and_return_and_tallies_fold(
    database, registry, make_worker
) -> None:
    setup = database.connect()
    jobs = [each.id for each in enqueue_many(setup, [NewJob("mail.send")] * 40)]
    over = threading.Event()

    def acts(each: int) -> int:
        conn = database.connect()
        worker = make_worker(conn, pid=each + 1)
        for turn in range(30):
            some = jobs[(each + turn) % 4 :: 4]
            cancel(conn, some, **SIGNED)
            retry(conn, some[::2], **SIGNED)
            runs = claim(conn, worker=worker, names=[Claimable("mail.send")], count=5)
            cancel(conn, [run.id for run in runs[:2]], **SIGNED)
            with suppress(ContendedError):  # as a worker does, who gives them back later
                give_back(conn, worker, [(run.id, run.attempt) for run in runs])
        return 1

    def folds() -> None:
        conn = database.connect()
        while not over.is_set():
            fold(conn)

    def looks() -> int:
        conn, looked = database.connect(), 0
        while not over.is_set():
            assert agreement.problems(conn) == []
            looked += 1
        return looked

    with ThreadPoolExecutor(5) as pool:
        folding, looking = pool.submit(folds), pool.submit(looks)
        try:
            assert sum(pool.map(acts, range(3))) == 3
        finally:
            over.set()
        folding.result()
        assert looking.result() > 3
    found = counts(setup)
    assert found.ready + found.cancelled == 40


# Where they are out -------------------------------------------------------------------------------


@pytest.fixture
def owner(database) -> psycopg.Connection[Any]:
    return database.owner()


@pytest.mark.parametrize(
    "harm",
    [
        "DELETE FROM countersign.ended",
        "DELETE FROM countersign.tallies",
        "UPDATE countersign.tallies SET entered = entered + 5",
        "UPDATE countersign.ended SET state = 'cancelled'",
    ],
)
def test_tallies_that_are_out_are_found_in_full_and_mended_by_a_recount(
    owner, job_in, harm: str
) -> None:
    for place in ("completed", "completed", "failed"):
        job_in(owner, place)
    owner.execute(harm)
    standing = rows(owner, "SELECT state FROM countersign.ended")
    assert "counts.wrong" not in {each.code for each in check.check(owner)}
    found = [each for each in check.check(owner, full=True) if each.code != "job.no_place"]
    assert {each.code for each in found} == {"counts.wrong"}
    assert all("countersign.recount()" in each.mend for each in found)
    owner.execute("SELECT countersign.recount()")
    assert agreement.problems(owner) == []
    assert counts(owner).completed == sum(row["state"] == "completed" for row in standing)
    assert rows(owner, "SELECT countersign.recount() AS out") == [{"out": 0}]


def test_a_recount_says_by_how_many_jobs_they_were_out_and_when_nobody_knows(owner, job_in) -> None:
    for place in ("completed", "failed"):
        job_in(owner, place)
    owner.execute("DELETE FROM countersign.ended WHERE state = 'failed'")
    owner.execute("DELETE FROM countersign.tallies WHERE state = 'completed'")
    assert rows(owner, "SELECT countersign.recount() AS out") == [{"out": 2}]
    assert [
        (row["state"], row["entered"], row["removed"])
        for row in rows(
            owner, "SELECT * FROM countersign.tallies WHERE minute < '1971-01-01' ORDER BY state"
        )
    ] == [("completed", 1, 0), ("failed", 0, 1)]


UNDO = """
DROP FUNCTION countersign.recount();
DROP TABLE countersign.tallies;
DELETE FROM countersign.migrations WHERE name LIKE '%tallies%';
"""


def test_a_database_that_has_history_gets_its_tallies_with_the_migration(owner, job_in) -> None:
    for place in ("completed", "failed", "failed", "cancelled"):
        job_in(owner, place)
    owner.execute(
        "UPDATE countersign.ended SET ended_at = '2026-03-01 10:20:30Z', "
        "started_at = '2026-03-01 10:20:26Z' WHERE state = 'failed'"
    )
    owner.execute(UNDO)
    (applied,) = migrate.migrate(owner)
    assert "tallies" in applied
    assert agreement.problems(owner) == []
    (failed,) = rows(owner, "SELECT * FROM countersign.tallies WHERE state = 'failed'")
    assert failed["minute"] == datetime(2026, 3, 1, 10, 20, tzinfo=UTC)
    assert (failed["entered"], failed["timed"], failed["seconds"]) == (2, 2, 8.0)
