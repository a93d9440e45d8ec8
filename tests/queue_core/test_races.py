"""Races: whoever comes second waits, looks again, and ends in the right place, once."""

import random
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

import pytest
from psycopg import sql

from queue_core import (
    ContendedError,
    NewJob,
    cancel,
    close,
    confirm,
    enqueue_many,
    fleet,
    release,
    retry,
)
from queue_core.check import tallies
from queue_core.outcomes import Completed, Deferred, Failed, RunReport, Stopped, Unreadable
from queue_core.queries.places import locate
from queue_core.transitions.claim import Claimed, claim
from queue_core.transitions.complete import complete
from queue_core.transitions.defer import defer
from queue_core.transitions.dispute import dispute
from queue_core.transitions.fail import fail
from queue_core.transitions.give_back import give_back
from queue_core.transitions.promote import promote
from queue_core.transitions.recover import recover
from queue_core.transitions.set_aside import set_aside
from queue_core.transitions.stop import stop
from tests.queue_core.racing import (
    CRASHED,
    GOOD_FOR_NOTHING,
    MAIL,
    PATIENCE,
    SIGNED,
    Arena,
    Conn,
    Race,
    and_it_runs_anew,
    and_its_run_was_lost,
    and_its_worker_is_lost,
    another_run_disputes,
    cancels,
    cancels_what_was_ready,
    claims,
    closes,
    completes,
    confirms,
    crashes,
    defers,
    disputes,
    end_as_they_should,
    fails,
    fails_for_good,
    gives_back,
    promotes,
    recovers,
    releases,
    retries,
    sets_aside,
    stops,
    the_older_disputes,
)

ASKED = ("running", "cancel_requested")
TWO = {"attempts": 2}
REVIEW = {"on_lost": "review"}
LEFT_RUNNING = ("running", "nothing")
DISPUTED = ("needs_review", "needs_review")
CANCELLED = ("cancelled", "cancelled")
LOST = and_its_worker_is_lost

