"""The queue with acts and review: rows A of the behaviours to have."""

import logging
import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from queue_core import (
    ArgumentsError,
    Client,
    NewJob,
    NotACodeError,
    OptionError,
    Registry,
    SchemaError,
    archive_schedules,
    cancel,
    check,
    enqueue,
    enqueue_many,
    fleet,
    list_schedules,
    migrate,
    release,
    retry,
    tick_schedules,
)
from queue_core.backoff import backoff, jittered
from queue_core.errors import DeclarationError
from queue_core.outcomes import Completed, Failed, RunReport
from queue_core.queries.acts import acts_of
from queue_core.queries.counts import counts
from queue_core.queries.facts import job as facts
from queue_core.queries.migrations import differences
from queue_core.queries.places import locate
from queue_core.queries.runs import runs_of
from queue_core.registry import find
from queue_core.retention import Keep, trim
from queue_core.rules import Schedule
from queue_core.transitions.claim import Claimable, claim
from queue_core.transitions.complete import complete
from queue_core.transitions.dispute import dispute
from queue_core.transitions.fail import fail
from queue_core.transitions.promote import promote
from queue_core.transitions.recover import recover
from queue_core.worker import WorkerOptions, run_one
from tests.conftest import CANARY, Database
from tests.moves import lose, state, take
from tests.queue_core.worker import sample
from tests.timetable import begin, due_in, finish, pass_time
from tests.timetable import row as schedule_row

ALICE: dict[str, Any] = {"by": "ops:alice", "reason": "customer_asked"}
HOUR = timedelta(hours=1)


def print_nothing(run: object) -> None:
    del run


# Claim


def test_a01_the_highest_priority_goes_first_then_the_oldest_then_the_id(
    conn, registry, make_worker
) -> None:
    now = datetime.now(UTC)
    jobs = enqueue_many(
        conn,
        [
            NewJob("mail.send", priority=0, run_at=now - HOUR),
            NewJob("mail.send", priority=5, run_at=now - HOUR),
            NewJob("mail.send", priority=5, run_at=now - HOUR),
            NewJob("mail.send", priority=5, run_at=now - 2 * HOUR),
            NewJob("mail.send", priority=-5, run_at=now - 9 * HOUR),
            NewJob("mail.send", priority=9, delay=60),
        ],
    )
    low, first, second, oldest, last, _ = (each.id for each in jobs)
    assert take(conn, make_worker(conn), 9) == [oldest, first, second, low, last]


def test_a01_a_retried_job_joins_the_end_of_its_priority(
    conn, registry, job_in, make_worker
) -> None:
    made = job_in(conn, "failed")
    now = datetime.now(UTC)
    same = enqueue(conn, "mail.send", queue=made.queue, run_at=now - HOUR).id
    lower = enqueue(conn, "mail.send", queue=made.queue, priority=-1, run_at=now - HOUR).id
    retry(conn, [made.id], **ALICE)
    assert take(conn, make_worker(conn), 9) == [same, made.id, lower]


def test_a01_only_names_that_the_worker_handles_and_no_row_that_another_holds(
    shared_database, registry, make_worker
) -> None:
    registry.job("other.name")(print_nothing)
    first, second = (shared_database.connect(autocommit=False) for _ in range(2))
    queue = uuid.uuid4().hex
    mine = [each.id for each in enqueue_many(first, [NewJob("mail.send", queue=queue)] * 4)]
    other = enqueue(first, "other.name", queue=queue, priority=99).id
    workers = [make_worker(first), make_worker(first)]
    first.commit()
    how: dict[str, Any] = {"names": [Claimable("mail.send")], "queues": [queue]}
    one = claim(first, worker=workers[0], count=2, **how)
    two = claim(second, worker=workers[1], count=9, **how)
    assert [each.id for each in (*one, *two)] == mine
    assert state(second, other) == state(first, other) == "ready"
    first.rollback()
    second.rollback()


# Handlers


def test_a02_registering_a_name_again_replaces_its_handler(conn, registry) -> None:
    @registry.job("mail.send", queue="new")
    def send(run: object, number: int) -> None:
        del run, number

    assert find("mail.send").function is send
    job = enqueue(conn, send, {"number": 1}).id
    found = facts(conn, job)
    assert found
    assert (found.name, found.queue) == ("mail.send", "new")
    with pytest.raises(ArgumentsError):
        enqueue(conn, "mail.send", {"address": "a"})


