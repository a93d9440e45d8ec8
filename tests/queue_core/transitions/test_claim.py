"""Claim: a worker takes jobs, highest priority first, then oldest, and only what it handles."""

import itertools
import json
import uuid
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from queue_core import enqueue, pause_queue, resume_queue
from queue_core.jobs import decode
from queue_core.lanes import Head, Lane, Lanes
from queue_core.queries.lanes import heads
from queue_core.queries.places import locate
from queue_core.transitions.claim import Claimable, Claimed, claim

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


# Limits of names, caps of queues, paused ones


def names_of(runs: list[Claimed]) -> list[str]:
    return [run.name for run in runs]


TWO = [Claimable("mail.send"), Claimable("audit.file")]


def some(conn, count: int, names=TWO, **limits: Any) -> list[Claimed]:
    return claim(conn, worker=WORKER, names=names, count=count, **limits)


def test_no_more_are_taken_of_a_name_than_it_has_room_for_and_others_fill_up(conn) -> None:
    for queue in ("a", "b", "c"):
        for _ in range(3):
            ready(conn, queue=queue, rank=-9)
    for _ in range(9):
        ready(conn, name="audit.file")
    assert names_of(some(conn, 6, capacities={"mail.send": 2})) == (
        ["mail.send"] * 2 + ["audit.file"] * 4
    )
    assert names_of(some(conn, 6, capacities={"mail.send": 0})) == ["audit.file"] * 5
    assert names_of(some(conn, 9, MAIL, capacities={"mail.send": 5, "other": 1})) == (
        ["mail.send"] * 5
    )


def test_a_lane_alone_keeps_to_its_room_too(conn) -> None:
    jobs = [ready(conn, ago=9 - number) for number in range(5)]
    assert [run.id for run in some(conn, 4, capacities={"mail.send": 2})] == jobs[:2]
    assert [run.id for run in some(conn, 4, rooms={"q": 1})] == jobs[2:3]


def test_a_limited_name_gives_its_best_jobs_from_whatever_queues(conn) -> None:
    best = [ready(conn, queue=queue, rank=rank) for rank, queue in enumerate("cab")]
    for queue in "abc":
        ready(conn, queue=queue, rank=50)
    assert [run.id for run in some(conn, 6, capacities={"mail.send": 3})] == best


def test_no_more_are_taken_from_a_queue_than_it_has_room_for_and_others_fill_up(conn) -> None:
    for name in ("mail.send", "audit.file"):
        for _ in range(4):
            ready(conn, queue="narrow", name=name, rank=-9)
            ready(conn, queue="wide", name=name)
    runs = some(conn, 5, rooms={"narrow": 3})
    assert [run.queue for run in runs] == ["narrow"] * 3 + ["wide"] * 2
    assert some(conn, 5, rooms={"narrow": 0, "wide": -1}) == []


def test_limits_and_caps_hold_together(conn) -> None:
    for queue in ("narrow", "wide"):
        for name in ("mail.send", "audit.file"):
            for _ in range(5):
                ready(conn, queue=queue, name=name, rank=-9 if name == "mail.send" else 0)
    runs = some(conn, 20, capacities={"mail.send": 3}, rooms={"narrow": 4})
    assert sorted(names_of(runs)) == ["audit.file"] * len(runs[3:]) + ["mail.send"] * 3
    assert [run.queue for run in runs].count("narrow") == 4
    assert len(runs) >= 8


def test_nothing_is_taken_from_a_paused_queue_not_even_by_a_claimer_that_knows_it(conn) -> None:
    lanes = Lanes()
    for queue in ("held", "open"):
        for _ in range(4):
            ready(conn, queue=queue)
    assert len(some(conn, 2, lanes=lanes)) == 2
    pause_queue(conn, "held", by="ops:alice", reason="seen_in_test")
    assert {run.queue for run in some(conn, 9, lanes=lanes)} == {"open"}
    assert some(conn, 9, lanes=Lanes()) == []
    resume_queue(conn, "held", by="ops:alice", reason="seen_in_test")
    assert {run.queue for run in some(conn, 9, lanes=lanes)} == {"held"}


# Many lanes, and what a claimer remembers of them


SCATTERED = """
INSERT INTO countersign.ready (id, queue, name, rank, run_at)
SELECT countersign.new_id(), 'queue-' || floor(random() * 7), 'name-' || floor(random() * 40),
    floor(random() * 3), now() - floor(random() * 90) * interval '1 s'
FROM generate_series(1, 900)
"""
IN_ORDER = "SELECT ready.id FROM countersign.ready ORDER BY ready.rank, ready.run_at, ready.id"


def test_the_best_of_many_lanes_go_first_whatever_their_number(conn) -> None:
    conn.execute(SCATTERED)
    expected = [row["id"] for row in conn.execute(IN_ORDER)]
    names = [Claimable(f"name-{number}") for number in range(40)]
    lanes, found, counts = Lanes(), list[UUID](), itertools.cycle([1, 3, 50, 17, 200])
    while runs := some(conn, next(counts), names, lanes=lanes):
        found += [run.id for run in runs]
    assert found == expected


def test_one_lane_that_has_all_the_best_jobs_gives_them_all(conn) -> None:
    names = [Claimable(f"name-{number}") for number in range(30)]
    for each in names:
        ready(conn, name=each.name)
    best = [ready(conn, name="name-7", rank=-1) for _ in range(60)]
    lanes = Lanes()
    assert [run.id for run in some(conn, 40, names, lanes=lanes)] == best[:40]
    assert [run.id for run in some(conn, 20, names, lanes=lanes)] == best[40:]