RACES = {
    # a claim
    "claim, cancel": Race("ready", claims, cancels, ASKED, CANCELLED),
    "claim, cancel of what was seen": Race(
        "ready", claims, cancels_what_was_ready, ("running", "moved_on"), CANCELLED
    ),
    "claim, dispute": Race(
        "running", claims, disputes, DISPUTED, DISPUTED, and_its_run_was_lost, TWO
    ),
    "claim, claim": Race("ready", claims, claims, LEFT_RUNNING, ("ready", "nothing"), waits=False),
    # ends of a run
    "complete, cancel": Race("running", completes, cancels, ("completed", "wrong_state"), ASKED),
    "complete, complete": Race(
        "running", completes, completes, ("completed", "nothing"), ("completed", "completed")
    ),
    "complete, dispute by an older run": Race(
        "running",
        completes,
        the_older_disputes,
        ("completed", "nothing"),
        DISPUTED,
        and_it_runs_anew,
        TWO,
    ),
    "complete, recover": Race(
        "running", completes, recovers, ("completed", "nothing"), LEFT_RUNNING, LOST, waits=False
    ),
    "fail, cancel": Race("running", fails, cancels, CANCELLED, ASKED, None, TWO),
    "fail for good, cancel": Race(
        "running", fails_for_good, cancels, ("failed", "wrong_state"), ASKED
    ),
    "fail for good, retry": Race(
        "running",
        fails_for_good,
        retries,
        ("failed", "wrong_state"),
        ("running", "wrong_state"),
        waits=False,
    ),
    "fail for good, dispute by an older run": Race(
        "running", fails_for_good, the_older_disputes, DISPUTED, DISPUTED, and_it_runs_anew, TWO
    ),
    "fail, dispute by an older run": Race(
        "running",
        fails,
        the_older_disputes,
        DISPUTED,
        DISPUTED,
        and_it_runs_anew,
        {"attempts": 3},
    ),
    "crash, cancel": Race(
        "running", crashes, cancels, ("needs_review", "wrong_state"), ASKED, None, REVIEW
    ),
    "crash, release": Race(
        "running",
        crashes,
        releases,
        ("needs_review", "wrong_state"),
        ("running", "wrong_state"),
        None,
        REVIEW,
        waits=False,
    ),
    "stop, cancel": Race("running", stops, cancels, CANCELLED, ASKED),
    "defer, cancel": Race("running", defers, cancels, CANCELLED, ASKED),
    "give back, cancel": Race("running", gives_back, cancels, CANCELLED, ASKED),
    "set aside, cancel": Race(
        "running", sets_aside, cancels, ("needs_review", "wrong_state"), ASKED
    ),
    # promotion
    "promote, cancel": Race("due", promotes, cancels, CANCELLED, CANCELLED),
    "promote, dispute": Race("due", promotes, another_run_disputes, DISPUTED, DISPUTED),
    # recovery
    "recover, cancel": Race("running", recovers, cancels, CANCELLED, ASKED, LOST, TWO),
    "recover to failed, cancel": Race(
        "running", recovers, cancels, ("failed", "wrong_state"), ASKED, LOST
    ),
    "recover to review, cancel": Race(
        "running", recovers, cancels, ("needs_review", "wrong_state"), ASKED, LOST, REVIEW
    ),
    "recover to failed, retry": Race(
        "running",
        recovers,
        retries,
        ("failed", "wrong_state"),
        ("running", "wrong_state"),
        LOST,
        waits=False,
    ),
    "recover to review, release": Race(
        "running",
        recovers,
        releases,
        ("needs_review", "wrong_state"),
        ("running", "wrong_state"),
        LOST,
        REVIEW,
        waits=False,
    ),
    "recover, complete": Race(
        "running", recovers, completes, ("ready", "nothing"), ("completed", "completed"), LOST, TWO
    ),
    "recover, dispute by the very run": Race(
        "running", recovers, disputes, DISPUTED, LEFT_RUNNING, LOST, TWO
    ),
    "recover to failed, dispute by the very run": Race(
        "running", recovers, disputes, DISPUTED, LEFT_RUNNING, LOST
    ),
    "recover to review, dispute by the very run": Race(
        "running", recovers, disputes, ("needs_review", "nothing"), LEFT_RUNNING, LOST, REVIEW
    ),
    "recover, recover": Race(
        "running", recovers, recovers, ("ready", "nothing"), LEFT_RUNNING, LOST, TWO, waits=False
    ),
    # acts
    "cancel, cancel": Race("ready", cancels, cancels, ("cancelled", "wrong_state"), CANCELLED),
    "cancel of a running one, cancel": Race(
        "running", cancels, cancels, ("running", "already_asked"), ASKED
    ),
    "cancel, claim": Race(
        "ready", cancels, claims, ("cancelled", "nothing"), ("ready", "nothing"), waits=False
    ),
    "cancel, promote": Race(
        "due", cancels, promotes, ("cancelled", "nothing"), ("ready", "nothing"), waits=False
    ),
    "cancel, dispute": Race(
        "ready", cancels, another_run_disputes, ("cancelled", "nothing"), DISPUTED
    ),
    "cancel of a running one, complete": Race(
        "running", cancels, completes, ("completed", "completed"), ("completed", "completed")
    ),
    "cancel of a running one, fail": Race(
        "running", cancels, fails, CANCELLED, ("waiting", "waiting"), None, TWO
    ),
    "cancel of a running one, recover": Race(
        "running", cancels, recovers, LEFT_RUNNING, LEFT_RUNNING, LOST, TWO, waits=False
    ),
    "retry, retry": Race(
        "failed", retries, retries, ("ready", "wrong_state"), ("ready", "retried")
    ),
    "retry, dispute": Race("failed", retries, another_run_disputes, DISPUTED, DISPUTED),
    "release, release": Race(
        "needs_review", releases, releases, ("ready", "wrong_state"), ("ready", "released")
    ),
    "release, confirm": Race(
        "needs_review", releases, confirms, ("ready", "wrong_state"), ("completed", "confirmed")
    ),
    "confirm, release": Race(
        "needs_review", confirms, releases, ("completed", "wrong_state"), ("ready", "released")
    ),
    "confirm, close": Race(
        "needs_review", confirms, closes, ("completed", "wrong_state"), ("cancelled", "closed")
    ),
    "close, confirm": Race(
        "needs_review", closes, confirms, ("cancelled", "wrong_state"), ("completed", "confirmed")
    ),
    "close, close": Race(
        "needs_review", closes, closes, ("cancelled", "wrong_state"), ("cancelled", "closed")
    ),
    "close, retry": Race(
        "needs_review",
        closes,
        retries,
        ("cancelled", "wrong_state"),
        ("needs_review", "wrong_state"),
        waits=False,
    ),
    "recover to review, confirm": Race(
        "running",
        recovers,
        confirms,
        ("needs_review", "wrong_state"),
        ("running", "wrong_state"),
        LOST,
        REVIEW,
        waits=False,
    ),
    "dispute, close": Race(
        "failed",
        another_run_disputes,
        closes,
        ("needs_review", "wrong_state"),
        ("failed", "wrong_state"),
        waits=False,
    ),
    # a dispute
    "dispute, cancel": Race(
        "ready", another_run_disputes, cancels, ("needs_review", "wrong_state"), CANCELLED
    ),
    "dispute, cancel of a running one": Race(
        "running", another_run_disputes, cancels, ("needs_review", "wrong_state"), ASKED
    ),
    "dispute, retry": Race(
        "failed",
        another_run_disputes,
        retries,
        ("needs_review", "wrong_state"),
        ("ready", "retried"),
    ),
    "dispute, claim": Race(
        "ready",
        another_run_disputes,
        claims,
        ("needs_review", "nothing"),
        ("ready", "nothing"),
        waits=False,
    ),
    "dispute, complete": Race(
        "running",
        another_run_disputes,
        completes,
        ("needs_review", "nothing"),
        ("completed", "completed"),
    ),
}