# Enqueue


def test_a06_ids_come_in_the_order_given_and_all_or_none(conn, registry) -> None:
    jobs = [NewJob("mail.send", priority=n, attempts=1 + n) for n in range(50)]
    made = [each.id for each in enqueue_many(conn, jobs)]
    assert made == sorted(made)
    assert [found.priority for job in made if (found := facts(conn, job))] == [*range(50)]
    with pytest.raises(ArgumentsError):
        enqueue_many(conn, [*jobs, NewJob("mail.send", {"address": float("nan")})])
    assert counts(conn).ready == 50


def test_a06_a_job_may_have_its_own_limit_of_tries(conn, registry, make_worker) -> None:
    own, default = enqueue(conn, "mail.send", attempts=3).id, enqueue(conn, "mail.send").id
    take(conn, make_worker(conn), 2, attempts=7)
    found = [facts(conn, own), facts(conn, default)]
    assert [each.attempts_allowed for each in found if each] == [3, 7]


def test_a06_on_the_callers_transaction_or_on_its_own(shared_database, registry) -> None:
    callers, other = shared_database.connect(autocommit=False), shared_database.connect()
    with Client(shared_database.url) as client:
        mine, own = enqueue(callers, "mail.send").id, client.enqueue("mail.send").id
    callers.rollback()
    assert locate(other, [mine, own]).keys() == {own}


# Options


def test_a07_priority_delay_time_limit_and_attempts_are_the_jobs_own(
    conn, registry, make_worker
) -> None:
    job = enqueue(conn, "mail.send", priority=-32_768, time_limit=30).id
    (run,) = claim(conn, worker=make_worker(conn), names=[Claimable("mail.send")], count=1)
    assert (run.id, run.time_limit) == (job, 30)
    later = facts(conn, enqueue(conn, "mail.send", delay=90, priority=32_767).id)
    assert later
    assert later.run_at == later.created_at + timedelta(seconds=90)
    fixed = datetime(2100, 1, 1, tzinfo=UTC)
    at = facts(conn, enqueue(conn, "mail.send", run_at=fixed).id)
    assert at
    assert at.run_at == fixed
    for wrong in ({"priority": 32_768}, {"priority": -32_769}, {"attempts": 0}, {"delay": -1}):
        with pytest.raises(OptionError):
            NewJob("mail.send", **wrong)  # pyright: ignore[reportArgumentType]


def test_a07_what_is_unset_is_the_default_in_force_when_the_job_runs(
    conn, registry, make_worker
) -> None:
    job = enqueue(conn, "mail.send").id
    names = [Claimable("mail.send", attempts=4, time_limit=12.0)]
    (run,) = claim(conn, worker=make_worker(conn), names=names, count=1)
    assert (run.id, run.attempts_allowed, run.time_limit) == (job, 4, 12.0)
    enqueue(conn, "mail.send")
    (plain,) = claim(conn, worker=make_worker(conn), names=[Claimable("mail.send")], count=1)
    assert (plain.attempts_allowed, plain.time_limit) == (1, None)


def test_a07_a_job_is_shown_without_its_arguments() -> None:
    assert CANARY not in repr(NewJob("mail.send", {"address": CANARY}))


# Cancel


@pytest.mark.parametrize("place", ["ready", "waiting", "blocked", "due"])
def test_a08_a_queued_job_becomes_cancelled_with_its_act(conn, job_in, place: str) -> None:
    made = job_in(conn, place)
    (outcome,) = cancel(conn, [made.id], **ALICE)
    assert (outcome.applied, outcome.act, outcome.state) == (True, "cancelled", "cancelled")
    assert state(conn, made.id) == "cancelled"
    assert [act.id for act in acts_of(conn, made.id)] == [outcome.act_id]


