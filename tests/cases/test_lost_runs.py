"""Cases from the field: stuck, lost and double runs, cancel, retry and shutdown."""

import random
import threading
import uuid
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

import pytest

from queue_core import NewJob, cancel, enqueue, enqueue_many, fleet, retry
from queue_core.check import check
from queue_core.outcomes import Completed, Failed, RunReport
from queue_core.queries.acts import acts_of
from queue_core.queries.counts import counts
from queue_core.queries.facts import job as facts
from queue_core.queries.runs import runs_of
from queue_core.transitions.claim import Claimable, claim
from queue_core.transitions.complete import complete
from queue_core.transitions.dispute import dispute
from queue_core.transitions.fail import fail
from queue_core.transitions.give_back import give_back
from queue_core.transitions.recover import recover
from tests.moves import lose, state, take

ALICE: dict[str, Any] = {"by": "ops:alice", "reason": "customer_asked"}


def test_case_01_a_lost_run_is_found_whether_or_not_its_workers_row_is_there(
    database, job_in
) -> None:
    conn = database.connect()
    made = job_in(conn, "running", attempts=2)
    database.owner().execute("DELETE FROM countersign.workers WHERE id = %s", [made.worker])
    assert [moved.state for moved in recover(conn)] == ["ready"]
    assert runs_of(conn, made.id)[0].outcome == "lost"


def test_case_02_a_worker_of_the_same_name_and_pid_keeps_no_old_run_alive(conn, registry) -> None:
    identity = fleet.Identity("pod-1", 7, "boot-1", "pid:[1]", "0.1.0", [], 4, "fixed-name")
    job, old = enqueue(conn, "mail.send", attempts=2).id, fleet.register(conn, identity)
    take(conn, old)
    new = fleet.register(conn, identity)  # killed, and restarted at once
    assert new != old
    assert [held.id for held in fleet.beat(conn, new) or []] == []
    assert fleet.same_host(conn, new, identity) == [fleet.Peer(old, 7)]
    assert fleet.bury_dead(conn, new, [old]) == [old]
    assert [(moved.id, moved.state) for moved in recover(conn)] == [(job, "ready")]


ORPHANS = """
WITH body AS (
    INSERT INTO countersign.jobs (id, name, queue, args, priority)
    SELECT countersign.new_id(), 'mail.send', 'default', '{}', 0
    FROM generate_series(1, 10000)
    RETURNING jobs.id
)
INSERT INTO countersign.running (id, attempt, worker, claimed_at, queue, name, rank, run_at,
    attempts_allowed, on_lost)
SELECT body.id, 1, gen_random_uuid(), now() - interval '91 days', 'default', 'mail.send', 0,
    now() - interval '91 days', 1 + mod(row_number() OVER (), 2)::int, 'attempts'
FROM body
"""


def test_case_03_ten_thousand_runs_of_the_dead_are_all_resolved(conn, registry) -> None:
    conn.execute(ORPHANS)
    assert {problem.code for problem in check(conn)} == {"run.unowned"}
    sweeps = 0
    while recover(conn):
        sweeps += 1
    found = counts(conn)
    assert (sweeps, found.running, found.ready, found.failed) == (10, 0, 5_000, 5_000)
    assert check(conn) == []  # which is where it would say that a run is nobody's


def test_case_06_a_run_is_never_given_up_on_while_its_worker_beats(conn, job_in) -> None:
    made = job_in(conn, "running", attempts=9)
    conn.execute("UPDATE countersign.running SET claimed_at = now() - interval '10 days'")
    other = fleet.register(conn, fleet.Identity("pay-9", 1, "b", "n", "0", [], 1))
    for _ in range(3):
        assert fleet.beat(conn, made.worker)
        assert fleet.bury_stale(conn, other, 0.5) == []
        assert recover(conn) == []
    assert state(conn, made.id) == "running"


def test_case_07_a_result_that_comes_after_all_is_kept_and_changes_nothing_but_asks_a_person(
    conn, registry, make_worker
) -> None:
    job, first = enqueue(conn, "mail.send", attempts=3).id, make_worker(conn)
    take(conn, first)
    lose(conn, first)
    recover(conn)
    second = make_worker(conn)
    take(conn, second)
    late = RunReport(job, 1, Completed('"late"'))
    assert complete(conn, first, [late]) == []
    assert [moved.state for moved in dispute(conn, first, [late])] == ["needs_review"]
    outcomes = [(run.attempt, run.outcome) for run in runs_of(conn, job)]
    assert Counter(outcomes) == Counter([(1, "lost"), (1, "late_completed"), (2, "lost")])
    assert complete(conn, second, [RunReport(job, 2, Completed())]) == []
    assert (counts(conn).completed, state(conn, job)) == (0, "needs_review")