@pytest.mark.parametrize("ends", ["committed", "rolled_back"])
@pytest.mark.parametrize("race", RACES.values(), ids=RACES)
def test_who_comes_second_ends_where_the_first_left_the_job(
    arena: Arena, job_in, race: Race, ends: str
) -> None:
    end_as_they_should(arena, job_in, race, ends)


def test_a_late_report_is_kept_though_its_job_was_being_recovered_to_review(
    arena: Arena, job_in
) -> None:
    made = job_in(arena.watch, "running", on_lost="review")
    fleet.give_up(arena.watch, made.worker)
    recovers(arena.first, made)
    with ThreadPoolExecutor(1) as pool:
        racing = pool.submit(disputes, arena.second, made)
        assert arena.waits(racing)
        arena.first.commit()
        assert racing.result(PATIENCE) == "nothing"
    query = "SELECT outcome FROM countersign.runs WHERE job_id = %s ORDER BY outcome"
    outcomes = [row["outcome"] for row in arena.watch.execute(query, [made.id]).fetchall()]
    assert outcomes == ["late_completed", "lost"]


def test_a_bulk_waits_for_one_and_does_all(arena: Arena, job_in) -> None:
    made = [job_in(arena.watch, place) for place in ("waiting", "ready", "blocked", "completed")]
    claims(arena.first, made[1])
    ids = [each.id for each in made]
    with ThreadPoolExecutor(1) as pool:
        racing = pool.submit(cancel, arena.second, ids, **SIGNED)
        assert arena.waits(racing)
        arena.first.commit()
        outcomes = racing.result(PATIENCE)
    assert [each.job_id for each in outcomes] == ids
    assert [each.why or each.act for each in outcomes] == [
        "cancelled",
        "cancel_requested",
        "cancelled",
        "wrong_state",
    ]
    assert [len(arena.acts(job)) for job in ids] == [1, 1, 1, 0]


# Locks that are not given back in time


def test_an_act_that_may_not_wait_any_longer_is_contended_with_nothing_written(
    arena: Arena, job_in
) -> None:
    held, free = job_in(arena.watch, "ready"), job_in(arena.watch, "ready")
    claims(arena.first, held)
    with arena.second.transaction(force_rollback=True):
        arena.second.execute("SET LOCAL lock_timeout = '50ms'")
        with pytest.raises(ContendedError):
            cancel(arena.second, [free.id, held.id], **SIGNED)
        assert locate(arena.second, [free.id])[free.id].state == "ready"
    assert arena.acts(free.id) == arena.acts(held.id) == []


BATCHES = {
    "cancel": ("ready", lambda conn, made: cancel(conn, [each.id for each in made], **SIGNED)),
    "retry": ("failed", lambda conn, made: retry(conn, [each.id for each in made], **SIGNED)),
    "release": (
        "needs_review",
        lambda conn, made: release(conn, [each.id for each in made], **SIGNED),
    ),
    "confirm": (
        "needs_review",
        lambda conn, made: confirm(conn, [each.id for each in made], **SIGNED),
    ),
    "close": ("needs_review", lambda conn, made: close(conn, [each.id for each in made], **SIGNED)),
    "give_back": (
        "running",
        lambda conn, made: give_back(conn, made[0].worker, [(each.id, 1) for each in made]),
    ),
}
for verb, transition, ending in (
    ("complete", complete, Completed()),
    ("fail", fail, GOOD_FOR_NOTHING),
    ("defer", defer, Deferred(600.0)),
    ("set_aside", set_aside, Unreadable("not JSON")),
    ("stop", stop, Stopped("Stopped: 3 of 10")),
    ("dispute", dispute, Completed()),
):
    BATCHES[verb] = (
        "failed" if verb == "dispute" else "running",
        lambda conn, made, transition=transition, ending=ending: transition(
            conn, made[0].worker, [RunReport(each.id, 1, ending) for each in made]
        ),
    )
