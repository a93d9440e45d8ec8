"""Claim: a worker takes jobs, highest priority first, then oldest, and only what it handles."""

import json
import uuid
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from queue_core import enqueue
from queue_core.jobs import decode
from queue_core.queries.places import locate
from queue_core.transitions.claim import Claimable, claim

MAIL = [Claimable("mail.send")]
WORKER = uuid.uuid4()


def ready(
    conn, *, queue: str = "q", name: str = "mail.send", rank: int = 0, ago: float = 0.0
) -> UUID:
    """Put a job and its body there directly: due `ago` seconds before the transaction began."""
    parameters = {"queue": queue, "name": name, "rank": rank, "ago": ago}
    return conn.execute(READY, parameters).fetchone()["id"]


READY = """
WITH body AS (
    INSERT INTO countersign.jobs (id, name, queue, args, priority)
    VALUES (countersign.new_id(), %(name)s, %(queue)s, '{"address": "canary-7c1e-do-not-repeat"}',
        -%(rank)s::integer)
    RETURNING jobs.id
)
INSERT INTO countersign.ready (id, queue, name, rank, run_at)
SELECT body.id, %(queue)s, %(name)s, %(rank)s, now() - make_interval(secs => %(ago)s) FROM body
RETURNING ready.id
"""


def takes(conn, count: int = 100, names=MAIL, queues=None) -> list[UUID]:
    return [run.id for run in claim(conn, worker=WORKER, names=names, queues=queues, count=count)]


# Which jobs, in what order


def test_priority_goes_first_then_age_then_id(conn) -> None:
    last, tied, older = ready(conn), ready(conn), ready(conn, ago=5)
    low, high = ready(conn, rank=3, ago=900), ready(conn, rank=-3)
    assert takes(conn) == [high, older, *sorted([last, tied]), low]


def test_the_best_over_all_lanes_go_first(conn) -> None:
    names = [Claimable("mail.send"), Claimable("audit.file")]
    best = ready(conn, queue="b", name="audit.file", rank=-9)
    fair = ready(conn, queue="c", name="mail.send", rank=-5)
    poor = ready(conn, queue="a", name="mail.send", rank=0)
    assert takes(conn, 2, names) == [best, fair]
    assert takes(conn, 2, names) == [poor]


def test_no_more_than_asked_for_are_taken(conn) -> None:
    jobs = [ready(conn) for _ in range(5)]
    assert [len(takes(conn, 2)) for _ in range(4)] == [2, 2, 1, 0]
    assert {place.state for place in locate(conn, jobs).values()} == {"running"}


def test_only_names_that_the_worker_handles_are_ever_claimed(conn) -> None:
    other = ready(conn, name="report.make", rank=-100)
    mine = ready(conn)
    assert takes(conn) == [mine]
    assert locate(conn, [other])[other].state == "ready"


def test_only_the_queues_asked_for_are_claimed_and_none_asked_for_means_all(conn) -> None:
    first, second, third = (ready(conn, queue=queue) for queue in ("a", "b", "c"))
    assert takes(conn, queues=[]) == []
    assert takes(conn, queues=["b"]) == [second]
    assert sorted(takes(conn, queues=None)) == sorted([first, third])


@pytest.mark.parametrize(("names", "count"), [([], 5), (MAIL, 0), (MAIL, -1)])
def test_nothing_to_claim_is_nothing_claimed(conn, names, count: int) -> None:
    ready(conn)
    assert takes(conn, count, names) == []


def test_an_empty_queue_gives_nothing(conn) -> None:
    assert takes(conn) == []


@pytest.mark.parametrize(
    "place", ["waiting", "due", "blocked", "running", "failed", "needs_review"]
)
def test_only_what_stands_in_ready_is_claimed(conn, job_in, place: str) -> None:
    job_in(conn, place)
    assert takes(conn) == []


def test_hostile_names_and_queues_are_names_like_others(conn) -> None:
    odd = ["'; DROP TABLE x; --", "%s", "ünïcode 🎈", "\\", "a" * 200, "{}", "NULL"]
    jobs = {name: ready(conn, name=name, queue=name) for name in odd}
    for name, job in jobs.items():
        assert takes(conn, names=[Claimable(name)], queues=[name]) == [job]


# What a claim resolves


