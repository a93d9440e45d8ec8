"""Of the driver of a web framework: queues, acknowledgement, putting back, shipped migrations."""

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg import conninfo

from queue_core import (
    NewJob,
    Run,
    clear_queue,
    enqueue,
    enqueue_many,
    fleet,
    migrate,
    queue_size,
    retry,
)
from queue_core.outcomes import Completed, Deferred, Failed, RunReport
from queue_core.queries.facts import job as facts
from queue_core.queries.jobs import list_jobs
from queue_core.queries.migrations import known
from queue_core.queries.runs import runs_of
from queue_core.run import DeferRun
from queue_core.transitions.claim import Claimable, claim
from queue_core.transitions.complete import complete
from queue_core.transitions.defer import defer
from queue_core.transitions.fail import fail
from queue_core.transitions.recover import recover
from tests.moves import lose, state, take


def test_c01_a_named_queue_is_first_in_first_out_by_when_jobs_may_run(
    conn, registry, make_worker
) -> None:
    now = datetime.now(UTC)
    ages = (10, 40, 20, 50, 30)
    jobs = [
        NewJob("mail.send", queue=queue, run_at=now - timedelta(minutes=minutes))
        for queue in ("left", "right")
        for minutes in ages
    ]
    made = [each.id for each in enqueue_many(conn, jobs)]
    left = dict(zip(made[:5], ages, strict=True))
    runs = claim(
        conn, worker=make_worker(conn), names=[Claimable("mail.send")], queues=["left"], count=9
    )
    assert [left[run.id] for run in runs] == [50, 40, 30, 20, 10]


def test_c02_claims_that_lapsed_come_back_in_batches_with_their_number(
    conn, registry, make_worker
) -> None:
    enqueue_many(conn, [NewJob("mail.send", attempts=2)] * 25)
    worker = make_worker(conn)
    take(conn, worker, 25)
    lose(conn, worker)
    assert [len(recover(conn, limit=10)) for _ in range(4)] == [10, 10, 5, 0]
    assert len(list_jobs(conn, "ready").rows) == 25


def test_c02_a_claim_lapses_with_its_workers_beats_and_not_with_its_time(
    conn, registry, make_worker
) -> None:
    """However long the time limit is, and however long ago the claim."""
    job, worker = enqueue(conn, "mail.send", time_limit=86_400.0).id, make_worker(conn)
    take(conn, worker)
    conn.execute("UPDATE countersign.running SET claimed_at = now() - interval '1 day'")
    other = fleet.register(conn, fleet.Identity("pay-4", 1, "boot-2", "pid:[2]", "0.1.0", [], 1))
    assert fleet.bury_stale(conn, other, 60) == []
    assert recover(conn) == []
    lose(conn, worker)
    assert [moved.id for moved in recover(conn)] == [job]


def test_c03_an_acknowledged_job_is_done_and_cannot_be_acknowledged_again(conn, job_in) -> None:
    made = job_in(conn, "running")
    assert complete(conn, made.worker, [made.report(Completed())])
    assert complete(conn, made.worker, [made.report(Completed())]) == []
    assert state(conn, made.id) == "completed"


def test_c03_a_job_put_back_waits_and_has_used_up_no_attempt(conn, registry, make_worker) -> None:
    job, worker = enqueue(conn, "mail.send").id, make_worker(conn)
    for attempt in (1, 2, 3):
        assert take(conn, worker) == [job]
        with pytest.raises(DeferRun) as put_back:
            Run(job, "mail.send", attempt).defer(90)
        ending = Deferred(put_back.value.seconds)
        (moved,) = defer(conn, worker, [RunReport(job, attempt, ending)])
        assert moved.state == "waiting"
        found = facts(conn, job)
        (now,) = conn.execute("SELECT now() AS at").fetchall()
        assert found
        assert found.run_at == now["at"] + timedelta(seconds=90)
        assert (found.attempt, found.attempts_allowed) == (attempt, attempt + 1)
        conn.execute(
            "WITH gone AS (DELETE FROM countersign.waiting RETURNING waiting.*)"
            " INSERT INTO countersign.ready SELECT * FROM gone"
        )
    assert [run.outcome for run in runs_of(conn, job)] == ["deferred"] * 3