LOCK = sql.SQL("SELECT FROM countersign.{} WHERE id = %s FOR UPDATE NOWAIT")
TABLES = {"ready": "ready", "failed": "ended", "needs_review": "review", "running": "running"}


@pytest.fixture
def owner(shared_database) -> Iterator[Conn]:
    """Give a connection that may lock a row of any table, rolled back."""
    with shared_database.owner(autocommit=False) as connection:
        yield connection
        connection.rollback()


@pytest.mark.parametrize(("place", "batch"), BATCHES.values(), ids=BATCHES)
def test_a_batch_in_any_order_is_locked_in_the_order_of_its_ids(
    arena: Arena, owner: Conn, job_in, place: str, batch: Callable[[Conn, Any], Any]
) -> None:
    """While the batch waits for the first of its ids it holds none of the others."""
    made = [job_in(arena.watch, place) for _ in range(3)]
    assert [each.id for each in made] == sorted(each.id for each in made)
    move = "UPDATE countersign.running SET worker = %s WHERE id = ANY(%s)"
    arena.watch.execute(move, [made[0].worker, [each.id for each in made]])
    lock = LOCK.format(sql.Identifier(TABLES[place]))
    owner.execute(lock, [made[0].id])
    with ThreadPoolExecutor(1) as pool:
        racing = pool.submit(
            batch,
            arena.second,
            [*reversed([replace(each, worker=made[0].worker) for each in made])],
        )
        assert arena.waits(racing)
        for other in made[1:]:
            owner.execute(lock, [other.id])
        owner.rollback()
        assert len(racing.result(PATIENCE)) == 3


@pytest.mark.parametrize(("place", "batch"), BATCHES.values(), ids=BATCHES)
def test_whoever_waits_in_vain_is_contended_and_wrote_nothing(
    arena: Arena, owner: Conn, job_in, contents, place: str, batch: Callable[[Conn, Any], Any]
) -> None:
    made = [job_in(arena.watch, place)]
    before = contents(arena.watch)
    owner.execute(LOCK.format(sql.Identifier(TABLES[place])), [made[0].id])
    with arena.second.transaction(force_rollback=True):
        arena.second.execute("SET LOCAL lock_timeout = '20ms'")
        with pytest.raises(ContendedError):
            batch(arena.second, made)
    assert contents(arena.watch) == before


def test_of_two_acts_that_wait_for_each_other_one_is_contended_and_one_is_done(
    shared_database, arena: Arena, job_in
) -> None:
    one, other = (job_in(arena.watch, "ready").id for _ in range(2))
    with shared_database.owner() as owner:
        name = sql.Identifier(owner.info.dbname)
        sooner = sql.SQL("ALTER DATABASE {} SET deadlock_timeout = '20ms'")
        owner.execute(sooner.format(name))
    meet = threading.Barrier(2)

    def crosses(ids: list[UUID]) -> str:
        with shared_database.connect() as conn:
            try:
                with conn.transaction():
                    cancel(conn, ids[:1], **SIGNED)
                    meet.wait(PATIENCE)
                    cancel(conn, ids[1:], **SIGNED)
            except ContendedError:
                return "contended"
            return "done"

    with ThreadPoolExecutor(2) as pool:
        ends = list(pool.map(crosses, [[one, other], [other, one]]))
    assert sorted(ends) == ["contended", "done"]
    assert arena.acts(one) == arena.acts(other) == ["cancelled"]


# Many at once


def at_once(database: Any, number: int, do: Callable[[Conn, int], Any]) -> list[Any]:
    """Do something on so many connections, all starting together."""
    barrier = threading.Barrier(number)

    def starts(each: int) -> Any:
        with database.connect() as conn:
            barrier.wait(PATIENCE)
            return do(conn, each)

    with ThreadPoolExecutor(number) as pool:
        return list(pool.map(starts, range(number)))


