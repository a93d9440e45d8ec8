"""The book-keeper itself: sound books pass, and each kind of fault is found and named."""

import os
from typing import Any

import psycopg
import pytest
from psycopg.rows import DictRow, dict_row

from queue_core import NewJob, cancel, retry, tick_schedules
from queue_core.outcomes import Completed, Failed, RunReport
from queue_core.transitions.claim import Claimable, claim
from queue_core.transitions.complete import complete
from queue_core.transitions.dispute import dispute
from queue_core.transitions.fail import fail
from queue_core.transitions.give_back import give_back
from queue_core.transitions.recover import recover
from tests.chaos import handlers
from tests.chaos.handlers import SAW

NAMES = [Claimable("chaos.plain", 3)]
SIGNED: dict[str, Any] = {"by": "ops:alice", "reason": "seen_in_test"}


class Line:
    """A database with one worker, whose runs are done by hand."""

    def __init__(self, conn, books, make_worker):
        self.conn, self.books = conn, books
        self.worker = make_worker(self.conn)
        self.witness = psycopg.connect(books.witness, autocommit=True)

    def ask(self):
        return self.books.ask(self.conn, NewJob("chaos.plain"))[0]

    def run(self, *, seen="done"):
        """Begin one run, as the handler saw it, and return its report if it completes."""
        (run,) = claim(self.conn, worker=self.worker, names=NAMES, count=1)
        if seen:
            self.see(run.id, run.attempt, seen)
        return RunReport(run.id, run.attempt, Completed(), 0.1, os.getpid())

    def see(self, job, attempt, what="done", pid=1):
        self.witness.execute(SAW, [job, attempt, pid, what])

    def completed(self, *, seen="done"):
        report = self.run(seen=seen)
        assert complete(self.conn, self.worker, [report])
        return report.id

    def faults(self):
        return self.books.faults(self.conn)

    def fault(self):
        """Return the one fault there is."""
        (fault,) = self.faults()
        return fault


@pytest.fixture
def make_line(books, make_worker):
    lines = []

    def make(conn):
        lines.append(Line(conn, books, make_worker))
        return lines[-1]

    yield make
    for line in lines:
        line.witness.close()


@pytest.fixture
def line(migrated, make_line):
    """Give a line whose database may be forged as its owner can, and forgets it all."""
    with psycopg.Connection[DictRow].connect(migrated.owner_url, row_factory=dict_row) as conn:
        yield make_line(conn)
        conn.rollback()


def test_books_that_agree_have_no_fault(database, make_line):
    line = make_line(database.connect())
    line.ask()
    line.completed()
    failed = line.ask()
    report = line.run()
    fail(line.conn, line.worker, [RunReport(report.id, 1, Failed("no", retryable=False))])
    line.ask()
    late = line.run(seen="begun")
    line.conn.execute("UPDATE countersign.workers SET lost_at = now(), lost_rule = 'stale'")
    assert recover(line.conn)
    dispute(line.conn, line.worker, [late])
    returned = line.ask()
    line.conn.execute("UPDATE countersign.workers SET lost_at = NULL, lost_rule = NULL")
    given = line.run(seen=None)
    give_back(line.conn, line.worker, [(given.id, 1)])
    line.books.sign(retry(line.conn, [failed], **SIGNED))
    line.books.sign(cancel(line.conn, [failed, returned], **SIGNED))
    assert len(line.books.signed) == 3
    assert line.faults() == []
    told = {"runs": 4, "seen": 3, "completed": 1, "failed": 1, "lost": 1, "returned": 1}
    assert line.books.balance(line.conn) == told
    line.books.prove(line.conn)


def test_a_missing_job_is_found(line):
    job = line.ask()
    for table in ("ready", "jobs"):
        line.conn.execute(f"DELETE FROM countersign.{table} WHERE id = %s", [job])
    assert line.fault() == f"job {job} was asked for and is missing"


def test_a_job_that_nobody_asked_for_is_found(line):
    job = line.ask()
    del line.books.asked[job]
    assert line.fault() == f"nobody asked for job {job} (chaos.plain)"


def test_a_job_whose_asking_was_not_answered_may_exist_and_only_once(line):
    first, second = line.ask(), line.ask()
    ticket = line.books.asked.pop(first)
    line.books.doubtful |= {ticket, "another, never made"}
    assert line.faults() == []
    del line.books.asked[second]
    change = "UPDATE countersign.jobs SET args = args || jsonb_build_object('ticket', %s::text)"
    line.conn.execute(f"{change} WHERE id = %s", [ticket, second])
    assert line.fault() == f"ticket {ticket} was asked for once and made 2 times"


def test_a_due_time_with_two_jobs_is_found(line):
    schedules = handlers.jobs.schedules
    assert tick_schedules(line.conn, schedules) == 1
    assert line.faults() == []
    line.conn.execute(
        "INSERT INTO countersign.jobs (id, name, queue, args, priority, schedule)"
        " SELECT countersign.new_id(), name, queue, args, priority, schedule FROM countersign.jobs"
    )
    line.conn.execute(
        "INSERT INTO countersign.ready (id, queue, name, rank, run_at)"
        " SELECT id, queue, name, 0, now() FROM countersign.jobs"
        " WHERE id NOT IN (SELECT id FROM countersign.ready)"
    )
    assert line.fault().startswith("schedule 'chaos.clock' has 2 jobs for second")


