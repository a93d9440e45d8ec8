"""Clear: what is queued in a queue is cancelled, each job with its act, a thousand a commit."""

import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from queue_core import cancel, clear_queue, enqueue_many, queue_size, retry
from queue_core.errors import ContendedError, NotACodeError, NoteError, OptionError
from queue_core.jobs import NewJob
from queue_core.queries.acts import acts_of
from queue_core.queries.counts import counts
from queue_core.queries.facts import job
from queue_core.queries.places import locate
from queue_core.transitions import clear
from queue_core.transitions.claim import Claimable, claim
from queue_core.transitions.promote import promote
from tests import full

SIGNED: dict[str, Any] = {"by": "ops:alice", "reason": "printer_gone"}
MAIL = [Claimable("mail.send")]


def fill(conn, queue: str, number: int) -> list[uuid.UUID]:
    jobs = [NewJob("mail.send", queue=queue) for _ in range(number)]
    return [each.id for each in enqueue_many(conn, jobs)]


@pytest.mark.parametrize("place", ["ready", "due", "waiting", "blocked"])
def test_what_is_queued_is_cancelled_and_each_act_is_kept(conn, job_in, place: str) -> None:
    made = job_in(conn, place)

    assert clear_queue(conn, made.queue, **SIGNED, note="no paper", via="cli:a@b") == 1

    facts = job(conn, made.id)
    assert facts
    assert (facts.state, facts.attempt, facts.worker, facts.uncertain) == (
        "cancelled",
        0,
        None,
        False,
    )
    (act,) = acts_of(conn, made.id)
    assert (act.act, act.by, act.reason, act.note, act.via) == (
        "cancelled",
        "ops:alice",
        "printer_gone",
        "no paper",
        "cli:a@b",
    )
    assert (act.subject_name, act.attempt) == ("mail.send", 0)


@pytest.mark.parametrize("place", ["running", "completed", "failed", "cancelled", "needs_review"])
def test_nothing_else_is_touched(conn, job_in, contents, place: str) -> None:
    made = job_in(conn, place)
    before = contents(conn)

    assert clear_queue(conn, made.queue, **SIGNED) == 0

    assert contents(conn) == before


@pytest.mark.parametrize("place", ["ready", "waiting", "blocked"])
@pytest.mark.parametrize("neighbour", ["\x20", "~"])
def test_other_queues_keep_what_they_have(conn, job_in, place: str, neighbour: str) -> None:
    """Whether their names come before or after."""
    mine, others = job_in(conn, place), job_in(conn, place)
    assert clear_queue(conn, f"{others.queue}{neighbour}x", **SIGNED) == 0
    assert clear_queue(conn, mine.queue, **SIGNED) == 1
    assert locate(conn, [others.id])[others.id].state == place


MOVE = {
    "ready": "id, %s, name, rank, run_at, attempt, attempts_allowed",
    "waiting": "id, %s, name, rank, run_at, attempt, attempts_allowed",
    "blocked": "id, %s, name, rank, run_at, attempt, attempts_allowed, serial_key",
}


def job_in_queue(conn, job_in, place: str, queue: str) -> uuid.UUID:
    made = job_in(conn, place)
    conn.execute(
        f"WITH gone AS (DELETE FROM countersign.{place} WHERE id = %s RETURNING *)"
        f" INSERT INTO countersign.{place} SELECT {MOVE[place]} FROM gone",
        [made.id, queue],
    )
    return made.id


def test_jobs_of_all_places_go_at_once_and_share_their_bulk(conn, job_in) -> None:
    jobs = [job_in_queue(conn, job_in, place, "mail") for place in MOVE]

    assert clear_queue(conn, "mail", **SIGNED) == 3

    bulks = {act.bulk_id for each in jobs for act in acts_of(conn, each)}
    assert len(bulks) == 1
    assert None not in bulks
    assert queue_size(conn, "mail") == 0


def test_a_bulk_that_is_given_is_kept_and_one_that_is_not_is_new(conn, registry) -> None:
    bulk = uuid.uuid4()
    for given in (bulk, bulk, None, None):
        fill(conn, "mail", 1)
        clear_queue(conn, "mail", **SIGNED, bulk_id=given)

    kept = conn.execute("SELECT bulk_id FROM countersign.acts ORDER BY id").fetchall()
    bulks = [row["bulk_id"] for row in kept]

    assert bulks[:2] == [bulk, bulk]
    assert len(set(bulks)) == 3


def test_so_many_go_at_most_best_first_and_the_rest_with_the_next_call(conn, registry) -> None:
    jobs = fill(conn, "mail", 7)

    assert clear_queue(conn, "mail", **SIGNED, limit=3) == 3
    left = locate(conn, jobs)
    assert [left[each].state for each in jobs] == ["cancelled"] * 3 + ["ready"] * 4
    assert [clear_queue(conn, "mail", **SIGNED, limit=3) for _ in range(3)] == [3, 1, 0]


def test_a_limit_holds_over_all_places_together(conn, job_in) -> None:
    for place in ("ready", "ready", "waiting", "blocked"):
        job_in_queue(conn, job_in, place, "mail")

    assert [clear_queue(conn, "mail", **SIGNED, limit=limit) for limit in (2, 1)] == [2, 1]
    assert queue_size(conn, "mail") == 1


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"name": ""}, OptionError),
        ({"by": " "}, NotACodeError),
        ({"reason": ""}, NotACodeError),
        ({"note": "n" * 2_001}, NoteError),
        ({"via": ""}, OptionError),
        ({"limit": 0}, OptionError),
        ({"limit": 1_001}, OptionError),
        ({"limit": True}, OptionError),
    ],
)
def test_what_cannot_be_kept_is_refused_before_anything_is_written(
    conn, registry, contents, wrong: dict[str, Any], error: type[Exception]
) -> None:
    fill(conn, "mail", 1)
    before = contents(conn)
    with pytest.raises(error):
        clear_queue(conn, **{"name": "mail", **SIGNED, **wrong})
    assert contents(conn) == before


