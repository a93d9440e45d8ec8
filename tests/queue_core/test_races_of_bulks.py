"""Acts on chosen jobs beside every move of one: the others are done, and of that one is told."""

import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from queue_core import ContendedError, cancel, close, confirm, release, retry
from tests.queue_core.racing import (
    PATIENCE,
    SIGNED,
    Arena,
    and_its_worker_is_lost,
    another_run_disputes,
    cancels,
    claims,
    closes,
    completes,
    confirms,
    fails_for_good,
    gives_back,
    promotes,
    recovers,
    releases,
    retries,
    sets_aside,
)

ACTS = {cancel: "cancelled", retry: "retried", release: "released"}
ACTS |= {confirm: "confirmed", close: "closed"}
BESIDE = {
    # where they stand, who moves one of three, the act on all of them
    "claimed, cancel": ("ready", claims, cancel),
    "cancelled, cancel": ("ready", cancels, cancel),
    "disputed, cancel": ("ready", another_run_disputes, cancel),
    "cancelled in waiting, cancel": ("waiting", cancels, cancel),
    "cancelled in blocked, cancel": ("blocked", cancels, cancel),
    "completed, cancel": ("running", completes, cancel),
    "failed, cancel": ("running", fails_for_good, cancel),
    "set aside, cancel": ("running", sets_aside, cancel),
    "recovered, cancel": ("running", recovers, cancel),
    "retried, retry": ("failed", retries, retry),
    "disputed, retry": ("failed", another_run_disputes, retry),
    "retried when cancelled, retry": ("cancelled", retries, retry),
    **{
        f"{told}, {verb.__name__}": ("needs_review", move, verb)
        for told, move in (("released", releases), ("confirmed", confirms), ("closed", closes))
        for verb in (release, confirm, close)
    },
}


@pytest.mark.parametrize("ends", ["committed", "rolled_back"])
@pytest.mark.parametrize(("place", "move", "verb"), BESIDE.values(), ids=BESIDE)
def test_one_of_the_chosen_that_moves_is_left_alone_and_the_others_are_done(
    arena: Arena, job_in, place, move, verb, ends
) -> None:
    made = [job_in(arena.watch, place) for _ in range(3)]
    if move is recovers:
        and_its_worker_is_lost(arena.watch, made[1])
    seen_state = "ready" if place == "due" else place
    seen = {each.id: (seen_state, each.attempt) for each in made}
    bulk_id = uuid.uuid4()
    move(arena.first, made[1])
    with ThreadPoolExecutor(1) as pool:
        racing = pool.submit(verb, arena.second, list(seen), seen=seen, bulk_id=bulk_id, **SIGNED)
        assert arena.waits(racing)
        (arena.first.commit if ends == "committed" else arena.first.rollback)()
        outcomes = racing.result(PATIENCE)
    done = "cancel_requested" if place == "running" else ACTS[verb]
    middle = "moved_on" if ends == "committed" else done
    assert [each.why or each.act for each in outcomes] == [done, middle, done]
    query = "SELECT subject_id, act FROM countersign.acts WHERE bulk_id = %s ORDER BY id"
    signed = arena.watch.execute(query, [bulk_id]).fetchall()
    applied = [each for each in outcomes if each.applied]
    assert [(row["subject_id"], row["act"]) for row in signed] == [
        (each.job_id, each.act) for each in applied
    ]
    now = {each.job_id: each.state for each in outcomes}
    assert {each.id: arena.stands(each.id) for each in made} == now


@pytest.mark.parametrize("ends", ["committed", "rolled_back"])
def test_one_that_falls_due_meanwhile_is_cancelled_with_the_others(
    arena: Arena, job_in, ends
) -> None:
    made = [job_in(arena.watch, "due") for _ in range(3)]
    promotes(arena.first, made[1])
    seen = {each.id: ("waiting", 0) for each in made}
    with ThreadPoolExecutor(1) as pool:
        racing = pool.submit(cancel, arena.second, list(seen), seen=seen, **SIGNED)
        assert arena.waits(racing)
        (arena.first.commit if ends == "committed" else arena.first.rollback)()
        outcomes = racing.result(PATIENCE)
    assert [each.act for each in outcomes if each.applied] == ["cancelled"] * 3


@pytest.mark.parametrize("ends", ["committed", "rolled_back"])
def test_given_back_meanwhile_it_is_another_run_and_left_alone(arena: Arena, job_in, ends) -> None:
    made = [job_in(arena.watch, "running") for _ in range(2)]
    gives_back(arena.first, made[0])
    seen = {each.id: ("running", 1) for each in made}
    with ThreadPoolExecutor(1) as pool:
        racing = pool.submit(cancel, arena.second, list(seen), seen=seen, **SIGNED)
        assert arena.waits(racing)
        (arena.first.commit if ends == "committed" else arena.first.rollback)()
        outcomes = racing.result(PATIENCE)
    first = "moved_on" if ends == "committed" else "cancel_requested"
    assert [each.why or each.act for each in outcomes] == [first, "cancel_requested"]


@pytest.mark.parametrize("ends", ["committed", "rolled_back"])
def test_of_two_errands_that_share_jobs_each_job_is_done_by_one(arena: Arena, job_in, ends) -> None:
    made = [job_in(arena.watch, "failed") for _ in range(4)]
    ids = [each.id for each in made]
    seen = dict.fromkeys(ids, ("failed", 1))
    retry(arena.first, ids[:3], seen=seen, **SIGNED)
    with ThreadPoolExecutor(1) as pool:
        racing = pool.submit(retry, arena.second, ids[:0:-1], seen=seen, **SIGNED)
        assert arena.waits(racing)
        (arena.first.commit if ends == "committed" else arena.first.rollback)()
        outcomes = racing.result(PATIENCE)
    shared = "moved_on" if ends == "committed" else "retried"
    assert [each.why or each.act for each in outcomes] == ["retried", shared, shared]
    signed = 0 if ends == "rolled_back" else 1
    assert [len(arena.acts(job)) for job in ids] == [signed, 1, 1, 1]


def test_an_errand_that_may_not_wait_writes_nothing_at_all(arena: Arena, job_in) -> None:
    made = [job_in(arena.watch, "needs_review") for _ in range(3)]
    releases(arena.first, made[2])
    with arena.second.transaction(force_rollback=True):
        arena.second.execute("SET LOCAL lock_timeout = '20ms'")
        with pytest.raises(ContendedError):
            close(arena.second, [each.id for each in made], **SIGNED)
    assert [arena.stands(each.id) for each in made] == ["needs_review"] * 3
    assert [arena.acts(each.id) for each in made] == [[], [], []]
