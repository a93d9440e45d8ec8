"""Cases from the field: data that breaks things."""

import enum
import math
from datetime import datetime
from typing import Any
from uuid import UUID

import psycopg
import pytest

from queue_core import (
    ArgumentsError,
    NewJob,
    OptionError,
    RetryAfter,
    Run,
    cancel,
    enqueue,
    enqueue_many,
    retry,
)
from queue_core.backoff import backoff, jittered
from queue_core.errors import DeclarationError
from queue_core.jobs import decode
from queue_core.outcomes import Completed, Ending, Failed, RunReport, Unreadable
from queue_core.queries.facts import job as facts
from queue_core.queries.jobs import list_jobs
from queue_core.queries.runs import runs_of
from queue_core.transitions.claim import Claimable, claim
from queue_core.transitions.complete import complete
from queue_core.transitions.fail import fail
from queue_core.transitions.set_aside import set_aside
from queue_core.worker.execute import execute
from queue_core.worker.messages import JobMessage
from tests.conftest import CANARY
from tests.moves import state, take

NAMES = [Claimable("mail.send")]


def body_text(conn: Any, job: UUID) -> str:
    query = "SELECT jobs.args::text AS args FROM countersign.jobs WHERE jobs.id = %s"
    (row,) = conn.execute(query, [job]).fetchall()
    return row["args"]


# NUL


@pytest.mark.parametrize(
    ("args", "field"),
    [
        ({"address": "x\0"}, "address"),
        ({"a\0": "x"}, "a\ufffd"),
        ({"address": ["\0"]}, "address"),
        ({"address": {"\0": 1}}, "address"),
    ],
)
def test_case_27_nul_in_arguments_is_refused_clearly_before_the_database(
    conn, registry, contents, args, field
) -> None:
    before = contents(conn)
    with pytest.raises(ArgumentsError) as refused:
        enqueue(conn, "mail.send", args)
    assert refused.value.fields == {field: "holds a NUL character"}
    assert contents(conn) == before


def test_case_27_nul_in_what_a_run_says_is_replaced_and_loses_no_state(conn, job_in) -> None:
    made = job_in(conn, "running")
    failed = Failed("a\0b", error_type="T\0", error_place="m\0:f", traceback="line\0")
    fail(conn, made.worker, [made.report(failed)])
    found, (run,) = facts(conn, made.id), runs_of(conn, made.id)
    assert found
    assert (found.state, found.error) == ("failed", "a\ufffdb")
    assert (run.error_type, run.error_place, run.traceback) == (
        "T\ufffd",
        "m\ufffd:f",
        "line\ufffd",
    )


def test_case_27_nul_in_names_is_refused() -> None:
    with pytest.raises(OptionError):
        NewJob("a\0")
    with pytest.raises(OptionError):
        NewJob("mail.send", queue="q\0")


# Errors that could not be stored


class SilentError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("raised", "error"),
    [
        (Exception("a\0b"), "Exception: a\ufffdb"),
        (Exception("\ud800"), "Exception: \ufffd\ufffd\ufffd"),
        (SilentError(), None),
        (Exception("é" * 5_000), None),
    ],
    ids=["NUL", "surrogate", "no text", "long"],
)
def test_case_28_an_error_of_any_text_fails_its_job(
    conn, registry, make_worker, raised: Exception, error: str | None
) -> None:
    @registry.job("mail.send")
    def send(run: Run) -> None:
        raise raised

    job, worker = enqueue(conn, "mail.send").id, make_worker(conn)
    (run,) = claim(conn, worker=worker, names=NAMES, count=1)
    assert run.args
    ending = execute(JobMessage(run.id, run.name, run.attempt, run.args), registry)
    fail(conn, worker, [RunReport(job, 1, ending)])
    found = facts(conn, job)
    assert found
    assert found.error
    assert found.state == "failed"
    assert error is None or found.error == error


def test_case_28_one_error_of_a_batch_spoils_no_other(conn, registry, make_worker) -> None:
    jobs, worker = enqueue_many(conn, [NewJob("mail.send")] * 4), make_worker(conn)
    take(conn, worker, 4)
    texts = ["\0", "\ud800\udc00", "plain", "\udfff" * 5_000]
    reports = [
        RunReport(each.id, 1, Failed(text, traceback=text))
        for each, text in zip(jobs, texts, strict=True)
    ]
    assert len(fail(conn, worker, reports)) == 4


# NaN and infinity


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e400, -1e400])
def test_case_29_what_json_has_no_word_for_is_refused(conn, registry, value: float) -> None:
    for args in ({"address": value}, {"address": {"deep": [value]}}):
        with pytest.raises(ArgumentsError, match="not a finite number"):
            enqueue(conn, "mail.send", args)