@pytest.mark.parametrize("place", ["completed", "failed", "cancelled", "needs_review"])
def test_a08_a_cancel_that_does_not_apply_says_so_and_changes_nothing(
    conn, job_in, contents, place
) -> None:
    made = job_in(conn, place)
    before = contents(conn)
    (outcome,) = cancel(conn, [made.id], **ALICE)
    assert (outcome.applied, outcome.why, outcome.state) == (False, "wrong_state", place)
    assert contents(conn) == before


# Retry and release


@pytest.mark.parametrize(
    ("place", "act", "verb"), [("failed", "retried", retry), ("needs_review", "released", release)]
)
def test_a09_a_job_is_given_exactly_one_more_try_due_now(conn, job_in, place, act, verb) -> None:
    made = job_in(conn, place)
    error = facts(conn, made.id)
    (outcome,) = verb(conn, [made.id], **ALICE)
    assert (outcome.act, outcome.state, outcome.attempt) == (act, "ready", 1)
    again = facts(conn, made.id)
    assert error
    assert again
    assert (again.attempt, again.attempts_allowed, again.error) == (1, 2, error.error)
    (now,) = conn.execute("SELECT now() AS at").fetchall()
    assert again.run_at == now["at"]
    names = [Claimable("mail.send", attempts=9)]
    (run,) = claim(conn, worker=made.worker, names=names, count=1)
    assert (run.attempt, run.attempts_allowed) == (2, 2)
    fail(conn, made.worker, [RunReport(made.id, 2, Failed("again"))])
    last = facts(conn, made.id)
    assert last
    assert (last.state, last.error) == ("failed", "again")


# Codes


@pytest.mark.parametrize("verb", [cancel, retry, release])
@pytest.mark.parametrize("what", ["by", "reason"])
@pytest.mark.parametrize("text", ["", "x" * 201, "two\nlines", "a\ttab", "a\x7f"])
def test_a10_by_and_reason_are_checked_before_anything_is_written(
    conn, registry, contents, verb, what, text
) -> None:
    job = enqueue(conn, "mail.send").id
    before = contents(conn)
    with pytest.raises(NotACodeError) as refused:
        verb(conn, [job], **{**ALICE, what: text})
    assert refused.value.what == what
    assert not text or text not in str(refused.value)
    assert contents(conn) == before


@pytest.mark.parametrize("text", ["x", "é" * 200])
def test_a10_codes_of_1_to_200_characters_are_kept(conn, registry, text: str) -> None:
    job = enqueue(conn, "mail.send").id
    cancel(conn, [job], by=text, reason=text)
    (act,) = acts_of(conn, job)
    assert (act.by, act.reason) == (text, text)


# The ledger

UPSERT = """
INSERT INTO countersign.acts (id, at, by, act, subject_kind, subject_name, reason, via, xid)
VALUES (1, now(), 'a', 'added', 'operator', 'b', 'c', 'd', '0')
ON CONFLICT (id) DO UPDATE SET reason = 'other'
"""
MERGE = """
MERGE INTO countersign.acts USING (SELECT 1) AS one ON true WHEN MATCHED THEN DELETE
"""
REWRITES = [
    "UPDATE countersign.acts SET reason = 'other'",
    "UPDATE countersign.acts SET id = id WHERE false",
    "DELETE FROM countersign.acts",
    "TRUNCATE countersign.acts",
    "TRUNCATE countersign.acts CASCADE",
    UPSERT,
    MERGE,
]


@pytest.mark.parametrize("replication", ["origin", "replica", "local"])
def test_a11_nobody_rewrites_an_act_not_even_under_replication(
    database, registry, replication: str
) -> None:
    conn, owner = database.connect(), database.owner()
    job = enqueue(conn, "mail.send").id
    cancel(conn, [job], **ALICE)
    before = acts_of(conn, job)
    owner.execute("SELECT set_config('session_replication_role', %s, false)", [replication])
    for role in ("RESET ROLE", "SET ROLE countersign_owner"):
        owner.execute(role)
        for statement in REWRITES:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                owner.execute(statement)
    assert acts_of(conn, job) == before


