"""Promote: a job whose time has come stands in the queue, as it was asked for."""

from datetime import timedelta

from queue_core import enqueue
from queue_core.queries.places import locate
from queue_core.transitions.promote import Line, promote

WAIT = """
INSERT INTO countersign.waiting (id, queue, name, rank, run_at, attempt, attempts_allowed)
VALUES (countersign.new_id(), 'q', 'mail.send', %(rank)s, now() + %(due)s, %(attempt)s, %(allowed)s)
RETURNING waiting.*
"""
READY = """
SELECT ready.* FROM countersign.ready ORDER BY ready.run_at
"""


def waits(conn, seconds: float, rank: int = 0, attempt: int = 0, allowed: int | None = None):
    due = timedelta(seconds=seconds)
    parameters = {"rank": rank, "due": due, "attempt": attempt, "allowed": allowed}
    return conn.execute(WAIT, parameters).fetchone()


def test_due_jobs_move_as_they_are_and_the_others_wait_on(conn) -> None:
    due = [waits(conn, -60.0, rank=-4), waits(conn, -1.0, attempt=3, allowed=5), waits(conn, 0.0)]
    later = waits(conn, 0.001)
    assert promote(conn) == 3
    assert conn.execute(READY).fetchall() == due
    assert conn.execute("SELECT * FROM countersign.waiting").fetchall() == [later]


def test_a_batch_takes_the_longest_due_first(conn) -> None:
    due = [waits(conn, -seconds) for seconds in (1.0, 3.0, 2.0)]
    assert promote(conn, limit=2) == 2
    assert conn.execute(READY).fetchall() == [due[1], due[2]]
    assert promote(conn, limit=2) == 1
    assert promote(conn, limit=2) == 0


def test_a_delayed_job_is_not_ready_before_its_time(conn, registry) -> None:
    job = enqueue(conn, "mail.send", delay=1_000.0).id
    assert promote(conn) == 0
    assert locate(conn, [job])[job].state == "waiting"


def test_a_promoter_goes_on_where_its_last_full_batch_ended(conn) -> None:
    line = Line()
    for seconds in (4.0, 3.0, 2.0, 1.0):
        waits(conn, -seconds)
    assert promote(conn, limit=2, line=line) == 2
    late = waits(conn, -60.0)
    assert promote(conn, limit=2, line=line) == 2
    assert conn.execute("SELECT * FROM countersign.waiting").fetchall() == [late]
    assert promote(conn, limit=2, line=line) == 0


def test_a_short_batch_lets_a_promoter_begin_anew(conn) -> None:
    line = Line()
    for seconds in (2.0, 1.0):
        waits(conn, -seconds)
    assert promote(conn, limit=2, line=line) == 2
    waits(conn, -60.0)
    assert [promote(conn, limit=2, line=line) for _ in range(3)] == [0, 1, 0]
