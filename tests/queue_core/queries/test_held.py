"""What workers hold, and what lost ones held."""

from uuid import uuid4

import pytest

from queue_core import cancel, enqueue, fleet
from queue_core.queries.held import LostPlace, held_by, lost_by, lost_with
from queue_core.transitions.claim import Claimable, claim
from queue_core.transitions.recover import recover
from tests.conftest import CANARY
from tests.moves import lose, take


def ask(conn, count: int = 1):
    return [enqueue(conn, "mail.send", {"address": CANARY}, queue="q").id for _ in range(count)]


def test_a_worker_without_runs_holds_nothing(conn, make_worker) -> None:
    assert held_by(conn, [make_worker(conn)]) == {}
    assert held_by(conn, []) == {}


def test_runs_come_by_worker_begun_ones_first_and_not_all_of_them(
    conn, registry, make_worker
) -> None:
    first, second = make_worker(conn), make_worker(conn)
    ask(conn, 4)
    mine, (other,) = take(conn, first, 3), take(conn, second)
    fleet.beat(conn, first, [fleet.Started(mine[2], 1, 77, 1.0)])
    cancel(conn, [mine[0]], by="ops:alice", reason="x")
    found = held_by(conn, [first, second], most=2)
    assert {worker: [run.id for run in runs] for worker, runs in found.items()} == {
        first: [mine[2], mine[0]],
        second: [other],
    }
    begun, asked = found[first]
    assert (begun.name, begun.queue, begun.attempt, begun.child_pid) == ("mail.send", "q", 1, 77)
    assert begun.started_at
    assert (asked.started_at, begun.stop_requested_at) == (None, None)
    assert asked.stop_requested_at
    assert (begun.of, found[second][0].of) == (3, 1)
    assert held_by(conn, [second]) == {second: found[second]}


def test_a_tombstone_says_what_was_lost_and_where_it_is_now(conn, registry, make_worker) -> None:
    worker, another = make_worker(conn), make_worker(conn)
    ask(conn, 4)
    held = sorted(take(conn, worker, 2) + take(conn, worker, 1, on_lost="review"))
    take(conn, another)
    fleet.beat(conn, worker, [fleet.Started(held[0], 1, 77, 1.0)])
    lose(conn, worker)
    recover(conn)
    found = lost_with(conn, worker)
    assert [run.id for run in found.runs] == held
    assert {run.id: found.places[run.id].state for run in found.runs} == {
        each: "needs_review" if each == max(held) else "failed" for each in held
    }
    first = found.runs[0]
    assert (first.name, first.queue, first.attempt) == ("mail.send", "q", 1)
    assert first.claimed_at
    assert first.started_at
    assert (found.previous, found.next) == (None, None)
    assert lost_with(conn, another).runs == []


def test_other_ends_of_runs_are_not_what_was_lost(conn, job_in) -> None:
    made = job_in(conn, "failed")
    assert lost_with(conn, made.worker).runs == []


ONE = """
INSERT INTO countersign.runs (job_id, attempt, outcome, worker) VALUES (%s, %s, 'lost', %s)
"""
MANY = """
INSERT INTO countersign.runs (job_id, attempt, outcome, worker)
SELECT countersign.new_id(), 1, 'lost', %s FROM generate_series(1, 201)
"""


def test_of_very_many_lost_runs_each_stands_on_one_page_both_ways(conn, make_worker) -> None:
    worker = make_worker(conn)
    conn.execute(MANY, [worker])
    first = lost_with(conn, worker)
    assert (len(first.runs), first.previous, first.places) == (200, None, {})
    assert {run.name for run in first.runs} == {"unknown"}
    assert first.next
    second = lost_with(conn, worker, place=LostPlace.decode(first.next.encode()))
    assert (len(second.runs), second.next) == (1, None)
    assert second.runs[0].id > first.runs[-1].id
    assert second.previous
    again = lost_with(conn, worker, place=second.previous, direction="previous")
    assert (again.runs, again.previous, again.next) == (first.runs, None, first.next)


def test_pages_of_what_was_lost_begin_and_end_between_attempts_of_one_job(
    conn, make_worker
) -> None:
    worker, job = make_worker(conn), uuid4()
    for attempt in (1, 2, 3):
        conn.execute(ONE, [job, attempt, worker])
    pages = [lost_with(conn, worker, limit=2)]
    while pages[-1].next and len(pages) < 4:
        pages.append(lost_with(conn, worker, place=pages[-1].next, limit=2))
    assert [[run.attempt for run in page.runs] for page in pages] == [[1, 2], [3]]
    back = lost_with(conn, worker, place=pages[-1].previous, direction="previous", limit=1)
    assert [run.attempt for run in back.runs] == [2]
    assert (back.previous, back.next) == (LostPlace(job, 2), LostPlace(job, 2))


@pytest.mark.parametrize(
    "text", ["", "x", "1_1", f"{'0' * 32}_", f"{'0' * 32}_-1", "٣" * 32 + "_1"]
)
def test_what_is_no_place_is_none(text) -> None:
    with pytest.raises(ValueError, match="not a place"):
        LostPlace.decode(text)


def test_what_was_lost_with_each_worker_is_counted_up_to_the_cap_and_one_more(
    conn, job_in, make_worker
) -> None:
    job_in(conn, "failed")
    ready = [job_in(conn, "ready") for _ in range(3)]
    worker, other = make_worker(conn), make_worker(conn)
    queues = [each.queue for each in ready]
    claim(conn, worker=worker, names=[Claimable("mail.send")], queues=queues, count=10)
    fleet.give_up(conn, worker)
    recover(conn)
    assert lost_by(conn, [worker, other]) == {worker: 3, other: 0}
    assert lost_by(conn, [worker], cap=1) == {worker: 2}
    assert lost_by(conn, []) == {}