def test_a11_an_act_keeps_name_and_attempt_as_they_were_and_outlives_its_job(
    database, job_in
) -> None:
    conn = database.connect()
    made = job_in(conn, "failed")
    retry(conn, [made.id], **ALICE)
    for table in ("ready", "jobs", "runs"):
        column = "job_id" if table == "runs" else "id"
        query = f"DELETE FROM countersign.{table} WHERE {column} = %s"
        database.owner().execute(query.encode(), [made.id])
    (act,) = acts_of(conn, made.id)
    assert (act.act, act.subject_name, act.attempt) == ("retried", "mail.send", 1)
    assert facts(conn, made.id) is None


# Attempts and backoff


def test_a12_one_attempt_unless_the_author_allowed_more(conn, registry, make_worker) -> None:
    job, worker = enqueue(conn, "mail.send").id, make_worker(conn)
    take(conn, worker)
    fail(conn, worker, [RunReport(job, 1, Failed("x"), wait=30)])
    assert state(conn, job) == "failed"


def test_a12_each_wait_is_twice_the_last_up_to_an_hour(conn, registry, make_worker) -> None:
    assert [backoff(n) for n in (1, 2, 3, 7, 8, 9, 10**9)] == [
        30,
        60,
        120,
        1_920,
        3_600,
        3_600,
        3_600,
    ]
    job, worker = enqueue(conn, "mail.send", attempts=3).id, make_worker(conn)
    take(conn, worker)
    wait = jittered(backoff(1))
    fail(conn, worker, [RunReport(job, 1, Failed("x"), wait=wait)])
    found = facts(conn, job)
    (now,) = conn.execute("SELECT now() AS at").fetchall()
    assert found
    assert found.run_at
    assert (found.state, found.attempt) == ("waiting", 1)
    assert timedelta(seconds=27) <= found.run_at - now["at"] <= timedelta(seconds=33)


# Failures


@pytest.mark.parametrize("character", ["x", "é", "€", "👍"])
def test_a13_the_text_of_an_error_is_cut_at_1024_bytes_between_characters(
    conn, job_in, character
) -> None:
    made = job_in(conn, "running")
    fail(conn, made.worker, [made.report(Failed("!" + character * 1_024))])
    found = facts(conn, made.id)
    assert found
    assert found.error
    assert 1_020 < len(found.error.encode()) <= 1_024
    assert found.error == "!" + character * (len(found.error) - 1)
    assert runs_of(conn, made.id)[0].error == found.error


def test_a13_a_failure_is_its_jobs_alone(conn, registry, make_worker) -> None:
    jobs, worker = enqueue_many(conn, [NewJob("mail.send")] * 3), make_worker(conn)
    take(conn, worker, 3)
    first, second, third = (each.id for each in jobs)
    fail(conn, worker, [RunReport(second, 1, Failed("crashed: signal 11", "crashed", signal=11))])
    complete(conn, worker, [RunReport(job, 1, Completed()) for job in (first, third)])
    assert [state(conn, job) for job in (first, second, third)] == [
        "completed",
        "failed",
        "completed",
    ]


# Lost workers


def test_a14_with_attempts_left_a_lost_job_is_ready_again_in_its_old_place(
    conn, registry, make_worker
) -> None:
    run_at = datetime.now(UTC) - HOUR
    job = enqueue(conn, "mail.send", attempts=2, run_at=run_at, priority=3).id
    worker = make_worker(conn)
    take(conn, worker)
    lose(conn, worker)
    assert [(moved.id, moved.state) for moved in recover(conn)] == [(job, "ready")]
    found = facts(conn, job)
    assert found
    assert (found.run_at, found.attempt, found.attempts_allowed) == (run_at, 1, 2)
    enqueue(conn, "mail.send", priority=3)
    assert take(conn, make_worker(conn), 1) == [job]


def test_a14_a_lost_job_keeps_its_last_error(conn, registry, make_worker) -> None:
    job, worker = enqueue(conn, "mail.send", attempts=3).id, make_worker(conn)
    take(conn, worker)
    fail(conn, worker, [RunReport(job, 1, Failed("no such address"))])
    promote(conn)
    take(conn, worker)
    lose(conn, worker)
    recover(conn)
    assert state(conn, job) == "ready"
    assert [run.error for run in runs_of(conn, job)] == [
        "no such address",
        "abandoned by its worker",
    ]