def test_a_job_that_asked_for_nothing_gets_the_defaults_in_force_when_it_runs(
    conn, registry
) -> None:
    job = enqueue(conn, "mail.send", queue="q").id
    names = [Claimable("mail.send", attempts=4, on_lost="review", time_limit=30.0)]
    (run,) = claim(conn, worker=WORKER, names=names, queues=["q"], count=1)
    assert (run.attempts_allowed, run.on_lost, run.time_limit) == (4, "review", 30.0)
    kept = conn.execute("SELECT * FROM countersign.running WHERE id = %s", [job]).fetchone()
    assert (kept["attempts_allowed"], kept["on_lost"]) == (4, "review")


def test_what_the_job_asked_for_itself_wins(conn, registry) -> None:
    enqueue(conn, "mail.send", queue="q", attempts=2, time_limit=7.5)
    names = [Claimable("mail.send", attempts=4, time_limit=30.0)]
    (run,) = claim(conn, worker=WORKER, names=names, queues=["q"], count=1)
    assert (run.attempts_allowed, run.time_limit) == (2, 7.5)


def test_without_any_limit_there_is_none(conn) -> None:
    ready(conn)
    (run,) = claim(conn, worker=WORKER, names=MAIL, count=1)
    assert (run.time_limit, run.attempts_allowed, run.on_lost) == (None, 1, "attempts")


def test_a_run_is_the_next_attempt_and_remembers_the_jobs_old_place(conn, registry) -> None:
    now = conn.execute("SELECT now() AS now").fetchone()["now"]
    due = now - timedelta(minutes=3)
    job = enqueue(conn, "mail.send", {"address": "x"}, queue="q", priority=12, run_at=due).id
    (run,) = claim(conn, worker=WORKER, names=MAIL, queues=["q"], count=1)
    kept = conn.execute("SELECT * FROM countersign.running WHERE id = %s", [job]).fetchone()
    assert (run.id, run.attempt, run.name, run.queue) == (job, 1, "mail.send", "q")
    assert (kept["attempt"], kept["worker"], kept["rank"]) == (1, WORKER, -12)
    assert (kept["run_at"], kept["claimed_at"], run.claimed_at) == (due, now, now)
    assert (kept["child_pid"], kept["started_at"], kept["stop_requested_at"]) == (None, None, None)
    assert isinstance(run.claimed_at, datetime)


# Bodies


def test_arguments_come_as_text_and_stay_out_of_a_runs_repr(conn) -> None:
    ready(conn)
    (run,) = claim(conn, worker=WORKER, names=MAIL, count=1)
    assert decode(run.args or "") == {"address": "canary-7c1e-do-not-repeat"}
    assert "canary" not in repr(run)


def test_a_missing_body_stops_no_batch(conn) -> None:
    before, gone, after = ready(conn, ago=3), uuid.uuid4(), ready(conn, ago=1)
    query = """
        INSERT INTO countersign.ready (id, queue, name, rank, run_at)
        VALUES (%s, 'q', 'mail.send', 0, now() - interval '2 seconds')"""
    conn.execute(query, [gone])
    runs = claim(conn, worker=WORKER, names=[Claimable("mail.send", 3, time_limit=9.0)], count=10)
    assert [run.id for run in runs] == [before, gone, after]
    assert [run.args is None for run in runs] == [False, True, False]
    assert (runs[1].attempts_allowed, runs[1].time_limit) == (3, 9.0)


HOSTILE_BODIES = {
    "a number of 5,000 digits": '{"n": 1e5000}',
    "a list 5,000 deep": "[" * 5_000 + "]" * 5_000,
    "no object": "[1, 2]",
    "a bare number": "1e200",
    "null": "null",
}


@pytest.mark.parametrize("body", HOSTILE_BODIES.values(), ids=HOSTILE_BODIES)
def test_a_body_that_python_cannot_read_breaks_nothing_for_its_batch(conn, body: str) -> None:
    before, after = ready(conn, ago=3), ready(conn, ago=1)
    poison: dict[str, Any] = {"body": body}
    conn.execute(POISON, poison)
    runs = claim(conn, worker=WORKER, names=MAIL, count=10)
    assert [runs[0].id, runs[2].id] == [before, after]
    assert all(json.loads(run.args or "") for run in (runs[0], runs[2]))
    with pytest.raises(ValueError, match="arguments"):
        decode(runs[1].args or "")


POISON = """
WITH body AS (
    INSERT INTO countersign.jobs (id, name, queue, args, priority)
    VALUES (countersign.new_id(), 'mail.send', 'q', %(body)s::jsonb, 0)
    RETURNING jobs.id
)
INSERT INTO countersign.ready (id, queue, name, rank, run_at)
SELECT body.id, 'q', 'mail.send', 0, now() - interval '2 seconds' FROM body
"""
