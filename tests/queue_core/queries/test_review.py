"""What waits for a person: in which order, what is known of it, and page by page."""

import uuid
from datetime import timedelta
from typing import Any

import pytest

from queue_core import fleet, release
from queue_core.marks import assign, note
from queue_core.outcomes import Failed
from queue_core.queries.review import NOBODY, ReviewPage, Spot, list_review, waiting
from queue_core.transitions.fail import fail
from queue_core.transitions.recover import recover

SIGNED: dict[str, Any] = {"by": "ops:alice", "reason": "on_call"}
KINDS = ("needs_review", "uncertain")
kinds = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture
def lost(job_in):
    """Give a function that loses a running job with its worker, to review or to failed."""

    def lose(conn, kind: str):
        made = job_in(conn, "running", on_lost="review" if kind == "needs_review" else "attempts")
        fleet.give_up(conn, made.worker)
        recover(conn)
        return made

    return lose


@kinds
def test_a_lost_job_is_told_with_what_is_known_of_its_run(conn, lost, kind) -> None:
    made = lost(conn, kind)
    (row,) = list_review(conn, kind).rows
    assert (row.id, row.name, row.queue) == (made.id, "mail.send", made.queue)
    assert (row.attempt, row.why, row.worker, row.has_body) == (1, "lost", made.worker, True)
    assert (row.assignee, row.note, row.started_at, row.signal) == (None, None, None, None)
    assert row.claimed_at
    assert row.error == "abandoned by its worker"
    assert row.error not in repr(row)


def test_a_crash_brings_its_signal_and_its_process(conn, job_in) -> None:
    made = job_in(conn, "running")
    crashed = Failed("crashed: signal 9", outcome="crashed", signal=9)
    fail(conn, made.worker, [made.report(crashed, child_pid=4_180, seconds=2.0)])
    (row,) = list_review(conn, "uncertain").rows
    assert (row.why, row.signal, row.child_pid) == ("crashed", 9, 4_180)
    assert row.started_at


def test_a_failure_that_is_certain_and_a_job_that_is_fine_do_not_wait(conn, job_in) -> None:
    for place in ("failed", "ready", "running", "completed", "cancelled"):
        job_in(conn, place)
    assert [list_review(conn, kind).rows for kind in KINDS] == [[], []]
    assert waiting(conn, cap=10) == waiting(conn, cap=1)
    assert (waiting(conn, cap=10).needs_review, waiting(conn, cap=10).uncertain) == (0, 0)


@kinds
def test_who_took_it_last_and_the_last_note_are_shown_for_the_present_attempt(
    conn, lost, kind
) -> None:
    made = lost(conn, kind)
    for by in ("ops:alice", "ops:bob"):
        assign(conn, made.id, by=by, reason="on_call")
        note(conn, made.id, by=by, reason="checked", note=f"{by} looked.")
    (row,) = list_review(conn, kind).rows
    assert (row.assignee, row.note, row.noted_by) == ("ops:bob", "ops:bob looked.", "ops:bob")
    assert row.assigned_at
    assert row.noted_at
    for text in ("ops:bob", "looked"):
        assert text not in repr(row)


def test_a_job_that_comes_back_at_a_later_attempt_is_nobodys(conn, lost, claim_one) -> None:
    made = lost(conn, "needs_review")
    assign(conn, made.id, **SIGNED)
    note(conn, made.id, **SIGNED, note="Released it.")
    release(conn, [made.id], **SIGNED)
    worker = fleet.register(conn, fleet.Identity("b", 2, "x", "y", "0.1.0", [], 1))
    claim_one(conn, worker, on_lost="review")
    fleet.give_up(conn, worker)
    recover(conn)
    (row,) = list_review(conn, "needs_review").rows
    assert (row.attempt, row.assignee, row.note) == (2, None, None)