def test_a14_without_attempts_left_a_lost_job_failed_abandoned(conn, registry, make_worker) -> None:
    job, worker = enqueue(conn, "mail.send").id, make_worker(conn)
    take(conn, worker)
    lose(conn, worker)
    recover(conn)
    found = facts(conn, job)
    assert found
    assert (found.state, found.error, found.uncertain) == (
        "failed",
        "abandoned by its worker",
        True,
    )


def test_a14_a_crash_never_loops_for_ever(conn, registry, make_worker) -> None:
    job = enqueue(conn, "mail.send", attempts=5).id
    runs = 0
    while state(conn, job) == "ready":
        worker = make_worker(conn)
        take(conn, worker)
        lose(conn, worker)
        recover(conn)
        runs += 1
    assert (runs, state(conn, job)) == (5, "failed")


def test_a14_a_worker_that_beats_is_not_lost_however_long_its_run(
    conn, registry, make_worker
) -> None:
    job, worker = enqueue(conn, "mail.send", attempts=2).id, make_worker(conn)
    take(conn, worker)
    conn.execute("UPDATE countersign.running SET claimed_at = now() - interval '90 days'")
    fleet.beat(conn, worker)
    assert fleet.bury_stale(conn, make_worker(conn), 1) == []
    assert recover(conn) == []
    assert state(conn, job) == "running"


# The fence


def test_a15_a_run_given_up_on_cannot_write_over_its_replacement(
    conn, registry, make_worker
) -> None:
    job, first, second = (
        enqueue(conn, "mail.send", attempts=2).id,
        make_worker(conn),
        make_worker(conn),
    )
    take(conn, first)
    lose(conn, first)
    recover(conn)
    take(conn, second)
    before = facts(conn, job)
    late = RunReport(job, 1, Completed('"late"'))
    assert complete(conn, first, [late]) == []
    assert fail(conn, first, [RunReport(job, 1, Failed("late"))]) == []
    assert fail(conn, second, [RunReport(job, 1, Failed("late"))]) == []
    assert complete(conn, first, [RunReport(job, 2, Completed('"late"'))]) == []
    assert facts(conn, job) == before
    assert complete(conn, second, [RunReport(job, 2, Completed())])
    assert state(conn, job) == "completed"


# Disputes


@pytest.mark.parametrize("place", ["ready", "waiting", "running", "failed"])
def test_a16_a_run_that_reports_after_it_was_given_up_on_sends_its_job_to_review(
    conn, registry, make_worker, place: str
) -> None:
    job = enqueue(conn, "mail.send", attempts=1 if place == "failed" else 3).id
    first, second = make_worker(conn), make_worker(conn)
    take(conn, first)
    lose(conn, first)
    recover(conn)
    if place in {"waiting", "running"}:
        take(conn, second)
    if place == "waiting":
        fail(conn, second, [RunReport(job, 2, Failed("x"), wait=30)])
    assert state(conn, job) == place
    assert [moved.id for moved in dispute(conn, first, [RunReport(job, 1, Completed())])] == [job]
    found = facts(conn, job)
    assert found
    assert (found.state, found.why) == ("needs_review", "disputed")
    outcomes = {(run.attempt, run.outcome) for run in runs_of(conn, job)}
    assert {(1, "lost"), (1, "late_completed")} <= outcomes
    assert ((2, "lost") in outcomes) == (place == "running")
    assert complete(conn, second, [RunReport(job, 2, Completed())]) == []


@pytest.mark.parametrize("place", ["completed", "cancelled", "needs_review"])
def test_a16_what_is_settled_or_in_review_is_left_alone(conn, job_in, place: str) -> None:
    made = job_in(conn, place)
    before = facts(conn, made.id)
    assert dispute(conn, uuid.uuid4(), [RunReport(made.id, 9, Failed("x"))]) == []
    found = facts(conn, made.id)
    assert before
    assert found
    assert (found.state, found.attempt, found.why) == (before.state, before.attempt, before.why)


# Time limits


def test_a17_a_run_past_its_limit_failed_saying_after_how_long(conn, registry, make_worker) -> None:
    job, worker = enqueue(conn, "mail.send", time_limit=0.5, attempts=2).id, make_worker(conn)
    names = [Claimable("mail.send", time_limit=99)]
    (run,) = claim(conn, worker=worker, names=names, count=1)
    assert run.time_limit == 0.5
    fail(conn, worker, [RunReport(job, 1, Failed("timed out after 0.5s", "timed_out"), wait=30)])
    (told,) = runs_of(conn, job)
    assert (told.outcome, told.error) == ("timed_out", "timed out after 0.5s")
    assert state(conn, job) == "waiting"