def test_a_job_in_two_places_is_found(line):
    job = line.ask()
    line.conn.execute("INSERT INTO countersign.waiting SELECT * FROM countersign.ready")
    ours, theirs = line.faults()
    assert ours == f"job {job} stands in ready and waiting"
    assert theirs.startswith("job.two_places")  # check sees it too


def test_a_job_that_stands_nowhere_is_found(line):
    job = line.ask()
    line.conn.execute("DELETE FROM countersign.ready")
    ours, theirs = line.faults()
    assert ours == f"job {job} stands nowhere"
    assert theirs.startswith("job.no_place")


def test_an_attempt_without_a_record_is_found(line):
    job = line.ask()
    line.completed()
    line.conn.execute("UPDATE countersign.ended SET attempt = 2")
    line.see(job, 2)
    assert line.fault() == f"attempt 1 of job {job} is accounted for nowhere"


def test_an_attempt_in_review_alone_is_accounted_for(line):
    line.ask()
    line.run()
    line.conn.execute("UPDATE countersign.workers SET lost_at = now(), lost_rule = 'stale'")
    line.conn.execute("UPDATE countersign.running SET on_lost = 'review'")
    recover(line.conn)
    line.conn.execute("DELETE FROM countersign.runs")
    assert line.faults() == []
    line.conn.execute("UPDATE countersign.review SET attempt = 2")
    assert "accounted for nowhere" in line.fault()


def test_a_record_of_an_attempt_that_was_never_claimed_is_found(line):
    job = line.ask()
    line.conn.execute(
        "INSERT INTO countersign.runs (job_id, attempt, outcome) VALUES (%s, 1, 'lost')", [job]
    )
    assert line.fault() == f"attempt 1 of job {job} ended and was never claimed"


@pytest.mark.parametrize(
    ("other", "told"),
    [("lost", "lost and completed"), ("late_completed", "completed and late_completed")],
)
def test_a_run_that_ended_twice_in_the_books_is_found(line, other, told):
    job = line.ask()
    line.completed()
    line.conn.execute(
        "INSERT INTO countersign.runs (job_id, attempt, outcome) VALUES (%s, 1, %s)", [job, other]
    )
    assert line.fault() == f"attempt 1 of job {job} ended twice: {told}"


def test_a_run_that_is_booked_as_completed_and_was_never_seen_is_found(line):
    job = line.ask()
    line.completed(seen=None)
    assert line.fault() == f"attempt 1 of job {job} is completed, and nobody saw it done"


def test_a_run_that_only_began_and_is_booked_as_completed_is_found(line):
    line.ask()
    line.completed(seen="begun")
    assert "nobody saw it done" in line.fault()


def test_what_was_seen_twice_is_found(line):
    job = line.ask()
    line.completed()
    line.see(job, 1)
    assert line.fault() == f"attempt 1 of job {job} was run twice"


def test_what_ran_in_two_processes_is_found(line):
    job = line.ask()
    line.completed()
    line.see(job, 1, "going on", pid=2)
    assert line.fault() == f"attempt 1 of job {job} was run twice"


def test_what_was_seen_of_a_run_that_the_books_do_not_know_is_found(line):
    job = line.ask()
    line.see(job, 1)
    assert line.fault() == f"attempt 1 of job {job} was seen and never claimed"


def test_a_run_that_was_seen_and_is_booked_as_never_begun_is_found(line):
    job = line.ask()
    line.run()
    give_back(line.conn, line.worker, [(job, 1)])
    assert line.fault() == f"attempt 1 of job {job} was seen, and is said never to have begun"


def test_a_fault_fails_the_proof(line):
    line.books.signed.append(4121)
    with pytest.raises(AssertionError, match="act 4121"):
        line.books.prove(line.conn)


def test_an_act_that_is_missing_is_found(line):
    line.books.signed.append(4121)
    assert line.fault() == "act 4121 was done and is missing"


def test_runs_of_one_job_that_overlap_are_found(line):
    job, other = line.ask(), line.ask()
    for when, attempt, what in ((0, 1, "begun"), (3, 2, "begun"), (5, 1, "done"), (9, 2, "done")):
        for each, spread in ((job, 1), (other, 0 if attempt == 1 else 1)):
            line.witness.execute(
                "INSERT INTO effects VALUES (%s, %s, 1, %s, to_timestamp(%s))",
                [each, attempt, what, 1000 + when * spread],
            )
    assert line.books.overlaps() == {job: 2.0}


def test_many_faults_of_a_kind_are_counted(line):
    for number in range(20):
        line.books.signed.append(10_000 + number)
    assert line.faults()[-1] == "… and 8 more of this kind"