@pytest.mark.parametrize(
    ("place", "verb", "act", "why"),
    [
        ("ready", cancel, "cancelled", "wrong_state"),
        ("running", cancel, "cancel_requested", "already_asked"),
        ("failed", retry, "retried", "wrong_state"),
        ("needs_review", release, "released", "wrong_state"),
        ("needs_review", confirm, "confirmed", "wrong_state"),
        ("needs_review", close, "closed", "wrong_state"),
    ],
)
def test_of_operators_on_one_job_at_once_one_acts_and_the_others_are_told(
    shared_database, arena: Arena, job_in, place: str, verb, act: str, why: str
) -> None:
    made = job_in(arena.watch, place)
    outcomes = at_once(
        shared_database, 6, lambda conn, each: verb(conn, [made.id], by=f"ops:{each}", reason="now")
    )
    told = Counter(each.why or each.act for (each,) in outcomes)
    assert told == {act: 1, why: 5}
    assert arena.acts(made.id) == [act]


def enqueues(conn: Conn, queue: str, number: int) -> list[UUID]:
    jobs = [NewJob("mail.send", queue=queue) for _ in range(number)]
    return [each.id for each in enqueue_many(conn, jobs)]


def test_every_job_is_claimed_exactly_once_by_claimers_at_once(
    shared_database, arena: Arena, registry
) -> None:
    queue = f"crowd-{uuid.uuid4().hex}"
    jobs = enqueues(arena.watch, queue, 400)

    def drains(conn: Conn, each: int) -> list[Claimed]:
        taken: list[Claimed] = []
        worker = uuid.uuid4()
        while runs := claim(conn, worker=worker, names=MAIL, queues=[queue], count=7):
            taken += runs
        return taken

    taken = [run for runs in at_once(shared_database, 8, drains) for run in runs]
    assert sorted(run.id for run in taken) == sorted(jobs)
    assert {run.attempt for run in taken} == {1}
    query = "SELECT count(*) AS held FROM countersign.running WHERE queue = %s"
    assert arena.watch.execute(query, [queue]).fetchone() == {"held": 400}


def test_a_claim_looks_past_what_another_holds_and_never_takes_the_same(
    arena: Arena, registry
) -> None:
    queue = f"held-{uuid.uuid4().hex}"
    jobs = enqueues(arena.watch, queue, 9)
    take = {"names": MAIL, "queues": [queue]}
    held = claim(arena.first, worker=uuid.uuid4(), count=4, **take)
    assert [run.id for run in held] == jobs[:4]
    assert [run.id for run in claim(arena.second, worker=uuid.uuid4(), count=2, **take)] == jobs[
        4:6
    ]
    assert [run.id for run in claim(arena.second, worker=uuid.uuid4(), count=9, **take)] == jobs[6:]
    assert claim(arena.second, worker=uuid.uuid4(), count=9, **take) == []
    arena.first.rollback()
    again = claim(arena.second, worker=uuid.uuid4(), count=9, **take)
    assert [(run.id, run.attempt) for run in again] == [(job, 1) for job in jobs[:4]]


def test_a_claim_looks_past_a_lane_that_another_holds_whole(arena: Arena, registry) -> None:
    mark = uuid.uuid4().hex
    first, second = (enqueues(arena.watch, f"{lane}-{mark}", 3) for lane in "ab")
    held = claim(arena.first, worker=first[0], names=MAIL, queues=[f"a-{mark}"], count=3)
    assert len(held) == 3
    lanes = [f"a-{mark}", f"b-{mark}"]
    runs = claim(arena.second, worker=second[0], names=MAIL, queues=lanes, count=3)
    assert [run.id for run in runs] == second


def test_two_sweepers_resolve_each_job_once(arena: Arena, job_in) -> None:
    worker = job_in(arena.watch, "running").worker
    made = [job_in(arena.watch, "running", attempts=2) for _ in range(6)]
    move = "UPDATE countersign.running SET worker = %s WHERE id = ANY(%s)"
    arena.watch.execute(move, [worker, [each.id for each in made]])
    fleet.give_up(arena.watch, worker)
    first = recover(arena.first, worker=worker, limit=3)
    second = recover(arena.second, worker=worker)
    arena.first.commit()
    assert (len(first), len(second)) == (3, 4)
    resolved = {each.id for each in first} & {each.id for each in second}
    assert resolved == set()
    assert recover(arena.second, worker=worker) == []


# A crowd


