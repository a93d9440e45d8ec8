"""Recover: the runs of a worker that is gone go to their old place, a person or their end."""

import uuid
from typing import Any

import pytest

from queue_core import cancel, enqueue, fleet
from queue_core.outcomes import Completed, RunReport
from queue_core.queries.acts import acts_of
from queue_core.queries.places import locate
from queue_core.queries.runs import own_record, runs_of
from queue_core.transitions.claim import Claimable, claim
from queue_core.transitions.complete import complete
from queue_core.transitions.recover import recover

ENDED = "SELECT ended.* FROM countersign.ended WHERE ended.id = %s"
REVIEW = "SELECT review.* FROM countersign.review WHERE review.id = %s"
READY = "SELECT ready.* FROM countersign.ready WHERE ready.id = %s"
RUNNING = "SELECT running.* FROM countersign.running WHERE running.id = %s"


def recovers(conn, made) -> str:
    """Recover the only run whose worker is gone."""
    (moved,) = recover(conn)
    assert (moved.id, moved.attempt) == (made.id, made.attempt)
    assert locate(conn, [made.id])[made.id].state == moved.state
    return moved.state


# Whose runs


@pytest.mark.parametrize("ends", [fleet.stop, fleet.give_up])
def test_the_runs_of_a_worker_that_stopped_or_is_lost_are_resolved(conn, job_in, ends) -> None:
    made = job_in(conn, "running")
    ends(conn, made.worker)
    assert recovers(conn, made) == "failed"


def test_the_runs_of_a_worker_without_a_row_are_resolved(conn, job_in) -> None:
    made = job_in(conn, "running")
    conn.execute("UPDATE countersign.running SET worker = %s", [uuid.uuid4()])
    assert recovers(conn, made) == "failed"


def test_the_runs_of_workers_that_live_are_left_alone(conn, job_in, contents) -> None:
    job_in(conn, "running")
    old = job_in(conn, "running")
    conn.execute(
        "UPDATE countersign.running SET claimed_at = now() - interval '9 days' WHERE id = %s",
        [old.id],
    )
    conn.execute("UPDATE countersign.workers SET beat_at = now() - interval '1 day'")
    before = contents(conn)
    assert recover(conn) == []  # nobody has said of a silent worker that it is lost
    assert contents(conn) == before


def test_of_many_runs_only_those_of_gone_workers_move(conn, job_in) -> None:
    living, dead = job_in(conn, "running"), [job_in(conn, "running") for _ in range(3)]
    for made in dead:
        fleet.stop(conn, made.worker)
    assert {moved.id for moved in recover(conn)} == {made.id for made in dead}
    assert locate(conn, [living.id])[living.id].state == "running"


def test_one_workers_runs_can_be_asked_for_alone(conn, job_in) -> None:
    mine, other = job_in(conn, "running"), job_in(conn, "running")
    for made in (mine, other):
        fleet.give_up(conn, made.worker)
    assert [moved.id for moved in recover(conn, worker=mine.worker)] == [mine.id]
    assert locate(conn, [other.id])[other.id].state == "running"


def test_a_living_workers_runs_are_left_alone_even_when_asked_for(conn, job_in) -> None:
    made = job_in(conn, "running")
    assert recover(conn, worker=made.worker) == []


def test_a_sweep_takes_no_more_than_its_limit_and_the_next_takes_the_rest(conn, job_in) -> None:
    made = [job_in(conn, "running") for _ in range(5)]
    for each in made:
        fleet.stop(conn, each.worker)
    sweeps = [[moved.id for moved in recover(conn, limit=2)] for _ in range(4)]
    assert [len(sweep) for sweep in sweeps] == [2, 2, 1, 0]
    assert sorted(job for sweep in sweeps for job in sweep) == sorted(each.id for each in made)


# Where to


