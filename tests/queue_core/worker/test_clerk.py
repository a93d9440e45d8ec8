"""The clerk: what ended is stored once, whatever else is in the batch or happens meanwhile."""

import queue
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from queue_core import cancel
from queue_core.outcomes import Completed, Deferred, Failed, Stopped, Unreadable
from queue_core.transitions.claim import Claimable, Claimed
from queue_core.worker.books import Key, Returned
from queue_core.worker.claimer import Claimer
from queue_core.worker.clerk import Clerk
from queue_core.worker.link import BUSY, Link
from queue_core.worker.outbox import UNSTORABLE, Outbox
from queue_core.worker.requests import Request
from tests.conftest import Database
from tests.databases import Pool
from tests.queue_core.worker.conftest import Jobs, wait_for
from tests.queue_core.worker.desk import NAMES, Desk

pytestmark = pytest.mark.xdist_group("clerk")  # they share a database, each with its own queue


@pytest.fixture(scope="module")
def database(databases: Pool) -> Iterator[Database]:
    with databases.lend() as made:
        yield made


@pytest.fixture
def desk(database: Database) -> Iterator[Desk]:
    made = Desk(database)
    yield made
    made.clerk.close(lambda _: None, time.monotonic() + 1)
    made.clerk.join(5)
    assert not made.clerk.is_alive()


@pytest.fixture
def claimed(desk: Desk, jobs: Jobs) -> Callable[[int], list[Claimed]]:
    def claim(count: int) -> list[Claimed]:
        for _ in range(count):
            jobs.add("sample.echo", queue=desk.line)
        return desk.claim(count)

    return claim


def take(jobs: Jobs, run: Claimed) -> None:
    """Let another worker have a run's job."""
    row = "UPDATE countersign.running SET attempt = 2, worker = %s WHERE id = %s"
    jobs.conn.execute(row, [uuid4(), run.id])


def test_each_ending_has_its_own_transition(desk, jobs, claimed):
    one, two, three, four, five, six = claimed(6)
    desk.store(
        (one, Completed("7")), (two, Failed("ValueError: x")), (three, Deferred(60)),
        (four, Unreadable("gone")), (five, Returned()),
        (six, Stopped("half")),
    )  # fmt: skip
    desk.stored()
    states = [jobs.facts(run.id).state for run in (one, two, three, four, five, six)]
    assert states == ["completed", "waiting", "waiting", "needs_review", "ready", "ready"]
    assert jobs.result(one.id) == 7


@pytest.mark.parametrize("bad", ["{", '"\\u0000"', '"\ud800"', "[" * 30_000 + "]" * 30_000])
def test_one_ending_that_cannot_be_stored_spoils_no_other(desk, jobs, claimed, bad):
    runs = claimed(4)
    desk.store(*((run, Completed(bad if run is runs[1] else "1")) for run in runs))
    desk.stored()
    assert [jobs.facts(run.id).state for run in runs] == [
        "completed", "failed", "completed", "completed",
    ]  # fmt: skip
    assert jobs.facts(runs[1].id).error == "result could not be stored"


def test_an_ending_that_never_can_be_stored_is_kept_and_holds_up_nobody(
    desk, jobs, claimed, monkeypatch
):
    def refuse(*_: object) -> None:
        raise psycopg.DataError("never")

    monkeypatch.setattr("queue_core.worker.outbox.fail", refuse)
    poisoned, fine = claimed(2)
    desk.store((poisoned, UNSTORABLE), (fine, Completed()))
    jobs.ended(fine.id, "completed")
    wait_for(lambda: desk.clerk.keys() == {Key(poisoned.id, 1)})
    monkeypatch.undo()
    desk.stored()
    assert jobs.facts(poisoned.id).state == "failed"


def test_a_locked_run_is_stored_when_it_is_free_and_holds_up_no_other(
    desk, jobs, claimed, database
):
    runs = claimed(5)
    other = database.connect(autocommit=False)
    cancel(other, [runs[0].id, runs[1].id], by="ops:alice", reason="not_needed")
    desk.store(*((run, Completed()) for run in runs))
    for run in runs[2:]:
        jobs.ended(run.id, "completed", 2)
    wait_for(lambda: desk.clerk.keys() == {Key(run.id, 1) for run in runs[:2]})
    other.commit()
    desk.stored()
    assert jobs.facts(runs[0].id).state == "completed"


SAME_COMMIT = """
SELECT (SELECT xmin FROM countersign.ended WHERE id = %s)
    = (SELECT xmin FROM countersign.running WHERE id = %s) AS same
"""