def test_case_29_what_json_has_no_word_for_is_no_result(conn, registry, make_worker) -> None:
    @registry.job("mail.send")
    def send(run: Run) -> float:
        return math.nan

    job, worker = enqueue(conn, "mail.send").id, make_worker(conn)
    (run,) = claim(conn, worker=worker, names=NAMES, count=1)
    ending = execute(JobMessage(run.id, run.name, 1, run.args or ""), registry)
    assert isinstance(ending, Failed)
    fail(conn, worker, [RunReport(job, 1, ending)])
    assert state(conn, job) == "failed"


# Big numbers


POISON = """
WITH body AS (
    INSERT INTO countersign.jobs (id, name, queue, args, priority)
    VALUES (countersign.new_id(), 'mail.send', 'default', %s::jsonb, 0)
    RETURNING jobs.id
)
INSERT INTO countersign.ready (id, queue, name, rank, run_at)
SELECT body.id, 'default', 'mail.send', 0, now() FROM body
RETURNING ready.id
"""


@pytest.mark.parametrize("poison", ['{"address": 1e5000}', "[1]", '"text"', "null", "7"])
def test_case_30_one_body_that_python_cannot_read_breaks_no_batch(
    conn, registry, make_worker, poison: str
) -> None:
    first = enqueue(conn, "mail.send").id
    (row,) = conn.execute(POISON, [poison]).fetchall()
    last = enqueue(conn, "mail.send").id
    worker = make_worker(conn)
    runs = claim(conn, worker=worker, names=NAMES, count=9)
    assert [run.id for run in runs] == [first, row["id"], last]
    unreadable: list[RunReport] = []
    for run in runs:
        try:
            decode(run.args or "")
        except ValueError as error:
            unreadable.append(RunReport(run.id, run.attempt, Unreadable(str(error))))
        else:
            complete(conn, worker, [RunReport(run.id, run.attempt, Completed())])
    set_aside(conn, worker, unreadable)
    assert [state(conn, job) for job in (first, row["id"], last)] == [
        "completed",
        "needs_review",
        "completed",
    ]
    found = facts(conn, row["id"])
    assert found
    assert (found.why, list_jobs(conn, "needs_review").rows[0].id) == ("unreadable", row["id"])


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        (1e308, 1e308),
        (1e23, 1e23),
        (1e16, 1e16),
        (-0.0, 0.0),
        (2**63, 2**63),
        (2**53 + 1, 2**53 + 1),
        ((1, (2, 3)), [1, [2, 3]]),
        (10**4_299, 10**4_299),
    ],
    ids=["1e308", "1e23", "1e16", "minus nought", "2**63", "2**53+1", "tuples", "4,300 digits"],
)
def test_case_30_a_number_comes_back_as_it_went(conn, registry, sent: object, read: object) -> None:
    @registry.job("mail.send")
    def send(run: Run, value: Any) -> None:
        del run, value

    found = decode(body_text(conn, enqueue(conn, "mail.send", {"value": sent}).id))["value"]
    assert (found, type(found)) == (read, type(read))


@pytest.mark.parametrize("args", [{1: "x"}, {"address": {1: "x"}}, {"address": 10**4_301}])
def test_case_30_what_would_come_back_as_something_else_is_refused(
    conn, registry, args: Any
) -> None:
    with pytest.raises(ArgumentsError):
        enqueue(conn, "mail.send", args)


# Arguments and names that changed with a deploy


def test_case_32_a_new_required_field_fails_its_job_by_name_and_the_worker_goes_on(
    conn, registry, make_worker
) -> None:
    old, worker = enqueue(conn, "mail.send", {"address": CANARY}).id, make_worker(conn)

    @registry.job("mail.send")
    def send(run: Run, template: str, address: str) -> None:
        del run, template, address

    new = enqueue(conn, "mail.send", {"address": "a", "template": "b"}).id
    endings: dict[UUID, Ending] = {
        run.id: execute(JobMessage(run.id, run.name, run.attempt, run.args or ""), registry)
        for run in claim(conn, worker=worker, names=NAMES, count=9)
    }
    assert endings[new] == Completed()
    ending = endings[old]
    assert isinstance(ending, Failed)
    assert "template: is missing" in ending.error
    assert CANARY not in ending.error


def test_case_33_a_name_is_never_claimed_by_a_worker_that_lacks_it(
    conn, registry, make_worker
) -> None:
    @registry.job("new.kind")
    def new(run: Run) -> None:
        del run

    job = enqueue(conn, "new.kind", priority=99).id
    other = enqueue(conn, "mail.send").id
    old_code, new_code = make_worker(conn), make_worker(conn)
    assert take(conn, old_code, 9) == [other]
    assert state(conn, job) == "ready"
    names = [Claimable("new.kind"), *NAMES]
    assert [run.id for run in claim(conn, worker=new_code, names=names, count=9)] == [job]