def test_a_lane_with_more_than_its_quota_is_outdone_by_no_worse_one(conn) -> None:
    names = [Claimable(f"name-{number:02}") for number in range(30)]
    best = [ready(conn, name=each.name, rank=-1) for each in names]
    good = [ready(conn, name="name-10") for _ in range(30)]
    for each in names:
        for _ in range(3):
            ready(conn, name=each.name, rank=5)
    assert [run.id for run in some(conn, 40, names)] == best + good[:10]


def test_what_others_took_from_the_lanes_that_seemed_best_lets_no_worse_job_go_first(conn) -> None:
    names = [Claimable(f"name-{number:02}") for number in range(20)]
    best = [ready(conn, name=each.name) for each in names]
    for each in names:
        ready(conn, name=each.name, rank=5)
    lanes = Lanes()
    lanes.looked(heads(conn), 0.0)
    assert [run.id for run in some(conn, 16, names)] == best[:16]
    assert [run.id for run in some(conn, 1, names, lanes=lanes)] == best[16:17]


def test_a_claimer_that_remembers_goes_on_where_it_stopped(conn) -> None:
    jobs = [ready(conn, ago=9 - number) for number in range(6)]
    lanes = Lanes()
    assert [run.id for run in some(conn, 2, lanes=lanes)] == jobs[:2]
    (place,) = lanes.places().values()
    assert place.id == jobs[2]
    assert [run.id for run in some(conn, 2, lanes=lanes)] == jobs[2:4]
    late = ready(conn, ago=100)
    assert [run.id for run in some(conn, 1, lanes=lanes)] == jobs[4:5]
    lanes.forget()
    assert [run.id for run in some(conn, 9, lanes=lanes)] == [late, jobs[5]]


def test_a_claim_that_gets_too_little_looks_at_everything_before_it_says_so(conn) -> None:
    lanes = Lanes()
    first, second = ready(conn), ready(conn)
    assert [run.id for run in some(conn, 1, lanes=lanes)] == [first]
    lanes.looked([Head(*head) for head in lanes.places().items()], 0.0)
    late, elsewhere = ready(conn, ago=100), ready(conn, queue="elsewhere")
    assert {run.id for run in some(conn, 3, lanes=lanes)} == {second, late, elsewhere}


def test_jobs_told_to_stand_behind_are_taken_first(conn) -> None:
    lanes = Lanes()
    jobs = [ready(conn, ago=9 - number) for number in range(4)]
    assert [run.id for run in some(conn, 1, lanes=lanes)] == jobs[:1]
    late, better = ready(conn, ago=100), ready(conn, rank=-1)
    lanes.told([], {Lane("q", "mail.send"): [late, better, uuid.uuid4()]})
    assert [run.id for run in some(conn, 1, lanes=lanes)] == [better]
    assert [run.id for run in some(conn, 2, lanes=lanes)] == [late, jobs[1]]
    assert [run.id for run in some(conn, 9, lanes=lanes)] == jobs[2:]


def test_what_is_told_from_behind_is_taken_once_where_its_lane_began_anew(conn) -> None:
    lanes = Lanes()
    jobs = [ready(conn, ago=9 - number) for number in range(3)]
    lanes.looked(heads(conn), 0.0)
    lanes.told([], {Lane("q", "mail.send"): jobs[:2]})
    assert [run.id for run in some(conn, 2, lanes=lanes)] == jobs[:2]


def test_lanes_remembered_of_names_and_queues_not_asked_for_give_nothing(conn) -> None:
    lanes = Lanes()
    ready(conn)
    ready(conn, queue="other")
    ready(conn, name="audit.file")
    lanes.looked(heads(conn), 0.0)
    assert names_of(some(conn, 9, TWO[1:], lanes=lanes)) == ["audit.file"]
    assert [run.queue for run in some(conn, 9, queues=["other"], lanes=lanes)] == ["other"]


def test_a_claim_tries_so_often_and_no_more_however_much_is_there(conn, monkeypatch) -> None:
    """Of the second lane's many jobs a first try looks at half as many as are wanted."""
    names = [Claimable(f"name-{number}") for number in range(40)]
    for each in names:
        ready(conn, name=each.name)
    best = ready(conn, name="name-0", ago=200)
    second = [ready(conn, name="name-1", ago=100 - number) for number in range(60)]
    with monkeypatch.context() as patched:
        patched.setattr("queue_core.transitions.claim.turns.MOST_TRIES", 1)
        lanes = Lanes()
        lanes.looked(sorted(heads(conn), key=lambda head: head.place), 0.0)
        first = [run.id for run in some(conn, 40, names, lanes=lanes)]
    assert first == [best, *second[:20]]
    assert [run.id for run in some(conn, 40, names, lanes=lanes)] == second[20:]


def test_a_claimer_forgets_no_job_whatever_it_remembers(conn) -> None:
    """Jobs come anywhere while it claims; the look at all lanes finds each in the end."""
    lanes, found = Lanes(), list[UUID]()
    names = [Claimable(f"name-{number}") for number in range(40)]
    for count in (40, 200, 7, 500, 30):
        conn.execute(SCATTERED)
        found += [run.id for run in some(conn, count, names, lanes=lanes)]
    lanes.forget()
    while runs := some(conn, 1_000, names, lanes=lanes):
        found += [run.id for run in runs]
    assert len(found) == len(set(found)) == 5 * 900