def test_what_ended_is_stored_in_one_commit_with_the_next_claim(desk, jobs, claimed):
    (run,) = claimed(1)
    following = jobs.add("sample.echo", queue=desk.line)
    (taken,) = desk.claim(1, ended=[(run, Completed())])
    desk.stored()
    assert taken.id == following
    assert jobs.conn.execute(SAME_COMMIT, [run.id, taken.id]).fetchone() == {"same": True}


def test_the_plans_of_claims_are_kept_and_those_of_ends_are_made_anew(
    desk, jobs, claimed, monkeypatch
):
    """Also after a rollback, which takes the settings of its session along."""
    seen: list[tuple[str, str]] = []

    def watch(kind: type, verb: str) -> None:
        real = getattr(kind, verb)

        def watched(self: object, conn: Any, *args: object) -> object:
            (row,) = conn.execute("SHOW plan_cache_mode").fetchall()
            seen.append((verb, row["plan_cache_mode"]))
            return real(self, conn, *args)

        monkeypatch.setattr(kind, verb, watched)

    watch(Claimer, "claim")
    watch(Outbox, "move")
    watch(Outbox, "store")
    (run,) = claimed(1)
    for _ in range(2):
        jobs.add("sample.echo", queue=desk.line)
    (second,) = desk.claim(1, ended=[(run, Completed())])
    (third,) = desk.claim(1, ended=[(second, Completed("{"))])
    desk.store((third, Completed()))
    desk.stored()
    assert set(seen) == {
        ("claim", "force_generic_plan"),
        ("move", "force_custom_plan"),
        ("store", "force_custom_plan"),
    }


def test_a_bad_ending_keeps_neither_the_others_nor_the_next_claim(desk, jobs, claimed):
    runs = claimed(6)
    following = jobs.add("sample.echo", queue=desk.line)
    ended = [(run, Completed("{" if run is runs[2] else "1")) for run in runs]
    assert [run.id for run in desk.claim(1, ended=ended)] == [following]
    desk.stored()
    states = [jobs.facts(run.id).state for run in runs]
    assert states == ["completed"] * 2 + ["failed"] + ["completed"] * 3


def test_a_locked_run_keeps_neither_the_others_nor_the_next_claim(desk, jobs, claimed, database):
    runs = claimed(4)
    following = jobs.add("sample.echo", queue=desk.line)
    other = database.connect(autocommit=False)
    cancel(other, [runs[0].id], by="ops:alice", reason="not_needed")
    taken = desk.claim(1, ended=[(run, Completed()) for run in runs])
    assert [run.id for run in taken] == [following]
    wait_for(lambda: desk.clerk.keys() == {Key(runs[0].id, 1)})
    assert [jobs.facts(run.id).state for run in runs[1:]] == ["completed"] * 3
    other.commit()
    desk.stored()


def test_what_lost_its_claim_is_disputed_beside_a_claim_too(desk, jobs, claimed):
    (run,) = claimed(1)
    take(jobs, run)
    following = jobs.add("sample.echo", queue=desk.line)
    assert [each.id for each in desk.claim(1, ended=[(run, Completed())])] == [following]
    desk.stored()
    assert jobs.facts(run.id).state == "needs_review"


def test_a15_a_run_that_lost_its_claim_is_disputed(desk, jobs, claimed):
    (run,) = claimed(1)
    take(jobs, run)
    desk.store((run, Completed()))
    desk.stored()
    assert jobs.facts(run.id).state == "needs_review"
    assert sorted(jobs.runs(run.id)) == [(1, "late_completed"), (2, "lost")]


def test_a_run_that_never_began_and_lost_its_claim_is_not_disputed(desk, jobs, claimed):
    (run,) = claimed(1)
    take(jobs, run)
    desk.store((run, Returned()))
    desk.stored()
    assert jobs.facts(run.id).state == "running"
    assert jobs.runs(run.id) == []


def test_what_cannot_be_stored_for_other_reasons_is_kept(desk, jobs, claimed, database):
    (run,) = claimed(1)
    owner = database.owner()
    owner.execute("REVOKE INSERT ON countersign.ended FROM countersign_runtime")
    desk.store((run, Completed()))
    time.sleep(0.5)
    assert desk.clerk.keys() == {Key(run.id, 1)}
    owner.execute("GRANT INSERT ON countersign.ended TO countersign_runtime")
    desk.stored()
    assert jobs.facts(run.id).state == "completed"


def test_a_request_is_answered_even_while_the_database_is_away(database, proxy, tmp_path):
    told: queue.SimpleQueue[Any] = queue.SimpleQueue()
    clerk = Clerk(Link(proxy.url, BUSY), uuid4(), told.put, lambda: None)
    proxy.cut()
    clerk.start()
    for _ in range(2):
        clerk.ask([Request(1, NAMES, {}, {})])
        assert told.get(timeout=5).taken == []
    clerk.close(lambda _: None, time.monotonic())
    clerk.join(5)