@dataclass
class Client:
    """One of many clients that do at random what operators and workers do."""

    conn: Conn
    queue: str
    jobs: list[UUID]
    dice: random.Random
    worker: UUID
    acts: list[int] = field(default_factory=list)
    contended: int = 0

    def goes_on(self, times: int) -> None:
        moves = [self.acts_on_some, self.acts_on_some, self.works, self.works, self.sweeps]
        for _ in range(times):
            try:
                self.dice.choice(moves)()
            except ContendedError:
                self.contended += 1

    def acts_on_some(self) -> None:
        verb = self.dice.choice([cancel, retry, release, confirm, close])
        some = self.dice.sample(self.jobs, self.dice.choice([1, 1, 2, 25]))
        outcomes = verb(self.conn, some, **SIGNED)
        self.acts += [each.act_id for each in outcomes if each.act_id is not None]

    def works(self) -> None:
        count = self.dice.choice([1, 4, 16])
        runs = claim(self.conn, worker=self.worker, names=MAIL, queues=[self.queue], count=count)
        self.dice.shuffle(runs)
        for transition, ending in ENDINGS:
            share, runs = runs[: 1 + len(runs) // 3], runs[1 + len(runs) // 3 :]
            reports = [RunReport(run.id, run.attempt, ending) for run in share]
            if reports:
                transition(self.conn, self.worker, reports)
        if runs:
            give_back(self.conn, self.worker, [(run.id, run.attempt) for run in runs[1:]])

    def sweeps(self) -> None:
        """Promote, and now and then lose oneself, be recovered and report late."""
        promote(self.conn, limit=20)
        if self.dice.random() < 0.3:
            runs = claim(self.conn, worker=self.worker, names=MAIL, queues=[self.queue], count=3)
            fleet.give_up(self.conn, self.worker)
            recover(self.conn, limit=5)
            late = [RunReport(run.id, run.attempt, Completed()) for run in runs]
            dispute(self.conn, self.worker, late)
            self.worker = fleet.register(self.conn, IDENTITY)


ENDINGS = (
    (complete, Completed("1")),
    (fail, Failed("busy")),
    (fail, GOOD_FOR_NOTHING),
    (fail, CRASHED),
    (defer, Deferred(0.0)),
    (stop, Stopped("Stopped: 3 of 10")),
)
IDENTITY = fleet.Identity("pay-3", 1, "boot-1", "pid:[1]", "0.1.0", [], 4)
# For each attempt that there was, what tells how it ended: one place or one row of `runs`. A job
# that a person confirmed was completed by no run.
ACCOUNTS = """
WITH stands AS (
    SELECT job_states.id, count(*) AS places, max(job_states.attempt) AS attempt,
        bool_or(job_states.state = 'running'
            OR (job_states.state = 'completed' AND job_states.worker IS NOT NULL)) AS in_place
    FROM countersign.job_states
    WHERE job_states.id = ANY(%(jobs)s)
    GROUP BY job_states.id
)
SELECT stands.id, stands.places, attempt.number,
    (
        SELECT count(*) FROM countersign.runs
        WHERE runs.job_id = stands.id AND runs.attempt = attempt.number
            AND runs.outcome NOT IN ('late_completed', 'late_failed')
    )
    + (attempt.number = stands.attempt AND stands.in_place)::integer AS accounts
FROM stands
LEFT JOIN generate_series(1, stands.attempt) AS attempt (number) ON true
"""


def test_a_crowd_leaves_every_job_in_one_place_every_run_told_and_every_act_signed(
    shared_database, arena: Arena, registry
) -> None:
    queue = f"crowd-{uuid.uuid4().hex}"
    jobs = enqueues(arena.watch, queue, 300)

    def goes_on(conn: Conn, each: int) -> Client:
        worker = fleet.register(conn, IDENTITY)
        client = Client(conn, queue, jobs, random.Random(each), worker)
        client.goes_on(25)
        return client

    clients = at_once(shared_database, 20, goes_on)
    accounts = arena.watch.execute(ACCOUNTS, {"jobs": jobs}).fetchall()
    assert tallies.problems(arena.watch) == []
    assert {row["id"] for row in accounts} == set(jobs)
    assert {row["places"] for row in accounts} == {1}
    assert {row["accounts"] for row in accounts if row["number"]} == {1}
    applied = sorted(act for client in clients for act in client.acts)
    query = "SELECT id FROM countersign.acts WHERE subject_id = ANY(%s) ORDER BY id"
    assert [row["id"] for row in arena.watch.execute(query, [jobs]).fetchall()] == applied
    assert len(applied) > 50  # the crowd was one
