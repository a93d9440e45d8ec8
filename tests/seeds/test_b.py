"""Of the system with API and worker: arguments, cancel's three ends, typed refusals."""

import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from queue_core import (
    ArgumentsError,
    NewJob,
    TransitionRefusedError,
    cancel,
    close,
    confirm,
    enqueue,
    enqueue_many,
    release,
    retry,
)
from queue_core.outcomes import Completed, Failed, RunReport, Stopped
from queue_core.queries.acts import acts_of
from queue_core.queries.jobs import Cursor, list_jobs
from queue_core.transitions.complete import complete
from queue_core.transitions.fail import fail
from queue_core.transitions.recover import recover
from queue_core.transitions.stop import stop
from tests.conftest import CANARY
from tests.moves import lose, state

ALICE: dict[str, Any] = {"by": "ops:alice", "reason": "customer_asked"}
VERBS = {
    "cancelled": cancel,
    "retried": retry,
    "released": release,
    "confirmed": confirm,
    "closed": close,
}


@pytest.mark.parametrize(
    ("args", "field"),
    [({"adress": CANARY}, "adress"), ({"address": 7}, "address"), ({"address": "\0"}, "address")],
)
def test_b01_arguments_are_checked_for_their_name_before_anything_is_inserted(
    conn, registry, contents, args, field
) -> None:
    before = contents(conn)
    with pytest.raises(ArgumentsError) as refused:
        enqueue(conn, "mail.send", args)
    assert (refused.value.name, list(refused.value.fields)) == ("mail.send", [field])
    assert contents(conn) == before


@pytest.mark.parametrize(
    ("act", "place", "why"),
    [
        ("cancelled", "completed", "wrong_state"),
        ("cancelled", "needs_review", "wrong_state"),
        ("retried", "ready", "wrong_state"),
        ("retried", "completed", "wrong_state"),
        ("retried", "needs_review", "wrong_state"),
        ("released", "failed", "wrong_state"),
        ("released", "running", "wrong_state"),
        ("confirmed", "running", "wrong_state"),
        ("closed", "ready", "wrong_state"),
    ],
)
def test_b04_a_move_from_the_wrong_state_is_an_error_with_job_state_and_act(
    conn, job_in, contents, act, place, why
) -> None:
    made = job_in(conn, place)
    before = contents(conn)
    (outcome,) = VERBS[act](conn, [made.id], **ALICE)
    with pytest.raises(TransitionRefusedError) as refused:
        outcome.raise_if_refused()
    error = refused.value
    assert (error.job_id, error.state, error.why) == (made.id, place, why)
    assert error.act == act
    assert place in str(error)
    assert str(made.id) in str(error)
    assert contents(conn) == before


def test_b06_a_cancel_is_done_now_or_pending_on_the_worker_or_too_late(conn, job_in) -> None:
    now, pending, late = (job_in(conn, place) for place in ("ready", "running", "completed"))
    outcomes = cancel(conn, [now.id, pending.id, late.id, uuid.uuid4()], **ALICE)
    assert [(each.applied, each.act, each.state, each.why) for each in outcomes] == [
        (True, "cancelled", "cancelled", None),
        (True, "cancel_requested", "running", None),
        (False, "cancelled", "completed", "wrong_state"),
        (False, "cancelled", None, "not_found"),
    ]
    with pytest.raises(TransitionRefusedError, match="there is no such job"):
        outcomes[3].raise_if_refused()


def test_b06_a_pending_cancel_is_asked_once(conn, job_in) -> None:
    made = job_in(conn, "running")
    cancel(conn, [made.id], **ALICE)
    (again,) = cancel(conn, [made.id], by="ops:bob", reason="me_too")
    assert (again.applied, again.why, again.state) == (False, "already_asked", "running")
    assert [act.by for act in acts_of(conn, made.id)] == ["ops:alice"]