def test_claims_keep_to_caps_and_take_the_best_first(desk, jobs):
    for queue_name in ("narrow", "narrow", "wide", "wide", "closed"):
        jobs.add("sample.echo", queue=queue_name, priority=5 if queue_name == "narrow" else 0)
    taken = desk.claim(4, queues={"narrow": 2, "wide": None, "none": 1}, used={"narrow": 1})
    assert [run.queue for run in taken] == ["narrow", "wide", "wide"]


def test_a_claim_undone_with_what_it_shared_a_commit_with_is_not_passed_over(
    desk, jobs, claimed, monkeypatch
):
    (run,) = claimed(1)
    first, _ = (jobs.add("sample.echo", queue=desk.line) for _ in range(2))
    honest, tries = desk.clerk.claimer.claim, list[int]()

    def breaks_once(conn: object, request: Request) -> list[Claimed]:
        taken = honest(conn, request)
        tries.append(len(taken))
        if len(tries) == 1:
            raise psycopg.errors.LockNotAvailable
        return taken

    monkeypatch.setattr(desk.clerk.claimer, "claim", breaks_once)
    with desk.clerk._news:
        desk.store((run, Completed()))
        desk.clerk.ask([Request(1, NAMES, {desk.line: None}, {})])
    assert [each.id for each in desk.told.get(timeout=10).taken] == [first]
    assert tries == [1, 1]


def test_limits_of_names_and_caps_of_queues_are_what_is_left_of_them():
    offers = [Claimable("one", limit=1), Claimable("five", limit=5), Claimable("any")]
    request = Request(9, offers, {"a": 2, "b": None, "c": 4}, {"a": 3}, {"one": 1, "any": 7})
    assert request.capacities() == {"one": 0, "five": 5}
    assert request.rooms() == {"a": -1, "c": 4}


def test_the_farewell_is_said_after_everything_is_stored(desk, jobs, claimed):
    (run,) = claimed(1)
    seen: list[str] = []
    desk.store((run, Completed()))
    desk.clerk.close(lambda _: seen.append(jobs.facts(run.id).state), time.monotonic() + 10)
    desk.clerk.join(10)
    assert seen == ["completed"]


def test_a_farewell_that_fails_is_said_again(desk):
    tries: list[int] = []

    def farewell(_: object) -> None:
        tries.append(1)
        if len(tries) < 3:
            raise psycopg.errors.LockNotAvailable

    desk.clerk.close(farewell, time.monotonic() + 10)
    desk.clerk.join(10)
    assert len(tries) == 3


def claimed_of(*names: str) -> list[Claimed]:
    now = datetime.now(UTC)
    return [Claimed(uuid4(), 1, name, "default", "{}", None, 1, "attempts", now) for name in names]


SAFE = Claimable("safe", safe_to_repeat=True)
CAREFUL = Claimable("careful")


def test_only_names_that_are_safe_to_repeat_are_claimed_ahead_and_behind_such_runs_alone():
    request = Request(3, [SAFE, CAREFUL], {}, {}, lead=8)
    more = request.ahead_of(claimed_of("safe", "careful", "safe"))
    assert more
    assert (more.offers, more.free, more.ahead_of(claimed_of(*["safe"] * 14))) == ([SAFE], 14, None)
    assert request.ahead_of(claimed_of("careful", "careful", "careful")) is None


def test_nothing_is_claimed_ahead_while_a_slot_is_free():
    assert Request(2, [SAFE], {}, {}, lead=8).ahead_of(claimed_of("safe")) is None


def test_what_was_just_claimed_counts_as_in_hand():
    request = Request(1, [SAFE], {}, {"default": 2}, {"safe": 1}, lead=8)
    more = request.ahead_of(claimed_of("safe"))
    assert more
    assert (more.used, more.in_hand) == ({"default": 3}, {"safe": 2})


def test_what_is_asked_for_at_once_shares_the_caps_of_queues_and_is_answered_at_once(desk, jobs):
    for name in ("sample.echo", "sample.raise"):
        for _ in range(3):
            jobs.add(name, queue=desk.line)
    asked = [Request(2, [name], {desk.line: 3}, {}) for name in NAMES]
    desk.clerk.ask(asked)
    taken = desk.told.get(timeout=10).taken
    assert [each.name for each in taken] == ["sample.echo", "sample.echo", "sample.raise"]
    assert desk.told.empty()