# Sizes


def test_case_35_of_a_five_megabyte_error_head_and_tail_are_kept(conn, job_in) -> None:
    made = job_in(conn, "running")
    text = "first\n" + "é\n" * 1_700_000 + "last"
    fail(conn, made.worker, [made.report(Failed(text, traceback=text))])
    (run,) = runs_of(conn, made.id)
    assert run.error
    assert run.traceback
    assert len(run.error.encode()) <= 1_024
    assert len(run.traceback.encode()) <= 16_384
    assert (run.traceback[:6], run.traceback[-4:]) == ("first\n", "last")
    assert "… cut …" in run.traceback


def test_case_35_an_endless_recursion_can_be_stored(conn, registry, make_worker) -> None:
    @registry.job("mail.send")
    def send(run: Run, depth: int = 0) -> None:
        send(run, depth + 1)

    job, worker = enqueue(conn, "mail.send").id, make_worker(conn)
    (run,) = claim(conn, worker=worker, names=NAMES, count=1)
    ending = execute(JobMessage(run.id, run.name, 1, run.args or ""), registry)
    fail(conn, worker, [RunReport(job, 1, ending)])
    found = facts(conn, job)
    assert found
    assert (found.state, found.error_type) == ("failed", "RecursionError")


# Waits, priorities, durations


@pytest.mark.parametrize("attempt", [1_000, 10**9, 2**63, 0, -5])
def test_case_37_a_wait_is_capped_and_never_nan_or_negative(conn, job_in, attempt: int) -> None:
    wait = jittered(backoff(attempt))
    assert 27 <= wait <= 3_600
    made = job_in(conn, "running", attempts=2)
    (moved,) = fail(conn, made.worker, [made.report(Failed("x"), wait=wait)])
    assert moved.state == "waiting"


def test_case_37_no_delay_is_no_wait(conn, registry) -> None:
    for delay in (None, 0):
        assert state(conn, enqueue(conn, "mail.send", delay=delay).id) == "ready"


class Level(enum.IntEnum):
    HIGH = 7


@pytest.mark.parametrize(
    "priority",
    [2**31, -(2**31), 2**31 + 1, -(2**31) - 1, 32_768, -32_769, None, 1.5, True, False, "1"],
)
def test_case_39_a_priority_outside_its_range_is_refused_and_never_wraps(
    conn, registry, contents, priority: Any
) -> None:
    before = contents(conn)
    with pytest.raises(OptionError, match="priority must be a whole number from -32768 to 32767"):
        enqueue(conn, "mail.send", priority=priority)
    assert contents(conn) == before


@pytest.mark.parametrize("priority", [-32_768, 32_767, 0, Level.HIGH])
def test_case_39_a_priority_within_it_is_kept(conn, registry, priority: int) -> None:
    found = facts(conn, enqueue(conn, "mail.send", priority=priority).id)
    assert found
    assert found.priority == priority


def test_case_39_a_job_of_the_lowest_priority_can_be_given_another_try(conn, registry) -> None:
    job = enqueue(conn, "mail.send", priority=-32_768).id
    cancel(conn, [job], by="ops:alice", reason="asked")
    (outcome,) = retry(conn, [job], by="ops:alice", reason="asked_again")
    assert outcome.applied
    (row,) = conn.execute("SELECT ready.rank FROM countersign.ready").fetchall()
    assert row["rank"] == 32_768


DURATIONS = [math.nan, math.inf, -math.inf, -1, -1e-300, 1e300, 10**400, True, "1"]


@pytest.mark.parametrize("seconds", DURATIONS, ids=lambda seconds: str(seconds)[:10])
def test_case_40_a_duration_that_is_none_is_refused_everywhere(registry, seconds: Any) -> None:
    with pytest.raises(OptionError):
        NewJob("mail.send", delay=seconds)
    with pytest.raises(OptionError):
        NewJob("mail.send", time_limit=seconds)
    with pytest.raises(OptionError):
        Run(UUID(int=1), "mail.send", 1).defer(seconds)
    with pytest.raises(OptionError):
        RetryAfter(seconds)
    with pytest.raises(DeclarationError):
        registry.job("mail.send", time_limit=seconds)(print_nothing)


def print_nothing(run: object) -> None:
    del run


# Times


def test_case_49_a_naive_time_is_refused_in_any_time_zone(conn, registry, monkeypatch) -> None:
    for zone in ("UTC", "Asia/Tokyo"):
        monkeypatch.setenv("TZ", zone)
        with pytest.raises(OptionError, match="time zone"):
            enqueue(conn, "mail.send", run_at=datetime(2026, 1, 1))  # noqa: DTZ001
    assert conn.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