def test_case_08_the_end_of_a_run_that_stalled_is_decided_by_its_replacement(
    conn, registry, make_worker
) -> None:
    job, stalled = enqueue(conn, "mail.send", attempts=2).id, make_worker(conn)
    take(conn, stalled)
    lose(conn, stalled)
    recover(conn)
    other = make_worker(conn)
    take(conn, other)
    before = facts(conn, job)
    for ending in (Completed('"mine"'), Failed("mine")):
        write: Callable[..., Any] = complete if isinstance(ending, Completed) else fail
        assert write(conn, stalled, [RunReport(job, 1, ending)]) == []
        assert write(conn, stalled, [RunReport(job, 2, ending)]) == []
    assert give_back(conn, stalled, [(job, 1), (job, 2)]) == []
    assert facts(conn, job) == before
    assert complete(conn, other, [RunReport(job, 2, Completed())])
    assert state(conn, job) == "completed"


def test_case_16_of_two_sweepers_only_the_one_whose_statement_moved_a_run_acts(
    database, registry, make_worker
) -> None:
    conn = database.connect()
    enqueue_many(conn, [NewJob("mail.send", attempts=2)] * 60)
    worker = make_worker(conn)
    take(conn, worker, 60)
    lose(conn, worker)
    together = threading.Barrier(4)

    def sweep(connection: Any) -> list[UUID]:
        together.wait()
        found: list[UUID] = []
        while moved := recover(connection, limit=7):
            found += [each.id for each in moved]
        return found

    with ThreadPoolExecutor(4) as pool:
        found = [*pool.map(sweep, [database.connect() for _ in range(4)])]
    moved = [job for each in found for job in each]
    assert len(moved) == len(set(moved)) == 60
    assert {len(runs_of(conn, job)) for job in moved} == {1}


def test_case_18_of_a_batch_with_one_of_an_unknown_name_nine_run_and_one_waits(
    conn, registry, make_worker
) -> None:
    @registry.job("not.here")
    def elsewhere(run: object) -> None:
        del run

    names = ["mail.send"] * 10
    names[2] = "not.here"
    made = [each.id for each in enqueue_many(conn, [NewJob(name) for name in names])]
    worker = make_worker(conn)
    jobs = take(conn, worker, 10)
    assert jobs == [job for job in made if job != made[2]]
    assert len(complete(conn, worker, [RunReport(job, 1, Completed()) for job in jobs])) == 9
    assert state(conn, made[2]) == "ready"


def test_case_19_what_was_claimed_and_never_begun_is_given_back_with_its_attempt(
    conn, registry, make_worker
) -> None:
    job, worker = enqueue(conn, "mail.send").id, make_worker(conn)
    before = facts(conn, job)
    take(conn, worker)
    assert [moved.state for moved in give_back(conn, worker, [(job, 1)])] == ["ready"]
    found = facts(conn, job)
    assert before
    assert found
    assert found.run_at == before.run_at
    assert found.attempts_allowed
    assert found.attempts_allowed - found.attempt == 1
    assert take(conn, worker) == [job]
    fail(conn, worker, [RunReport(job, 2, Failed("x"))])
    assert state(conn, job) == "failed"  # its one attempt, and no more


def test_case_21_a_recovered_job_of_high_priority_goes_before_fresh_ones_of_low(
    conn, registry, make_worker
) -> None:
    job, worker = enqueue(conn, "mail.send", attempts=2, priority=5).id, make_worker(conn)
    take(conn, worker)
    lose(conn, worker)
    enqueue_many(conn, [NewJob("mail.send", priority=1)] * 5)
    recover(conn)
    enqueue_many(conn, [NewJob("mail.send", priority=1)] * 5)
    assert take(conn, make_worker(conn), 3)[0] == job


def test_case_24_a_job_that_kills_its_child_twice_needs_a_person_whatever_is_left(
    conn, registry, make_worker
) -> None:
    job, worker = enqueue(conn, "mail.send", attempts=50).id, make_worker(conn)
    other = enqueue(conn, "mail.send", attempts=50).id
    crash = Failed("crashed: signal 9", "crashed", signal=9)
    take(conn, worker, 2)
    assert [moved.state for moved in fail(conn, worker, [RunReport(job, 1, crash)])] == ["waiting"]
    conn.execute(DUE_NOW)
    take(conn, worker)
    (moved,) = fail(conn, worker, [RunReport(job, 2, crash)])
    assert moved.state == "needs_review"
    found = facts(conn, other)
    assert found
    assert (found.state, found.attempt) == ("running", 1)