def test_nothing_is_committed_that_the_caller_did_not_commit(database, registry) -> None:
    caller = database.connect(autocommit=False)
    fill(caller, "mail", 3)
    caller.commit()
    clear_queue(caller, "mail", **SIGNED)
    caller.rollback()

    assert queue_size(database.connect(), "mail") == 3


def test_a_cleared_job_can_be_retried(conn, registry) -> None:
    (made,) = fill(conn, "mail", 1)
    clear_queue(conn, "mail", **SIGNED)
    retry(conn, [made], by="ops:bob", reason="printer_back")
    assert queue_size(conn, "mail") == 1


def test_the_counts_know_of_what_was_cleared(conn, registry) -> None:
    fill(conn, "mail", 3)
    clear_queue(conn, "mail", **SIGNED)
    assert counts(conn).cancelled == 3


# Beside others


def cancels(conn, jobs: list[uuid.UUID]) -> None:
    cancel(conn, jobs[:1], by="ops:bob", reason="customer_asked")


def clears_one(conn, jobs: list[uuid.UUID]) -> None:
    clear_queue(conn, "mail", by="ops:bob", reason="printer_gone", limit=1)


def claims(conn, jobs: list[uuid.UUID]) -> None:
    claim(conn, worker=uuid.uuid4(), names=MAIL, queues=["mail"], count=1)


def second_clears(database, hold: Callable[..., Any], end: str, *, due: bool = False) -> int:
    """Let the first hold a job of three while the second clears; return what the second says."""
    first, second, watch = (
        database.connect(autocommit=False),
        database.connect(),
        database.connect(),
    )
    jobs = fill(watch, "mail", 3)
    if due:
        watch.execute(
            "WITH gone AS (DELETE FROM countersign.ready WHERE id = %s RETURNING ready.*)"
            " INSERT INTO countersign.waiting SELECT gone.* FROM gone",
            [jobs[0]],
        )
    hold(first, jobs)
    said: list[int] = []
    thread = threading.Thread(target=lambda: said.append(clear_queue(second, "mail", **SIGNED)))
    thread.start()
    until = time.monotonic() + 30
    query = "SELECT wait_event_type AS on_what FROM pg_stat_activity WHERE pid = %s"
    while watch.execute(query, [second.info.backend_pid]).fetchone() != {"on_what": "Lock"}:
        assert time.monotonic() < until, "the second does not wait"
    (first.commit if end == "committed" else first.rollback)()
    thread.join(30)
    (number,) = said
    return number


@pytest.mark.parametrize("hold", [cancels, clears_one, claims])
def test_what_another_took_is_left_to_them(database, registry, hold) -> None:
    assert second_clears(database, hold, "committed") == 2
    conn = database.connect()
    states = conn.execute("SELECT state FROM countersign.job_states ORDER BY state").fetchall()
    third = "running" if hold is claims else "cancelled"
    assert [row["state"] for row in states] == ["cancelled", "cancelled", third]
    assert queue_size(conn, "mail") == 0


@pytest.mark.parametrize("hold", [cancels, clears_one, claims])
def test_what_another_gave_back_is_cleared_with_the_rest(database, registry, hold) -> None:
    assert second_clears(database, hold, "rolled back") == 3


def test_a_job_that_moves_within_the_queue_meanwhile_is_found_again(database, registry) -> None:
    assert second_clears(database, lambda conn, _: promote(conn), "committed", due=True) == 3
    assert queue_size(database.connect(), "mail") == 0


def test_a_lock_that_is_not_given_in_time_is_contention_with_nothing_written(
    database, registry
) -> None:
    first, second = database.connect(autocommit=False), database.connect()
    jobs = fill(second, "mail", 3)
    claims(first, jobs)
    second.execute("SET lock_timeout = '20ms'")
    with pytest.raises(ContendedError):
        clear_queue(second, "mail", **SIGNED)
    assert queue_size(second, "mail") == 3


def test_a_stricter_transaction_cannot_clear(database, registry) -> None:
    strict = database.connect(autocommit=False)
    strict.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
    with pytest.raises(ContendedError, match="READ COMMITTED"):
        clear_queue(strict, "mail", **SIGNED)


def test_jobs_that_keep_moving_are_contention_with_nothing_written(
    conn, registry, contents, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(conn, "mail", 3)
    before = contents(conn)
    slippery = clear.CLEAR.replace("AS candidates", "+ 1 AS candidates")
    monkeypatch.setattr(clear, "CLEAR", slippery)
    with pytest.raises(ContendedError, match="kept moving"):
        clear_queue(conn, "mail", **SIGNED)
    assert contents(conn) == before


# At size


def test_a_call_reads_no_more_of_a_long_queue_than_it_takes(new_database) -> None:
    """Though the statistics believe the tables empty, and the call was made on empty ones."""
    owner, conn = new_database.owner(), new_database.connect()
    full.quiet(owner)
    for _ in range(12):
        clear_queue(conn, "ready", **SIGNED)
    for place in full.PLACES:
        full.fill(owner, place)

    for place in full.PLACES:
        with conn.transaction():
            assert clear_queue(conn, place, **SIGNED, limit=20) == 20
            assert full.read(conn) < 200, place
