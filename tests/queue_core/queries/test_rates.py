"""How fast queues are worked off."""

from queue_core.queries import rates as module
from queue_core.queries.rates import rates

ENDED = """
WITH made AS (
    INSERT INTO countersign.jobs (id, name, queue, args, priority)
    SELECT countersign.new_id(), 'mail.send', %(queue)s, '{}', 0
    FROM generate_series(1, %(count)s)
    RETURNING jobs.id
)
INSERT INTO countersign.ended (id, state, attempt, ended_at)
SELECT made.id, %(state)s, 1, now() - make_interval(secs => %(ago)s) FROM made
"""


def end(conn, queue: str, count: int, *, ago: float = 30.0, state: str = "completed") -> None:
    conn.execute(ENDED, {"queue": queue, "count": count, "ago": ago, "state": state})


def test_where_nothing_ended_nothing_has_a_rate(conn) -> None:
    found = rates(conn)
    assert (found.by_queue, found.seconds) == ({}, 300.0)


def test_what_completed_or_failed_in_five_minutes_is_a_rate_by_queue(conn) -> None:
    end(conn, "a", 10)
    end(conn, "a", 5, state="failed")
    end(conn, "a", 7, state="cancelled")
    end(conn, "b", 1, ago=299)
    end(conn, "c", 9, ago=301)
    assert rates(conn).by_queue == {"a": 3.0, "b": 0.2}


def test_of_very_many_the_newest_are_looked_at_over_the_time_they_took(conn, monkeypatch) -> None:
    monkeypatch.setattr(module, "MOST_ENDED", 10)
    end(conn, "a", 8, ago=20)
    end(conn, "b", 1, ago=10)
    end(conn, "a", 50, ago=60, state="failed")
    found = rates(conn)
    assert found.seconds == 60.0
    assert found.by_queue == {"a": 9.0, "b": 1.0}


def test_jobs_that_ended_at_this_moment_are_not_divided_by_nothing(conn, monkeypatch) -> None:
    monkeypatch.setattr(module, "MOST_ENDED", 2)
    end(conn, "a", 3, ago=0)
    assert rates(conn).by_queue == {"a": 120.0}
