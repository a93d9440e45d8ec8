"""Retention: what is past its age goes with all that is its own, and nothing else ever does."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest

from queue_core import cancel, check, enqueue, migrate, release, retention, retry
from queue_core.check import tallies
from queue_core.outcomes import Completed, RunReport
from queue_core.queries.acts import acts_of
from queue_core.queries.counts import counts
from queue_core.retention import Keep, drop_weeks, may_drop, trim
from queue_core.transitions.claim import Claimable, claim
from queue_core.transitions.complete import complete
from tests.conftest import CANARY, Database

SIGNED: dict[str, Any] = {"by": "ops:alice", "reason": "seen_in_test"}
KEEP = Keep()
MAKE_WEEK = """
SELECT format('CREATE TABLE countersign.%%I PARTITION OF countersign.%%I
    FOR VALUES FROM (%%L) TO (%%L)', part.name, parent, countersign.lowest_id(week),
    countersign.lowest_id(week + interval '168 hours')) AS statement
FROM date_trunc('week', %(at)s::timestamptz, 'UTC') AS week
CROSS JOIN unnest(ARRAY['jobs', 'ended']) AS parent
CROSS JOIN LATERAL (
    SELECT parent || to_char(week AT TIME ZONE 'UTC', '_IYYY"w"IW') AS name
) AS part
WHERE to_regclass('countersign.' || part.name) IS NULL
"""
PUT_JOB = """
INSERT INTO countersign.jobs (id, name, queue, args, priority, created_at)
SELECT (substr(countersign.lowest_id(%(at)s)::text, 1, 14) || '7'
    || substr(gen_random_uuid()::text, 16))::uuid, 'mail.send', 'q', %(args)s::jsonb, 0, %(at)s
