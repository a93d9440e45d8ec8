"""Reads the whole database into the model's values, each job in exactly one place."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from uuid import UUID

import psycopg
from psycopg.rows import tuple_row

from tests.queue_core.model.facts import (
    Acted,
    Body,
    Ended,
    Fact,
    Job,
    Place,
    Queue,
    Queued,
    Ran,
    Reviewed,
    Running,
    Tallies,
    Worker,
    queue_key,
)

BODIES = """
SELECT jobs.id, jobs.name, jobs.queue, jobs.args, jobs.priority, jobs.attempts, jobs.time_limit,
    jobs.created_at
FROM countersign.jobs
"""
QUEUED = """
SELECT ready.id, 'ready' AS "table", ready.queue, ready.name, ready.rank, ready.run_at,
    ready.attempt, ready.attempts_allowed
FROM countersign.ready
UNION ALL
SELECT waiting.id, 'waiting', waiting.queue, waiting.name, waiting.rank, waiting.run_at,
    waiting.attempt, waiting.attempts_allowed
FROM countersign.waiting
UNION ALL
SELECT blocked.id, 'blocked', blocked.queue, blocked.name, blocked.rank, blocked.run_at,
    blocked.attempt, blocked.attempts_allowed
FROM countersign.blocked
"""
RUNNING = """
SELECT running.id, running.attempt, running.worker, running.claimed_at, running.queue,
    running.name, running.rank, running.run_at, running.attempts_allowed, running.on_lost,
    running.child_pid, running.started_at, running.stop_requested_at, running.safe_to_repeat,
    running.kill_after
FROM countersign.running
"""
REVIEWED = """
SELECT review.id, review.entered_at, review.why, review.attempt, review.worker, review.claimed_at,
    review.started_at, review.child_pid, review.signal, review.error
FROM countersign.review
"""
ENDED = """
SELECT ended.id, ended.state, ended.attempt, ended.ended_at, ended.uncertain, ended.worker,
    ended.started_at, ended.error, ended.error_type, ended.error_place, ended.result
FROM countersign.ended
"""
RUNS = """
SELECT runs.job_id AS id, runs.attempt, runs.outcome, runs.ended_at, runs.worker, runs.child_pid,
    runs.signal, runs.claimed_at, runs.started_at, runs.error, runs.error_type, runs.error_place,
    runs.traceback
FROM countersign.runs
ORDER BY runs.job_id, runs.attempt, runs.outcome
"""
ACTS = """
SELECT acts.subject_id AS id, acts.by, acts.act, acts.subject_name, acts.attempt, acts.reason,
    acts.note, acts.bulk_id, acts.via, acts.kill_after
FROM countersign.acts
WHERE acts.id > $1
ORDER BY acts.id
"""
WORKERS = """
SELECT workers.id, workers.beat_at < clock_timestamp() - interval '1 min' AS silent,
    workers.stopped_at, workers.lost_at, workers.lost_by, workers.lost_rule, workers.draining_at
FROM countersign.workers
"""
QUEUES = """
SELECT queues.name, queues.paused_at
FROM countersign.queues
"""
TALLIES = """
SELECT tallies.name, tallies.state, sum(tallies.entered), sum(tallies.removed),
    sum(tallies.timed), round(sum(tallies.seconds) * 1000000)
FROM countersign.tallies
GROUP BY tallies.name, tallies.state
"""
PLACES: tuple[type[Any], ...] = (Queued, Running, Reviewed, Ended)
PREPARE = f"""
PREPARE queued AS {QUEUED};
PREPARE running AS {RUNNING};
PREPARE reviewed AS {REVIEWED};
PREPARE ended AS {ENDED};
PREPARE bodies AS {BODIES};
PREPARE runs AS {RUNS};
PREPARE acts (bigint) AS {ACTS};
PREPARE workers AS {WORKERS};
PREPARE queues AS {QUEUES};
PREPARE tallies AS {TALLIES};
"""
ALL = """
EXECUTE queued; EXECUTE running; EXECUTE reviewed; EXECUTE ended; EXECUTE bodies; EXECUTE runs;
EXECUTE acts (%(acts_after)s); EXECUTE workers; EXECUTE queues;
EXECUTE tallies
"""


def read(conn: Any, acts_after: int) -> tuple[dict[UUID, Fact], Tallies]:
    """Return every job, worker and queue there is, with the acts after one, and the tallies' sums.

    The connection gives tuples, and nobody else writes. Fails for a job in two places or none,
    and for a run or an act whose job is not there.
    """
    tables = _in_one_trip(conn, acts_after)
    places: dict[UUID, Place] = {}
    for shape, table in zip(PLACES, tables, strict=False):
        for job, *row in table:
            assert job not in places, f"{places[job]} and also {shape.__name__}"
            places[job] = shape(*row)
    bodies = {job: Body(*row) for job, *row in next(tables)}
    assert places.keys() == bodies.keys(), "jobs without a place, or places without a job"
    runs, acts = _grouped(next(tables), Ran), _grouped(next(tables), Acted)
    of_queues = acts.pop(None, [])
    assert {*runs, *acts} <= bodies.keys(), "a run or an act without a job"
    found: dict[UUID, Fact] = {
        job: Job(body, places[job], tuple(runs[job]), tuple(acts[job]))
        for job, body in bodies.items()
    }
    found |= {worker: Worker(*row) for worker, *row in next(tables)}
    found |= _queues(dict(next(tables)), of_queues)
    return found, _sums(next(tables))


def _in_one_trip(conn: Any, acts_after: int) -> Iterator[list[tuple[Any, ...]]]:
    """Yield the rows of each query in ALL."""
    with psycopg.ClientCursor(conn, row_factory=tuple_row) as cursor:
        cursor.execute(ALL, {"acts_after": acts_after})
        tables = [cursor.fetchall()]
        while cursor.nextset():
            tables.append(cursor.fetchall())
    return iter(tables)


def _queues(paused: Mapping[str, Any], acts: Iterable[Acted]) -> dict[UUID, Fact]:
    """Return the queues that are paused, or of which an act tells."""
    told: defaultdict[str, list[Acted]] = defaultdict(list)
    for act in acts:
        told[act.subject_name].append(act)
    return {
        queue_key(name): Queue(paused.get(name), tuple(told[name])) for name in {*told, *paused}
    }


def _sums(table: Iterable[tuple[Any, ...]]) -> Tallies:
    kinds = ("entered", "removed", "timed", "us")
    return Counter(
        {
            (name, state, kind): int(number)
            for name, state, *numbers in table
            for kind, number in zip(kinds, numbers, strict=True)
        }
    )


def _grouped(table: Iterable[tuple[Any, ...]], shape: type[Any]) -> dict[Any, list[Any]]:
    found: defaultdict[Any, list[Any]] = defaultdict(list)
    for job, *row in table:
        found[job].append(shape(*row))
    return found