TO_REVIEW = """
INSERT INTO countersign.review (id, why, attempt, worker, entered_at)
SELECT countersign.new_id(), 'lost', 1, worker, now() - %(ago)s
FROM unnest(%(workers)s::uuid[]) AS worker
"""
TO_ENDED = """
INSERT INTO countersign.ended (id, state, uncertain, attempt, worker, ended_at)
SELECT countersign.new_id(), 'failed', true, 1, worker, now() - %(ago)s
FROM unnest(%(workers)s::uuid[]) AS worker
"""
PUT = {"needs_review": TO_REVIEW, "uncertain": TO_ENDED}


def put(conn, kind, workers, ago=0) -> None:
    conn.execute(PUT[kind], {"workers": workers, "ago": timedelta(seconds=ago)})


@kinds
def test_the_oldest_come_first_and_those_of_one_moment_by_their_worker(conn, kind) -> None:
    one, two = uuid.UUID(int=1), uuid.UUID(int=2)
    put(conn, kind, [two], 10)
    put(conn, kind, [two, one, None, two, one], 60)
    put(conn, kind, [one], 90)
    found = list_review(conn, kind).rows
    assert [row.worker for row in found] == [one, None, one, one, two, two, two]
    ages = [row.at for row in found]
    assert ages == sorted(ages)


@kinds
@pytest.mark.parametrize("limit", [1, 2, 3, 7])
def test_pages_lead_there_and_back_with_every_row_once(conn, kind, limit) -> None:
    one, two = uuid.uuid4(), uuid.uuid4()
    for ago in (30, 20, 10):
        put(conn, kind, [one, two, None, one, two, two, None], ago)
    everything = list_review(conn, kind, limit=100)
    assert (everything.previous, everything.next) == (None, None)
    there = walk(lambda **at: list_review(conn, kind, limit=limit, **at), "next")
    back = walk(
        lambda **at: list_review(conn, kind, limit=limit, **(at or {"spot": there[-1].next})),
        "previous",
        there[-1],
    )
    wanted = [row.id for row in everything.rows]
    assert len(wanted) == 21
    assert [row.id for page in there for row in page.rows] == wanted
    assert [row.id for page in reversed(back) for row in page.rows] == wanted


def walk(page_at, way: str, begun: ReviewPage | None = None) -> list[ReviewPage]:
    pages = [begun or page_at()]
    while spot := getattr(pages[-1], way):
        pages.append(page_at(spot=spot, direction=way))
    return pages


@kinds
def test_a_job_whose_body_is_gone_is_listed_all_the_same(conn, kind) -> None:
    put(conn, kind, [uuid.uuid4()])
    (row,) = list_review(conn, kind).rows
    assert (row.name, row.queue, row.has_body) == ("unknown", "unknown", False)
    assert row.why == ("lost" if kind == "needs_review" else None)


def test_what_waits_is_counted_up_to_the_cap_and_one_more(conn) -> None:
    put(conn, "needs_review", [None] * 4)
    put(conn, "uncertain", [None] * 2)
    assert (waiting(conn, cap=10).needs_review, waiting(conn, cap=10).uncertain) == (4, 2)
    assert (waiting(conn, cap=1).needs_review, waiting(conn, cap=1).uncertain) == (2, 2)


def test_a_spot_is_read_back_as_it_was_written(conn) -> None:
    put(conn, "needs_review", [None], -(10**9))
    (row,) = list_review(conn, "needs_review").rows
    assert row.spot() == Spot(row.at, NOBODY, row.id)
    assert Spot.decode(row.spot().encode()) == row.spot()


@pytest.mark.parametrize(
    "text", ["", "x", "1_2_3", f"{'9' * 18}_{'0' * 32}_{'0' * 32}", f"1_{'0' * 32}", "1_٣_٣"]
)
def test_what_is_no_spot_is_refused(text) -> None:
    with pytest.raises(ValueError, match="not a spot"):
        Spot.decode(text)