DUE_NOW = """
WITH gone AS (DELETE FROM countersign.waiting RETURNING waiting.*)
INSERT INTO countersign.ready SELECT gone.* FROM gone
"""


def test_case_24_being_lost_over_and_over_adds_no_attempts(conn, registry, make_worker) -> None:
    job = enqueue(conn, "mail.send", attempts=3).id
    for attempt in (1, 2, 3):
        worker = make_worker(conn)
        take(conn, worker)
        found = facts(conn, job)
        assert found
        assert (found.attempt, found.attempts_allowed) == (attempt, 3)
        lose(conn, worker)
        recover(conn)
    assert state(conn, job) == "failed"


# Cancel, retry, shutdown


def test_case_62_cancel_finish_and_fail_at_once_have_one_winner_and_no_error(
    shared_database, registry, make_worker
) -> None:
    conn = shared_database.connect()
    queue = uuid.uuid4().hex
    enqueue_many(conn, [NewJob("mail.send", queue=queue)] * 300)
    worker = make_worker(conn)
    runs = claim(conn, worker=worker, names=[Claimable("mail.send")], queues=[queue], count=300)
    jobs = [run.id for run in runs]
    together = threading.Barrier(3)

    def cancel_all(connection: Any) -> list[UUID]:
        together.wait()
        return [
            each.job_id
            for batch in batches(jobs, 1)
            for each in cancel(connection, batch, **ALICE)
            if each.applied
        ]

    def end_all(write: Callable[..., Any], ending: Any) -> Callable[[Any], list[UUID]]:
        def end(connection: Any) -> list[UUID]:
            together.wait()
            return [
                moved.id
                for batch in batches(jobs, 2)
                for moved in write(connection, worker, [RunReport(job, 1, ending) for job in batch])
            ]

        return end

    workers = [cancel_all, end_all(complete, Completed()), end_all(fail, Failed("x"))]
    with ThreadPoolExecutor(3) as pool:
        futures = [pool.submit(each, shared_database.connect()) for each in workers]
        asked, completed, failed = ({*each.result(timeout=60)} for each in futures)
    assert not completed & failed
    assert completed | failed == {*jobs}
    for job in jobs:
        expected = "completed" if job in completed else "cancelled" if job in asked else "failed"
        assert state(conn, job) == expected
        assert len(acts_of(conn, job)) == (job in asked)


def batches(jobs: list[UUID], seed: int) -> list[list[UUID]]:
    """Return the jobs in an order of their own, in batches of up to nine."""
    order = random.Random(seed).sample(jobs, len(jobs))
    return [order[start : start + 9] for start in range(0, len(order), 9)]


@pytest.mark.parametrize("outcome", ["failed", "timed_out", "crashed"])
def test_case_65_a_job_that_raises_after_its_cancel_is_not_tried_again(
    conn, job_in, outcome
) -> None:
    made = job_in(conn, "running", attempts=9)
    cancel(conn, [made.id], **ALICE)
    (moved,) = fail(conn, made.worker, [made.report(Failed("x", outcome), wait=30)])
    assert moved.state == "cancelled"
    found = facts(conn, made.id)
    assert found
    assert found.uncertain == (outcome == "crashed")


def test_case_67_a_run_stopped_for_a_shutdown_costs_no_attempt_and_is_no_error(
    conn, job_in
) -> None:
    made = job_in(conn, "running", attempts=2)
    give_back(conn, made.worker, [(made.id, 1)])
    (run,) = runs_of(conn, made.id)
    found = facts(conn, made.id)
    assert found
    assert (run.outcome, run.error, found.error) == ("returned", None, None)
    assert (found.state, found.attempt, found.attempts_allowed) == ("ready", 1, 3)


def test_case_67_a_retry_after_a_shutdown_is_one_more_try(conn, job_in) -> None:
    made = job_in(conn, "running")
    give_back(conn, made.worker, [(made.id, 1)])
    take(conn, made.worker)
    fail(conn, made.worker, [RunReport(made.id, 2, Failed("x"))])
    retry(conn, [made.id], **ALICE)
    found = facts(conn, made.id)
    assert found
    assert (found.attempt, found.attempts_allowed) == (2, 3)