def test_with_attempts_left_a_job_stands_where_it_stood(conn, registry, make_worker) -> None:
    worker = make_worker(conn)
    job = enqueue(conn, "mail.send", queue="q", priority=9, attempts=2).id
    asked = conn.execute(READY, [job]).fetchone()
    claim(conn, worker=worker, names=[Claimable("mail.send")], queues=["q"], count=1)
    fleet.give_up(conn, worker)
    (moved,) = recover(conn)
    assert moved.state == "ready"
    assert conn.execute(READY, [job]).fetchone() == asked | {"attempt": 1}


def test_a_recovered_job_of_high_priority_goes_before_fresh_ones_of_low(
    conn, registry, make_worker
) -> None:
    lost, worker = make_worker(conn), make_worker(conn)
    names = [Claimable("mail.send", 3)]
    older = [enqueue(conn, "mail.send", queue="q").id for _ in range(3)]
    high = enqueue(conn, "mail.send", queue="q", priority=5).id
    claim(conn, worker=lost, names=names, queues=["q"], count=1)
    fleet.give_up(conn, lost)
    recover(conn)
    fresh = [enqueue(conn, "mail.send", queue="q").id for _ in range(3)]
    runs = claim(conn, worker=worker, names=names, queues=["q"], count=7)
    assert [run.id for run in runs] == [high, *older, *fresh]
    assert runs[0].attempt == 2


def test_a_recovered_job_goes_before_those_that_were_due_after_it(
    conn, registry, make_worker
) -> None:
    lost = make_worker(conn)
    names = [Claimable("mail.send", 2)]
    first, second = (enqueue(conn, "mail.send", queue="q").id for _ in range(2))
    claim(conn, worker=lost, names=names, queues=["q"], count=1)
    fleet.give_up(conn, lost)
    recover(conn)
    runs = claim(conn, worker=make_worker(conn), names=names, queues=["q"], count=2)
    assert [run.id for run in runs] == [first, second]


def test_without_attempts_left_a_job_failed_and_may_have_run_in_part(conn, job_in) -> None:
    made = job_in(conn, "running")
    fleet.stop(conn, made.worker)
    assert recovers(conn, made) == "failed"
    ended = conn.execute(ENDED, [made.id]).fetchone()
    assert (ended["uncertain"], ended["error"]) == (True, "abandoned by its worker")
    assert (ended["attempt"], ended["worker"]) == (1, made.worker)


def _lose(conn, job, make_worker, *, began: bool = False, **options) -> tuple[str, int]:
    """Claim a job that is safe to repeat, lose its worker, and return where it went."""
    worker = make_worker(conn)
    names = [Claimable("mail.send", safe_to_repeat=True, **options)]
    (run,) = claim(conn, worker=worker, names=names, queues=["q"], count=1)
    if began:
        fleet.beat(conn, worker, [fleet.Started(run.id, run.attempt, 4121, 0.5)])
    fleet.give_up(conn, worker)
    (moved,) = recover(conn)
    assert moved.id == job
    return moved.state, moved.attempt


def test_what_was_claimed_ahead_and_never_began_gets_its_attempt_back_once(
    conn, registry, make_worker
) -> None:
    job = enqueue(conn, "mail.send", queue="q").id
    assert _lose(conn, job, make_worker) == ("ready", 1)
    assert conn.execute(READY, [job]).fetchone()["attempts_allowed"] == 2
    assert _lose(conn, job, make_worker) == ("failed", 2)


def test_what_is_safe_to_repeat_and_began_is_recovered_as_any_other(
    conn, registry, make_worker
) -> None:
    job = enqueue(conn, "mail.send", queue="q").id
    assert _lose(conn, job, make_worker, began=True) == ("failed", 1)


def test_what_is_safe_to_repeat_goes_to_review_where_its_name_says_so(
    conn, registry, make_worker
) -> None:
    job = enqueue(conn, "mail.send", queue="q").id
    assert _lose(conn, job, make_worker, on_lost="review") == ("needs_review", 1)