RETURNING id
"""
PUT_ENDED = """
INSERT INTO countersign.ended (id, state, uncertain, attempt, started_at, ended_at)
VALUES (%(id)s, %(state)s, %(uncertain)s, 1, %(ended_at)s, %(ended_at)s)
"""
PUT_RUN = """
INSERT INTO countersign.runs (job_id, attempt, outcome) VALUES (%s, 1, 'failed')
"""
PUT_READY = """
INSERT INTO countersign.ready (id, queue, name, rank, run_at)
VALUES (%s, 'q', 'mail.send', 0, now())
"""
PUT_REVIEW = """
INSERT INTO countersign.review (id, why, attempt) VALUES (%s, 'lost', 1)
"""
NOW = datetime.now(UTC)
LAST_WEEKS = NOW - timedelta(days=60)
"""In a week that is over for long; jobs of it can still be live, or have ended just now."""


@dataclass
class Past:
    """Makes jobs of long ago, as the owner of a database."""

    conn: psycopg.Connection[Any]

    def job(self, at: datetime = LAST_WEEKS) -> UUID:
        """Make the body of a job that was enqueued then, and the tables of its week."""
        for row in self.conn.execute(MAKE_WEEK, {"at": at}).fetchall():
            self.conn.execute(row["statement"].encode())
        put = self.conn.execute(PUT_JOB, {"at": at, "args": f'{{"address": "{CANARY}"}}'})
        return put.fetchall()[0]["id"]

    def ended(
        self,
        state: str = "completed",
        days: float = 60,
        *,
        at: datetime = LAST_WEEKS,
        uncertain: bool = False,
    ) -> UUID:
        """Make a job that ended so many days ago, with a run of its own."""
        job = self.job(at)
        ended_at = datetime.now(UTC) - timedelta(days=days)
        facts = {"id": job, "state": state, "uncertain": uncertain, "ended_at": ended_at}
        self.conn.execute(PUT_ENDED, facts)
        self.conn.execute(PUT_RUN, [job])
        self.conn.execute("SELECT countersign.recount()")
        return job

    def ready(self, at: datetime = LAST_WEEKS) -> UUID:
        job = self.job(at)
        self.conn.execute(PUT_READY, [job])
        return job

    def in_review(self, at: datetime = LAST_WEEKS) -> UUID:
        job = self.job(at)
        self.conn.execute(PUT_REVIEW, [job])
        return job

    def ids(self, table: str, column: str = "id") -> set[UUID]:
        found = self.conn.execute(f"SELECT {column} AS id FROM countersign.{table}".encode())
        return {row["id"] for row in found.fetchall()}

    def tables(self) -> set[str]:
        """Return the partitions of weeks before last week."""
        found = self.conn.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = 'countersign'::regnamespace"
            " AND relkind = 'r' AND relname ~ '^(jobs|ended)_2'"
            " AND right(relname, 7) < to_char(now() - interval '14 days', 'IYYY\"w\"IW')"
        )
        return {row["relname"] for row in found.fetchall()}

    def is_sound(self) -> None:
        found = check.check(self.conn, full=True)
        # A body that somebody edited is test_check's to notice; here it would hide what it does.
        assert [each for each in found if each.code != "migration.edited"] == []
        assert tallies.problems(self.conn) == []


@pytest.fixture
def past(database: Database) -> Past:
    return Past(database.owner())


@pytest.fixture
def patient(database: Database) -> psycopg.Connection[Any]:
    """Give a connection of the owner's that waits for nobody for long, as a worker's."""
    conn = database.owner()
    conn.execute("SET lock_timeout = '200ms'")
    return conn


# By the end ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "days", "goes"),
    [
        ("completed", 6.9, False),
        ("completed", 7.1, True),
        ("cancelled", 6.9, False),
        ("cancelled", 7.1, True),
        ("failed", 7.1, False),
        ("failed", 29.9, False),
        ("failed", 30.1, True),
    ],
)
def test_a_job_goes_so_long_after_its_end_with_its_body_and_its_runs(
    past: Past, state, days, goes
) -> None:
    job = past.ended(state, days)
    assert trim(past.conn, KEEP) == int(goes)
    left = set() if goes else {job}
    assert past.ids("ended") == past.ids("jobs") == past.ids("runs", "job_id") == left
    assert getattr(counts(past.conn), state) == len(left)
    past.is_sound()


@pytest.mark.parametrize("at", [LAST_WEEKS, NOW - timedelta(days=700), NOW - timedelta(minutes=1)])
def test_when_it_was_enqueued_does_not_matter(past: Past, at: datetime) -> None:
    kept, gone = past.ended(days=1, at=at), past.ended(days=9, at=at)
    trim(past.conn, KEEP)
    drop_weeks(past.conn, KEEP)
    assert past.ids("jobs") == past.ids("ended") == {kept} != {gone}


@pytest.mark.parametrize("state", ["completed", "failed", "cancelled"])
def test_what_may_have_run_in_part_is_kept_for_ever(past: Past, state) -> None:
    job = past.ended(state, 5_000, uncertain=True)
    trim(past.conn, KEEP)
    assert drop_weeks(past.conn, KEEP) == []
    assert past.ids("ended") == past.ids("jobs") == past.ids("runs", "job_id") == {job}


def test_the_instant_counts_on_the_databases_clock(past: Past) -> None:
    job = past.job()
    with past.conn.transaction(force_rollback=True):
        query = (
            "INSERT INTO countersign.ended (id, state, attempt, ended_at)"
            " SELECT %s, 'completed', 1, now() - make_interval(days => 7) - %s * interval '1 us'"
        )
        past.conn.execute(query, [job, 0])
        assert trim(past.conn, KEEP) == 0
        past.conn.execute("DELETE FROM countersign.ended")
        past.conn.execute(query, [job, 1])
        assert trim(past.conn, KEEP) == 1


def test_the_days_are_as_one_says(past: Past) -> None:
    jobs = [past.ended("completed", 3), past.ended("failed", 3), past.ended("cancelled", 1.5)]
    assert trim(past.conn, Keep(days=2, failed_days=4)) == 1
    assert past.ids("jobs") == set(jobs[1:])


def test_nothing_can_be_told_to_go_within_a_day(past: Past) -> None:
    past.ended(days=2)
    query = "SELECT countersign.trim('completed', make_interval(hours => %s), '-infinity', 9)"
    for hours in (23, 0, -24, None):
        with pytest.raises(psycopg.errors.RaiseException, match="a day at least"):
            past.conn.execute(query, [hours])


def test_acts_stay_when_their_job_goes(past: Past, registry) -> None:
    job = past.ended("cancelled", 0.5)
    retry(past.conn, [job], **SIGNED)
    cancel(past.conn, [job], **SIGNED)
    past.conn.execute("UPDATE countersign.ended SET ended_at = ended_at - interval '9 days'")
    assert trim(past.conn, KEEP) == 1
    drop_weeks(past.conn, KEEP)
    assert past.tables() == set()
    assert [act.act for act in acts_of(past.conn, job)] == ["retried", "cancelled"]
    past.is_sound()


def test_more_than_a_batch_goes_and_what_is_left_goes_next_time(past: Past, monkeypatch) -> None:
    monkeypatch.setattr(retention, "BATCH", 3)
    for _ in range(11):
        past.ended()
    assert trim(past.conn, KEEP, batches=2) == 6
    past.is_sound()
    assert trim(past.conn, KEEP) == 5
    assert trim(past.conn, KEEP) == 0


# What is kept -------------------------------------------------------------------------------------


def test_jobs_that_waited_or_were_in_review_for_long_keep_their_arguments(
    past: Past, make_worker, registry
) -> None:
    waits, reviewed, other = past.ready(), past.in_review(), past.ended()
    trim(past.conn, KEEP)
    assert drop_weeks(past.conn, KEEP) == []
    assert past.ids("jobs") == {waits, reviewed} != {other}
    release(past.conn, [reviewed], **SIGNED)
    worker = make_worker(past.conn)
    runs = claim(past.conn, worker=worker, names=[Claimable("mail.send")], count=9)
    assert {run.id for run in runs} == {waits, reviewed}
    assert all(CANARY in (run.args or "") for run in runs)
    # Their week has a place for their end still.
    complete(past.conn, worker, [RunReport(run.id, run.attempt, Completed()) for run in runs])
    assert trim(past.conn, KEEP) == 0
    assert past.ids("ended") == past.ids("jobs") == {waits, reviewed}
    past.is_sound()


@pytest.mark.parametrize("place", ["ready", "waiting", "blocked", "running", "review"])
def test_a_week_stays_while_one_of_its_jobs_is_live(past: Past, place) -> None:
    job = past.job()
    columns = {
        "running": "attempt, worker, queue, name, rank, run_at, attempts_allowed, on_lost)"
        " VALUES (%s, 1, gen_random_uuid(), 'q', 'n', 0, now(), 1, 'attempts')",
        "review": "why, attempt) VALUES (%s, 'lost', 1)",
        "blocked": "queue, name, rank, run_at, serial_key) VALUES (%s, 'q', 'n', 0, now(), 'k')",
    }.get(place, "queue, name, rank, run_at) VALUES (%s, 'q', 'n', 0, now())")
    past.conn.execute(f"INSERT INTO countersign.{place} (id, {columns}".encode(), [job])
    past.conn.execute("DELETE FROM countersign.jobs")  # even one whose body was lost
    assert drop_weeks(past.conn, KEEP) == []
    assert len(past.tables()) == 2


def test_a_body_that_stands_nowhere_is_no_rubbish(past: Past) -> None:
    past.ended()
    lost = past.job()
    assert drop_weeks(past.conn, KEEP) == []
    trim(past.conn, KEEP)
    assert drop_weeks(past.conn, KEEP) == []
    assert past.ids("jobs") == {lost}
    assert {each.code for each in check.check(past.conn, full=True)} == {"job.no_place"}


def test_a_job_whose_clock_says_2040_lives_in_the_week_of_the_database(
    database: Database, past: Past, registry
) -> None:
    client = database.connect()
    client.execute("SET TIME ZONE 'Pacific/Kiritimati'")
    far = datetime(2040, 1, 1, tzinfo=UTC)
    job = enqueue(client, "mail.send", {"address": CANARY}, run_at=far).id
    query = "SELECT abs(extract(epoch FROM now() - countersign.made_at(%s))) < 60 AS is_now"
    assert client.execute(query, [job]).fetchall() == [{"is_now": True}]
    trim(past.conn, KEEP)
    drop_weeks(past.conn, KEEP)
    assert past.ids("jobs") == past.ids("waiting") == {job}


# Weeks --------------------------------------------------------------------------------------------


def test_a_week_of_which_nothing_is_kept_goes_with_its_tables_and_is_counted_off(
    past: Past,
) -> None:
    for state in ("completed", "failed", "cancelled", "completed"):
        past.ended(state)
    fresh = past.ended(days=1, at=NOW - timedelta(minutes=1))
    assert counts(past.conn).completed == 3
    assert len(drop_weeks(past.conn, KEEP)) == 2
    assert past.tables() == set()
    assert past.ids("jobs") == past.ids("ended") == past.ids("runs", "job_id") == {fresh}
    found = counts(past.conn)
    assert (found.completed, found.failed, found.cancelled) == (1, 0, 0)
    past.is_sound()


def test_one_job_past_no_age_keeps_the_week_and_the_others_are_trimmed(past: Past) -> None:
    kept = past.ended("failed", 20)
    past.ended("completed", 20)
    assert drop_weeks(past.conn, KEEP) == []
    assert trim(past.conn, KEEP) == 1
    assert past.ids("jobs") == {kept}
    past.conn.execute("UPDATE countersign.ended SET ended_at = ended_at - interval '11 days'")
    assert len(drop_weeks(past.conn, KEEP)) == 2
    past.is_sound()


def test_the_first_and_the_last_id_of_a_week_are_that_weeks(past: Past) -> None:
    monday = LAST_WEEKS - timedelta(days=LAST_WEEKS.weekday())
    first = monday.replace(hour=0, minute=0, second=0, microsecond=0)
    end = first + timedelta(days=7)
    jobs = [past.ended(at=first), past.ended(at=end - timedelta(milliseconds=1))]
    live = [past.ready(first - timedelta(milliseconds=1)), past.ready(end)]
    assert len(drop_weeks(past.conn, KEEP)) == 2
    assert past.ids("jobs") == set(live) != set(jobs)
    assert len(past.tables()) == 4


def test_this_weeks_and_last_weeks_tables_stay_however_empty(past: Past) -> None:
    before = past.ids("jobs", "tableoid")
    query = "SELECT count(*) AS n FROM pg_inherits"
    (held,) = past.conn.execute(query).fetchall()
    assert drop_weeks(past.conn, KEEP) == []
    assert past.conn.execute(query).fetchall() == [held]
    assert before == set()


def test_empty_weeks_of_long_ago_go_though_more_is_kept(past: Past) -> None:
    past.job()
    past.conn.execute("DELETE FROM countersign.jobs")
    assert len(drop_weeks(past.conn, Keep(days=3_000, failed_days=3_000))) == 2


def test_ninety_days_without_worker_or_console_lose_nothing(
    past: Past, make_worker, registry
) -> None:
    """Services alone: their jobs find a partition each week, and none of them is taken away."""
    migrate.make_partitions(past.conn)
    ahead = [past.conn.execute(MAKE_WEEK, {"at": NOW + timedelta(days=days)}).fetchall()
             for days in range(91)]  # fmt: skip
    assert ahead == [[]] * 91
    jobs = {past.ready(NOW - timedelta(days=days)) for days in range(0, 90, 5)}
    old = past.ended(at=NOW - timedelta(days=91))
    trim(past.conn, KEEP)
    drop_weeks(past.conn, KEEP)
    assert past.ids("jobs") == jobs != {old}
    runs = claim(past.conn, worker=make_worker(past.conn), names=[Claimable("mail.send")], count=99)
    assert {run.id for run in runs if CANARY in (run.args or "")} == jobs
    past.is_sound()


# With others --------------------------------------------------------------------------------------


def test_a_locked_job_is_passed_over_and_goes_next_time(past: Past, database: Database) -> None:
    job, other = past.ended("failed"), past.ended("failed")
    operator = database.connect(autocommit=False)
    retry(operator, [job], **SIGNED)
    assert trim(past.conn, KEEP) == 1
    operator.rollback()
    assert past.ids("ended") == {job} != {other}
    assert trim(past.conn, KEEP) == 1


def test_a_trim_of_many_keeps_nobody_waiting(
    past: Past, database: Database, make_worker, registry
) -> None:
    for _ in range(30):
        past.ended("failed")
    fresh = past.ended("failed", 1)
    holding = database.owner(autocommit=False)
    assert trim(holding, KEEP) == 30
    other = database.connect()
    other.execute("SET lock_timeout = '1ms'")
    job = enqueue(other, "mail.send").id
    worker = make_worker(other)
    (run,) = claim(other, worker=worker, names=[Claimable("mail.send")], count=1)
    complete(other, worker, [RunReport(run.id, 1, Completed())])
    assert [each.applied for each in retry(other, [fresh], **SIGNED)] == [True]
    assert (run.id, counts(other).failed) == (job, 30)
    holding.commit()
    assert counts(other).failed == 0
    past.is_sound()


def test_of_two_that_trim_at_once_each_job_goes_with_one(past: Past, database: Database) -> None:
    for _ in range(40):
        past.ended()
    conns = [database.owner() for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(lambda conn: trim(conn, KEEP), conns)) == 40
    assert counts(past.conn).completed == 0
    past.is_sound()


def test_while_another_drops_weeks_nothing_is_done(past: Past, database: Database) -> None:
    past.ended()
    other = database.owner()
    other.execute("SELECT pg_advisory_lock(%s)", [retention.LOCK_KEY])
    assert drop_weeks(past.conn, KEEP) == []
    other.execute("SELECT pg_advisory_unlock(%s)", [retention.LOCK_KEY])
    assert len(drop_weeks(past.conn, KEEP)) == 2
    assert len(drop_weeks(database.owner(), KEEP)) == 0


def test_a_job_that_is_being_retried_keeps_its_week(
    past: Past, patient, database: Database
) -> None:
    job = past.ended("failed")
    operator = database.connect(autocommit=False)
    retry(operator, [job], **SIGNED)
    assert drop_weeks(patient, KEEP) == []
    operator.commit()
    assert drop_weeks(patient, KEEP) == []
    assert past.ids("jobs") == past.ids("ready") == {job}
    past.is_sound()


def test_a_job_retried_at_the_last_moment_keeps_its_week(
    past: Past, database: Database, monkeypatch
) -> None:
    job = past.ended("failed")
    really, operator = retention._run, database.connect()

    def run(conn, statement, *names):
        if statement == retention.LOCK and past.ids("ready") == set():
            retry(operator, [job], **SIGNED)
        return really(conn, statement, *names)

    monkeypatch.setattr(retention, "_run", run)
    assert drop_weeks(database.owner(), KEEP) == []
    assert past.ids("jobs") == past.ids("ready") == {job}
    past.is_sound()


def test_a_reader_keeps_a_week_until_it_is_done(past: Past, patient, database: Database) -> None:
    past.ended()
    reader = database.connect(autocommit=False)
    reader.execute("SELECT FROM countersign.ended").fetchall()
    assert drop_weeks(patient, KEEP) == []
    assert counts(past.conn).completed == 1
    past.is_sound()
    reader.commit()
    assert len(drop_weeks(patient, KEEP)) == 2
    past.is_sound()


def test_a_look_at_all_of_history_sees_each_week_whole_or_not_at_all(
    past: Past, patient, database: Database, monkeypatch
) -> None:
    past.ended()
    really = check.migrations.problems

    def problems(conn):
        """Come between the snapshot and the first look at jobs."""
        assert drop_weeks(patient, KEEP) == []
        return really(conn)

    with monkeypatch.context() as patch:
        patch.setattr(check.migrations, "problems", problems)
        assert check.check(past.conn, full=True) == []
    assert len(drop_weeks(patient, KEEP)) == 2


def test_a_detach_cut_off_half_way_is_finished_by_the_next_run(
    past: Past, patient, database: Database
) -> None:
    past.job()
    past.conn.execute("DELETE FROM countersign.jobs")
    reader = database.connect(autocommit=False)
    reader.execute("SELECT FROM countersign.jobs").fetchall()
    assert drop_weeks(patient, KEEP) == []
    pending = "SELECT count(*) AS n FROM pg_inherits WHERE inhdetachpending"
    assert past.conn.execute(pending).fetchall() == [{"n": 1}]
    # The reader keeps the one table that it reads, and nothing else.
    assert [name[:5] for name in drop_weeks(patient, KEEP)] == ["ended"]
    past.conn.execute("SELECT countersign.make_partitions(20)")  # nobody else minds
    reader.commit()
    assert [name[:4] for name in drop_weeks(patient, KEEP)] == ["jobs"]
    assert past.conn.execute(pending).fetchall() == [{"n": 0}]
    assert past.tables() == set()


def test_a_table_that_a_person_detached_is_left_alone(past: Past) -> None:
    past.ended()
    (jobs, _) = sorted(past.tables(), reverse=True)
    assert jobs.startswith("jobs")
    past.conn.execute(f"ALTER TABLE countersign.jobs DETACH PARTITION countersign.{jobs}".encode())
    drop_weeks(past.conn, KEEP)
    assert past.tables() == {jobs}


@dataclass
class Killed(Exception):  # noqa: N818
    """Whoever dropped weeks is gone."""


@pytest.mark.parametrize("after", range(14))
def test_killed_between_any_two_steps_nothing_is_lost_and_the_next_run_goes_on(
    past: Past, database: Database, monkeypatch, after: int
) -> None:
    for state in ("completed", "failed"):
        past.ended(state)
    kept = past.ended("failed", 3, at=LAST_WEEKS - timedelta(days=7))
    really, steps = retention._run, iter(range(100))

    def run(conn, statement, *names):
        if next(steps) == after:
            conn.close()
            raise Killed
        return really(conn, statement, *names)

    monkeypatch.setattr(retention, "_run", run)
    try:
        drop_weeks(database.owner(), KEEP)
    except Killed:
        past.is_sound()
        assert counts(past.conn).failed in {1, 2}
    monkeypatch.undo()
    drop_weeks(past.conn, KEEP)
    assert len(past.tables()) == 2
    assert past.ids("jobs") == past.ids("ended") == past.ids("runs", "job_id") == {kept}
    assert (counts(past.conn).completed, counts(past.conn).failed) == (0, 1)
    past.is_sound()


# Who may ------------------------------------------------------------------------------------------


def test_a_service_may_trim_and_not_drop(past: Past, database: Database) -> None:
    past.ended()
    service = database.connect()
    assert (may_drop(service), may_drop(past.conn)) == (False, True)
    assert trim(service, KEEP) == 1
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        drop_weeks(service, KEEP)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        service.execute("DELETE FROM countersign.jobs")
    past.is_sound()
