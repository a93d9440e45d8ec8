"""The claimer: what comes behind the places that a worker remembers is found by its probe."""

from collections.abc import Callable
from datetime import timedelta
from math import inf
from uuid import UUID

import pytest

from queue_core import NewJob, enqueue, enqueue_many
from queue_core.outcomes import Failed, RunReport
from queue_core.queries.lanes import heads
from queue_core.transitions.claim import Claimable, Claimed, claim
from queue_core.transitions.fail import fail
from queue_core.transitions.give_back import give_back
from queue_core.transitions.promote import promote
from queue_core.transitions.recover import recover
from queue_core.worker.claimer import Claimer
from queue_core.worker.requests import Request
from tests.conftest import Database

NAMES = [Claimable("mail.send", 3)]


class Desk:
    """A claimer in the middle of a long line, with the connection of its clerk and of maintenance.

    It never looks at all lanes again by itself: what it finds behind, the probe told it.
    """

    def __init__(self, database: Database, worker: UUID) -> None:
        self.conn = database.connect()
        self.aside = database.connect()
        self.worker = worker
        self.claimer = Claimer(worker)
        enqueue_many(self.conn, [NewJob("mail.send", queue="q")] * 50)
        self.first = self.takes(10)

    def takes(self, count: int = 1) -> list[Claimed]:
        return self.claimer.claim(self.conn, Request(count, NAMES, {}, {}))

    def next(self) -> UUID:
        (run,) = self.takes()
        return run.id

    def probe(self) -> None:
        self.claimer._probe_at = 0.0
        self.claimer.probe(self.aside)


@pytest.fixture
def desk(database: Database, registry, make_worker: Callable[..., UUID]) -> Desk:
    return Desk(database, make_worker(database.connect()))


def test_what_was_committed_late_is_found_by_the_probe(desk, database) -> None:
    late = database.connect(autocommit=False)
    hour_ago = desk.first[0].claimed_at - timedelta(hours=1)
    job = enqueue(late, "mail.send", queue="q", run_at=hour_ago).id
    desk.probe()
    late.commit()
    assert desk.next() != job
    desk.probe()
    assert desk.next() == job


def test_what_comes_with_better_priority_is_found_by_the_probe(desk) -> None:
    jobs = [enqueue(desk.conn, "mail.send", queue="q", priority=5).id for _ in range(3)]
    assert desk.next() not in jobs
    desk.probe()
    assert [desk.next() for _ in range(3)] == jobs
    assert desk.next() not in jobs


def test_more_with_better_priority_than_the_probe_tells_all_go_first(desk) -> None:
    made = enqueue_many(desk.conn, [NewJob("mail.send", queue="q", priority=5)] * 120)
    desk.probe()
    runs = [run.id for _ in range(4) for run in desk.takes(30)]
    assert set(runs) == {each.id for each in made}


def test_what_came_back_into_its_old_place_is_found_by_the_probe(desk, make_worker) -> None:
    returned, orphaned = desk.first[:2]
    give_back(desk.conn, desk.worker, [(returned.id, 1)])
    disown = "UPDATE countersign.running SET worker = gen_random_uuid() WHERE id = %s"
    desk.conn.execute(disown, [orphaned.id])
    assert [each.id for each in recover(desk.conn)] == [orphaned.id]
    desk.probe()
    assert [desk.next(), desk.next()] == [returned.id, orphaned.id]


def test_a_retried_run_and_a_job_that_fell_due_have_their_turn(desk) -> None:
    run = desk.first[0]
    failed = RunReport(run.id, 1, Failed("no"), wait=0.0)
    assert [each.state for each in fail(desk.conn, desk.worker, [failed])] == ["waiting"]
    promote(desk.conn)
    rest = [each.id for _ in range(5) for each in desk.takes(9)]
    assert rest[40:] == [run.id]


def test_a_lane_that_is_new_is_found_by_the_probe(desk) -> None:
    job = enqueue(desk.conn, "mail.send", queue="other", priority=5).id
    assert desk.next() != job
    desk.probe()
    assert desk.next() == job


def test_after_a_rollback_nothing_is_passed_over(desk, database) -> None:
    conn = database.connect(autocommit=False)
    undone = desk.claimer.claim(conn, Request(5, NAMES, {}, {}))
    conn.rollback()
    desk.claimer.forget()
    assert [run.id for run in desk.takes(5)] == [run.id for run in undone]


def test_a_probe_before_any_claim_and_one_that_comes_too_soon_do_nothing(database, desk) -> None:
    claimer = Claimer(desk.worker)
    claimer.probe(desk.conn)
    claimer._probe_at = inf
    desk.conn.close()
    claimer.probe(desk.conn)


def test_a_claim_that_fell_short_has_looked_everywhere_and_needs_no_probe(desk) -> None:
    assert len(desk.takes(50)) == 40
    desk.aside.close()
    desk.probe()


def test_what_a_frozen_claimer_held_is_claimed_after_it_let_go(desk, database) -> None:
    frozen = database.connect(autocommit=False)
    held = claim(frozen, worker=desk.worker, names=NAMES, count=5)
    passed = [run.id for run in desk.takes(5)]
    assert not {run.id for run in held} & set(passed)
    desk.probe()  # tells of jobs that are held still
    assert len(desk.takes(5)) == 5
    assert not desk.claimer._lanes.choose(lambda _: True, 5).behind
    frozen.rollback()
    desk.probe()
    assert [run.id for run in desk.takes(5)] == [run.id for run in held]


# In a real worker


def test_a03_a_name_at_its_limit_leaves_the_other_slots_to_others(start_worker, jobs) -> None:
    worker = start_worker(processes=3)
    worker.id()
    paths = [jobs.path() for _ in range(4)]
    alone = [
        jobs.add("sample.alone", {"path": str(path)}, priority=9, queue=queue)
        for path, queue in zip(paths, ["a", "b", "a", "b"], strict=True)
    ]
    for _ in range(12):
        jobs.ended(jobs.add("sample.echo"), "completed")  # behind those that may not begin
    running = [job for job in alone if jobs.facts(job).state == "running"]
    assert running == alone[:1]
    for job, path in zip(alone, paths, strict=True):
        jobs.begun(path)
        path.with_suffix(".end").touch()
        jobs.ended(job, "completed")


def test_a_running_worker_finds_what_comes_behind_its_place(start_worker, jobs) -> None:
    line = [NewJob("sample.sleep", {"seconds": 0.05})] * 200
    first, *_ = enqueue_many(jobs.conn, line)
    start_worker()
    jobs.ended(first.id, "completed")
    jobs.ended(jobs.add("sample.echo", priority=5), "completed")
    assert len(heads(jobs.conn)) == 1  # and the line is not at its end