@pytest.mark.parametrize("ending", ["raised", "returned", "lost"])
def test_b06_a_pending_cancel_holds_however_the_run_ends(conn, job_in, ending: str) -> None:
    made = job_in(conn, "running", attempts=9)
    cancel(conn, [made.id], **ALICE)
    match ending:
        case "raised":
            fail(conn, made.worker, [made.report(Failed("x"), wait=30)])
        case "returned":
            complete(conn, made.worker, [made.report(Completed())])
        case _:
            lose(conn, made.worker)
            recover(conn)
    assert state(conn, made.id) == ("completed" if ending == "returned" else "cancelled")


def test_b07_a_run_that_was_asked_to_stops_and_its_job_is_cancelled(conn, job_in) -> None:
    made = job_in(conn, "running", attempts=9)
    cancel(conn, [made.id], **ALICE)
    (moved,) = stop(conn, made.worker, [made.report(Stopped("half-way"))])
    assert moved.state == state(conn, made.id) == "cancelled"


@pytest.mark.parametrize("place", ["ready", "completed", "failed", "cancelled", "needs_review"])
def test_b07_a_stop_of_a_run_that_has_moved_on_is_harmless(conn, job_in, contents, place) -> None:
    made = job_in(conn, place)
    before = contents(conn)
    report = RunReport(made.id, made.attempt or 1, Stopped("half-way"))
    assert stop(conn, made.worker, [report]) == []
    assert contents(conn) == before


def test_b06_of_a_cancel_and_an_end_at_once_each_is_told_what_came_of_it(
    shared_database, job_in
) -> None:
    for _ in range(10):
        acting, ending = shared_database.connect(), shared_database.connect()
        made = job_in(acting, "running")
        together = threading.Barrier(2)

        def act(conn: Any = acting, job: Any = made, ready: Any = together) -> Any:
            ready.wait()
            return cancel(conn, [job.id], **ALICE)[0]

        def end(conn: Any = ending, job: Any = made, ready: Any = together) -> Any:
            ready.wait()
            return fail(conn, job.worker, [job.report(Failed("x"))])

        with ThreadPoolExecutor(2) as pool:
            outcome, moved = (each.result() for each in (pool.submit(act), pool.submit(end)))
        assert len(moved) == 1
        assert (outcome.act, outcome.why) in {
            ("cancel_requested", None),
            ("cancelled", "wrong_state"),
        }
        assert state(acting, made.id) == ("cancelled" if outcome.applied else "failed")
        assert len(acts_of(acting, made.id)) == int(outcome.applied)


def test_b08_a_list_is_newest_first_by_state_and_name_with_1_to_200_rows(conn, job_in) -> None:
    made = [job_in(conn, "failed").id for _ in range(3)]
    page = list_jobs(conn, "failed", name="mail.send", limit=0)
    assert len(page.rows) == 1
    assert list_jobs(conn, "failed", name="other").rows == []
    rest = list_jobs(conn, "failed", cursor=page.next, limit=10_000).rows
    found = [page.rows[0], *rest]
    assert {row.id for row in found} == {*made}
    keys = [Cursor(row.at, row.id) for row in found]
    assert keys == sorted(keys, key=lambda each: (each.at, each.id), reverse=True)


def test_b08_a_list_has_50_rows_unless_told_and_never_more_than_200(conn, registry) -> None:
    enqueue_many(conn, [NewJob("mail.send")] * 210)
    assert len(list_jobs(conn, "ready").rows) == 50
    sizes = {-5: 1, 0: 1, 1: 1, 120: 120, 200: 200, 201: 200, 10_000: 200}
    assert {limit: len(list_jobs(conn, "ready", limit=limit).rows) for limit in sizes} == sizes


def test_b09_lost_runs_are_found_counted_and_noted(conn, job_in) -> None:
    lost = [job_in(conn, "running") for _ in range(3)]
    alive = job_in(conn, "running")
    for made in lost:
        lose(conn, made.worker)
    assert len(recover(conn)) == 3
    rows = list_jobs(conn, "failed").rows
    assert {row.error for row in rows} == {"abandoned by its worker"}
    assert state(conn, alive.id) == "running"