# Counts


def test_a18_every_state_is_counted_with_the_age_of_the_oldest_ready(conn, job_in) -> None:
    assert counts(conn).oldest_ready_seconds == 0
    for place in ("ready", "due", "waiting", "running", "completed", "failed", "cancelled"):
        job_in(conn, place)
    job_in(conn, "needs_review")
    enqueue(conn, "mail.send", run_at=datetime.now(UTC) - HOUR)
    found = counts(conn)
    assert (found.ready, found.waiting, found.running, found.completed) == (3, 1, 1, 1)
    assert (found.failed, found.cancelled, found.needs_review) == (1, 1, 1)
    assert 3_500 < found.oldest_ready_seconds < 3_700


# Facts


def test_a19_a_jobs_facts_are_told_without_arguments_and_its_acts_oldest_first(
    conn, job_in
) -> None:
    made = job_in(conn, "failed")
    retry(conn, [made.id], **ALICE)
    cancel(conn, [made.id], by="ops:bob", reason="changed_mind")
    found = facts(conn, made.id)
    assert found
    assert not hasattr(found, "args")
    assert CANARY not in repr(found)
    assert [(act.act, act.by) for act in acts_of(conn, made.id)] == [
        ("retried", "ops:alice"),
        ("cancelled", "ops:bob"),
    ]
    assert facts(conn, uuid.uuid4()) is None


# Retention


def test_a20_what_ended_goes_after_its_days_and_what_a_person_must_see_stays(
    database, job_in
) -> None:
    owner = database.owner()
    made = {place: job_in(owner, place) for place in ("completed", "failed", "cancelled")}
    uncertain, reviewed = job_in(owner, "failed"), job_in(owner, "needs_review")
    owner.execute("UPDATE countersign.ended SET uncertain = id = %s", [uncertain.id])

    def left_after(days: int) -> set[uuid.UUID]:
        age = "UPDATE countersign.ended SET ended_at = now() - make_interval(days => %s, mins => 1)"
        owner.execute(age, [days])
        trim(owner, Keep())
        rows = owner.execute("SELECT id FROM countersign.jobs").fetchall()
        return {row["id"] for row in rows}

    kept = {uncertain.id, reviewed.id}
    assert left_after(6) == kept | {each.id for each in made.values()}
    assert left_after(7) == kept | {made["failed"].id}
    assert left_after(29) == kept | {made["failed"].id}
    assert left_after(30) == left_after(3_000) == kept
    assert len(acts_of(owner, made["cancelled"].id)) == 1


# Set up, and checked


def test_a21_set_up_at_boot_or_by_the_printed_script_and_only_checked(migrated, database) -> None:
    conn = database.owner()
    assert migrate.migrate(conn) == []
    check.require_sound(conn)
    conn.execute("DROP SCHEMA countersign CASCADE")
    with pytest.raises(SchemaError, match="no schema"):
        check.require_sound(conn)
    conn.execute(migrate.as_sql().encode())
    assert differences(conn) == []
    check.require_sound(conn)


ACTS = "ALTER TABLE countersign.acts"


@pytest.mark.parametrize(
    ("break_it", "said", "mend"),
    [
        (f"{ACTS} DISABLE TRIGGER acts_refuse_row", "acts_refuse_row", "ENABLE ALWAYS TRIGGER"),
        (f"{ACTS} ENABLE TRIGGER acts_refuse_row", "acts_refuse_row", "ENABLE ALWAYS TRIGGER"),
        ("DROP TRIGGER acts_stamp ON countersign.acts", "acts_stamp", "migrate --sql"),
        ("DROP TABLE countersign.waiting CASCADE", "waiting", "migrate --sql"),
        ("ALTER TABLE countersign.running DROP COLUMN on_lost", "on_lost", "migrate --sql"),
    ],
)
def test_a22_nothing_boots_on_a_broken_schema_and_says_how_to_mend_it(
    database, break_it, said, mend
) -> None:
    conn = database.connect()
    check.require_sound(conn)
    database.owner().execute(break_it)
    with pytest.raises(SchemaError, match=said) as refused:
        check.require_sound(conn)
    assert mend in str(refused.value)