def test_c03_a_failure_is_kept_before_its_job_leaves(conn, job_in) -> None:
    made = job_in(conn, "running", attempts=2)
    failed = Failed("no such address", error_type="ValueError", traceback="line 1")
    fail(conn, made.worker, [made.report(failed, wait=30)])
    assert state(conn, made.id) == "waiting"
    (run,) = runs_of(conn, made.id)
    assert (run.error, run.error_type, run.traceback) == ("no such address", "ValueError", "line 1")


def test_c04_failed_jobs_come_newest_first_and_one_gets_one_more_try(conn, job_in) -> None:
    made = [job_in(conn, "failed").id for _ in range(4)]
    rows = list_jobs(conn, "failed", limit=3).rows
    assert len(rows) == 3
    assert [row.id for row in rows] == [*reversed(made)][:3]
    retry(conn, [made[0]], by="ops:alice", reason="mended")
    found = facts(conn, made[0])
    assert found
    assert (found.state, found.attempts_allowed) == ("ready", 2)


def test_c04_what_failed_last_comes_first_whenever_it_was_asked_for(database, job_in) -> None:
    conn = database.connect()
    made = [job_in(conn, "failed").id for _ in range(3)]
    minutes = dict(zip(made, (5, 20, 10), strict=True))
    for job, ago in minutes.items():
        database.owner().execute(
            "UPDATE countersign.ended SET ended_at = now() - make_interval(mins => %s)"
            " WHERE id = %s",
            [ago, job],
        )
    assert [minutes[row.id] for row in list_jobs(conn, "failed").rows] == [5, 10, 20]
    assert [minutes[row.id] for row in list_jobs(conn, "failed", limit=2).rows] == [5, 10]


def test_c06_the_size_of_a_queue_is_what_is_queued_in_it_and_not_running(
    conn, registry, make_worker
) -> None:
    enqueue_many(conn, [NewJob("mail.send", queue="left") for _ in range(3)])
    enqueue(conn, "mail.send", queue="left", delay=60.0)
    enqueue(conn, "mail.send", queue="right")
    assert queue_size(conn, "left") == 4
    take(conn, make_worker(conn))
    assert queue_size(conn, "left") + queue_size(conn, "right") == 4
    assert queue_size(conn, "nobody's") == 0


def test_c06_a_queue_is_cleared_of_what_is_queued_and_says_of_how_many(
    conn, registry, make_worker
) -> None:
    made = enqueue_many(conn, [NewJob("mail.send", queue="left") for _ in range(3)])
    later = enqueue(conn, "mail.send", queue="left", delay=60.0)
    other = enqueue(conn, "mail.send", queue="right")
    (running,) = take(conn, make_worker(conn))
    assert running == made[0].id

    assert clear_queue(conn, "left", by="ops:alice", reason="printer_gone") == 3

    states = [state(conn, each.id) for each in (*made, later, other)]
    assert states == ["running", "cancelled", "cancelled", "cancelled", "ready"]
    assert clear_queue(conn, "left", by="ops:alice", reason="printer_gone") == 0


def test_c07_the_package_brings_its_migrations(migrated) -> None:
    assert known()
    name = f"bare_{uuid.uuid4().hex[:12]}"
    with admin(migrated) as owner:
        owner.execute(f"CREATE DATABASE {name}".encode())
        try:
            url = conninfo.make_conninfo(migrated.owner_url, dbname=name)
            with psycopg.connect(url, autocommit=True) as conn:
                assert migrate.migrate(conn) == [each.name for each in known()]
        finally:
            owner.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


def admin(server: Any) -> psycopg.Connection[Any]:
    url = conninfo.make_conninfo(server.owner_url, dbname="postgres")
    return psycopg.connect(url, autocommit=True)


def test_c09_a_claim_never_spins_on_what_others_hold(
    shared_database, registry, make_worker
) -> None:
    first, second = (shared_database.connect(autocommit=False) for _ in range(2))
    queue = uuid.uuid4().hex
    enqueue_many(first, [NewJob("mail.send", queue=queue)] * 3)
    workers = [make_worker(first) for _ in range(2)]
    first.commit()
    how: dict[str, Any] = {"names": [Claimable("mail.send")], "queues": [queue], "count": 3}
    assert len(claim(first, worker=workers[0], **how)) == 3
    second.execute("SET LOCAL statement_timeout = '5s'")
    assert claim(second, worker=workers[1], **how) == []
    first.rollback()
    second.rollback()