def test_a_name_for_review_goes_there_whatever_is_left(conn, job_in) -> None:
    made = job_in(conn, "running", attempts=9, on_lost="review")
    began: dict[str, Any] = {"id": made.id}
    conn.execute(
        "UPDATE countersign.running SET child_pid = 77, started_at = now() WHERE id = %(id)s", began
    )
    run = conn.execute(RUNNING, [made.id]).fetchone()
    fleet.stop(conn, made.worker)
    assert recovers(conn, made) == "needs_review"
    review = conn.execute(REVIEW, [made.id]).fetchone()
    assert (review["why"], review["error"]) == ("lost", "abandoned by its worker")
    for known in ("attempt", "worker", "claimed_at", "started_at", "child_pid"):
        assert review[known] == run[known]
    assert review["signal"] is None


def test_a_job_that_is_lost_at_every_attempt_ends(conn, registry, make_worker) -> None:
    job = enqueue(conn, "mail.send", queue="q", attempts=3).id
    states = []
    for _ in range(3):
        worker = make_worker(conn)
        claim(conn, worker=worker, names=[Claimable("mail.send")], queues=["q"], count=1)
        fleet.give_up(conn, worker)
        states += [moved.state for moved in recover(conn)]
    assert states == ["ready", "ready", "failed"]
    assert [(run.attempt, run.outcome) for run in runs_of(conn, job)] == [
        (1, "lost"),
        (2, "lost"),
        (3, "lost"),
    ]


def test_a_lost_run_is_accounted_for_with_what_was_known_of_it(conn, job_in) -> None:
    made = job_in(conn, "running", attempts=2)
    started = fleet.Started(made.id, 1, child_pid=77, seconds=3.0)
    fleet.beat(conn, made.worker, [started])
    known = conn.execute(RUNNING, [made.id]).fetchone()
    fleet.stop(conn, made.worker)
    recover(conn)
    (run,) = runs_of(conn, made.id)
    assert (run.attempt, run.outcome, run.worker) == (1, "lost", made.worker)
    assert (run.child_pid, run.started_at, run.claimed_at) == (
        77,
        known["started_at"],
        known["claimed_at"],
    )
    assert run.error == "abandoned by its worker"


# After a request to stop


def test_a_lost_job_that_was_asked_to_stop_is_cancelled_and_uncertain(conn, job_in) -> None:
    made = job_in(conn, "running", attempts=9)
    cancel(conn, [made.id], by="ops:alice", reason="too_slow")
    fleet.stop(conn, made.worker)
    assert recovers(conn, made) == "cancelled"
    assert conn.execute(ENDED, [made.id]).fetchone()["uncertain"] is True
    assert [act.act for act in acts_of(conn, made.id)] == ["cancel_requested"]


def test_a_lost_job_for_review_goes_there_even_when_asked_to_stop(conn, job_in) -> None:
    made = job_in(conn, "running", attempts=9, on_lost="review")
    cancel(conn, [made.id], by="ops:alice", reason="too_slow")
    fleet.stop(conn, made.worker)
    assert recovers(conn, made) == "needs_review"


# The fence


def test_a_run_that_was_given_up_on_changes_nothing_any_more(conn, job_in, contents) -> None:
    for attempts in (1, 2):
        made = job_in(conn, "running", attempts=attempts)
        fleet.give_up(conn, made.worker)
        recover(conn)
        before = contents(conn)
        assert complete(conn, made.worker, [made.report(Completed('"late"'))]) == []
        assert contents(conn) == before
        assert own_record(conn, made.worker, [(made.id, 1)]) == set()


def test_a_run_given_up_on_cannot_write_over_its_replacement(
    conn, job_in, make_worker, contents
) -> None:
    made, other = job_in(conn, "running", attempts=2), make_worker(conn)
    fleet.give_up(conn, made.worker)
    recover(conn)
    names = [Claimable("mail.send")]
    (run,) = claim(conn, worker=other, names=names, queues=[made.queue], count=1)
    before = contents(conn)
    assert complete(conn, made.worker, [made.report(Completed())]) == []
    assert complete(conn, made.worker, [RunReport(made.id, run.attempt, Completed())]) == []
    assert complete(conn, other, [made.report(Completed())]) == []
    assert contents(conn) == before
    (moved,) = complete(conn, other, [RunReport(made.id, run.attempt, Completed())])
    assert moved.state == "completed"