# One job


def test_a23_one_job_is_run_and_it_is_told_whether_there_was_one(database: Database) -> None:
    assert "sample.safe" in sample.jobs.handled()
    conn = database.connect()
    job = enqueue(conn, "sample.safe").id
    options = WorkerOptions(url=database.url, jobs=sample.__name__)
    assert run_one(options)
    assert locate(conn, [job])[job].state == "completed"
    assert not run_one(options)


# Personal data


def test_a26_arguments_stand_in_one_column_and_nowhere_else(conn, job_in, contents) -> None:
    made = [job_in(conn, place) for place in ("failed", "needs_review", "ready", "completed")]
    retry(conn, [made[0].id], note="as agreed", **ALICE)
    release(conn, [made[1].id], **ALICE)
    cancel(conn, [made[2].id], **ALICE)
    holding = {
        table for table, rows in contents(conn).items() if any(CANARY in row for row in rows)
    }
    assert holding == {"jobs"}


def test_a26_nothing_logs_who_and_why(conn, job_in, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    made = job_in(conn, "ready")
    for verb in (cancel, cancel, retry, release):
        verb(conn, [made.id], by="ops:zebra", reason="reason-zebra", note="note-zebra")
    with pytest.raises(NotACodeError):
        cancel(conn, [made.id], by="ops:zebra\n", reason="reason-zebra")
    assert "zebra" not in caplog.text


def test_a26_a_jobs_registry_and_runs_show_no_arguments(
    conn, registry: Registry, make_worker
) -> None:
    enqueue(conn, "mail.send", {"address": CANARY})
    (run,) = claim(conn, worker=make_worker(conn), names=[Claimable("mail.send")], count=1)
    assert run.args
    assert CANARY in run.args
    assert CANARY not in f"{run!r} {registry.handlers!r}"


# Schedules


def nightly(registry: Registry, name: str = "nightly", **every: Any) -> tuple[Schedule, ...]:
    every = every or {"hours": 24}
    registry.every(name, **every, job=NewJob("mail.send", {"address": CANARY}))
    return registry.schedules


def test_a04_a_schedule_is_due_at_once_or_at_its_first_time(conn, registry) -> None:
    (now,) = conn.execute("SELECT now() AS now").fetchall()
    first_at = now["now"] + HOUR
    nightly(registry)
    registry.every("later", hours=24, first_at=first_at, job=NewJob("mail.send"))
    assert tick_schedules(conn, registry.schedules) == 1
    assert {each.name: each.due_at - now["now"] for each in list_schedules(conn)} == {
        "nightly": 24 * HOUR, "later": HOUR
    }  # fmt: skip


def test_a04_times_are_whole_intervals_from_the_first_also_after_missed_ones(
    conn, registry, make_worker
) -> None:
    schedules = nightly(registry, seconds=1.5)
    tick_schedules(conn, schedules)
    first = schedule_row(conn).due_at
    for late in (1.5, 2.0, 1_000.0, 3.25):
        finish(conn, make_worker(conn))
        pass_time(conn, seconds=late)
        first -= timedelta(seconds=late)
        assert tick_schedules(conn, schedules) == 1
        due = schedule_row(conn).due_at
        assert (due - first) % timedelta(seconds=1.5) == timedelta(0)
        assert 0 < due_in(conn) <= 1.5


def test_a04_missed_times_run_once(conn, registry, make_worker) -> None:
    schedules = nightly(registry)
    tick_schedules(conn, schedules)
    finish(conn, make_worker(conn))
    pass_time(conn, days=30)
    assert [tick_schedules(conn, schedules) for _ in range(3)] == [1, 0, 0]


@pytest.mark.parametrize(
    ("place", "enqueues"),
    [("ready", 0), ("waiting", 0), ("running", 0), ("needs_review", 1), ("failed", 1)],
)
def test_a04_a_time_is_passed_while_the_last_job_is_queued_or_running(
    conn, registry, make_worker, place, enqueues
) -> None:
    schedules = nightly(registry)
    tick_schedules(conn, schedules)
    if place == "running":
        begin(conn, make_worker(conn))
    elif place != "ready":
        finish(conn, make_worker(conn), place)
    pass_time(conn, hours=25)
    assert tick_schedules(conn, schedules) == enqueues
    assert due_in(conn) == 23 * 3_600


def test_a04_each_due_time_is_queued_once_over_any_number_of_processes(database, registry) -> None:
    schedules = nightly(registry)
    replicas = [database.connect() for _ in range(4)]
    for _ in range(3):
        assert sum(tick_schedules(conn, schedules) for conn in replicas) == 1
        replicas[0].execute("DELETE FROM countersign.ready")
        pass_time(replicas[0], days=1)


def test_a04_a_failed_tick_leaves_the_time_due(database, registry) -> None:
    schedules = nightly(registry)
    owner, conn = database.owner(), database.connect()
    owner.execute("REVOKE INSERT ON countersign.ready FROM countersign_runtime")
    with pytest.raises(psycopg.Error) as raised:
        tick_schedules(conn, schedules)
    assert CANARY not in str(raised.value)
    owner.execute("GRANT INSERT ON countersign.ready TO countersign_runtime")
    assert tick_schedules(conn, schedules) == 1


@pytest.mark.parametrize(
    "declared",
    [{"name": ""}, {"name": "x" * 201}, {"seconds": 0.9}, {"name": "taken"}],
    ids=str,
)
def test_a04_what_cannot_be_a_schedule_is_refused_before_anything_starts(
    registry, declared
) -> None:
    nightly(registry, "taken")
    options = {"name": "x", "seconds": 1, "job": NewJob("mail.send")} | declared
    with pytest.raises(DeclarationError):
        registry.every(**options)


def test_a04_a_delay_on_the_job_is_ignored(conn, registry) -> None:
    registry.every("nightly", hours=24, job=NewJob("mail.send", delay=3_600))
    tick_schedules(conn, registry.schedules)
    assert schedule_row(conn).last_state == "ready"


def test_a05_a_schedule_that_no_code_has_is_archived_and_restored_with_its_due_time(
    conn, registry
) -> None:
    schedules = nightly(registry)
    tick_schedules(conn, schedules)
    pass_time(conn, minutes=60)
    assert archive_schedules(conn, []) == 0
    pass_time(conn, seconds=1)
    assert archive_schedules(conn, []) == 1
    archived = schedule_row(conn)
    assert archived.archived_at
    assert tick_schedules(conn, schedules) == 0
    restored = schedule_row(conn)
    assert (restored.archived_at, restored.due_at) == (None, archived.due_at)


def test_a05_that_a_schedule_is_in_code_is_written_at_most_once_a_minute(conn, registry) -> None:
    schedules = nightly(registry)
    tick_schedules(conn, schedules)
    seen = schedule_row(conn).seen_at
    pass_time(conn, seconds=60)
    tick_schedules(conn, schedules)
    assert schedule_row(conn).seen_at == seen - timedelta(seconds=60)
    pass_time(conn, seconds=1)
    tick_schedules(conn, schedules)
    assert schedule_row(conn).seen_at == seen


def test_a05_a_changed_interval_counts_from_the_present_due_time(conn, registry) -> None:
    (schedule,) = nightly(registry)
    tick_schedules(conn, [schedule])
    pass_time(conn, hours=6)
    tick_schedules(conn, [replace(schedule, every=7_200.0)])
    assert due_in(conn) == 18 * 3_600
    conn.execute("DELETE FROM countersign.ready")
    pass_time(conn, hours=18)
    tick_schedules(conn, [replace(schedule, every=7_200.0)])
    assert due_in(conn) == 7_200


def test_a05_schedules_are_listed_with_their_last_jobs_state_and_error(
    conn, registry, make_worker
) -> None:
    tick_schedules(conn, nightly(registry))
    job = finish(conn, make_worker(conn), "failed")
    (found,) = list_schedules(conn)
    assert (found.last_job, found.last_state) == (job, "failed")
    assert found.last_error == "ValueError: no such address"
    assert CANARY not in repr(found)
