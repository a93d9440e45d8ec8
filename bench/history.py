"""A queue with a past: jobs that ended over a week, ready ones, jobs in review, and acts on them.

Rows are inserted as the superuser, in the order of their ids and with all indexes there: they are
added at the right end of each, which costs less than making the indexes afterwards. Only `acts` has
triggers on its rows.
"""

from typing import Any, Final, LiteralString
from uuid import uuid4

from bench import harness
from queue_core import seals, tallies

NAMES: Final = [f"shop.job_{number:02}" for number in range(19)]
QUEUES: Final = [f"line-{number}" for number in range(8)]
HANDLED: Final = "bench.careful"
"""What the worker of the measurement works on: half of all ready jobs, in a queue of its own."""
LINE: Final = "drained"
WORKERS: Final = 400
OPERATORS: Final = 20

GONE_WORKERS: Final[LiteralString] = """
INSERT INTO countersign.workers (id, name, host, pid, boot_id, pid_namespace, version, queues,
    slots, started_at, beat_at, stopped_at, lost_at, lost_rule)
SELECT countersign.new_id(), 'pay-' || n %% 40, 'pay-' || n %% 40, 1000 + n, 'boot', 'pid:[1]', '0',
    '{}', 4, now() - interval '7 days', now() - interval '1 h',
    CASE WHEN n %% 2 = 0 THEN now() - interval '1 h' END,
    CASE WHEN n %% 2 = 1 THEN now() - interval '1 h' END, CASE WHEN n %% 2 = 1 THEN 'stale' END
FROM generate_series(1, %(workers)s::integer) AS n
"""
SCHEDULE: Final[LiteralString] = """
WITH version AS (
    INSERT INTO countersign.schedule_versions (schedule, fingerprint, every, job, queue, args,
        priority)
    VALUES ('nightly', 'bench', interval '1 day', %(job)s, 'default', '{}', 0)
    RETURNING schedule_versions.id
)
INSERT INTO countersign.schedules (name, version, due_at)
SELECT 'nightly', version.id, now() + interval '1 day' FROM version
"""
# A body, where it ended, the tally of its minute, and for failures the run: what one move writes.
ENDED: Final[LiteralString] = """
WITH old AS MATERIALIZED (
    SELECT (substr(countersign.lowest_id(each.at)::text, 1, 14) || '7'
        || substr(gen_random_uuid()::text, 16))::uuid AS id, each.at, each.n,
        (%(names)s::text[])[1 + each.n %% %(named)s] AS name,
        (%(queues)s::text[])[1 + each.n %% %(queued)s] AS queue,
        CASE WHEN each.chance < 0.03 THEN 'failed' WHEN each.chance < 0.04 THEN 'cancelled'
            ELSE 'completed' END AS state,
        (%(workers)s::uuid[])[1 + each.n %% %(worked)s] AS worker
    FROM (
        SELECT n, now() - interval '1 minute'
            - interval '7 days' * (1 - n::float8 / %(total)s) AS at, random() AS chance
        FROM generate_series(%(first)s::integer, %(last)s::integer) AS n
    ) AS each
),
body AS (
    INSERT INTO countersign.jobs (id, name, queue, args, priority, created_at)
    SELECT old.id, old.name, old.queue, '{"order": 48211}', 0, old.at FROM old
),
tallied AS (
    INSERT INTO countersign.tallies (minute, name, state, entered, removed, timed, seconds)
    SELECT date_trunc('minute', old.at), old.name, old.state, count(*), 0, count(*), count(*)
    FROM old
    GROUP BY date_trunc('minute', old.at), old.name, old.state
),
run AS (
    INSERT INTO countersign.runs (job_id, attempt, outcome, worker, claimed_at, started_at,
        ended_at, error, error_type, error_place, traceback)
    SELECT old.id, 1, 'failed', old.worker, old.at, old.at, old.at,
        'ProviderError: ' || 500 + old.n %% 7, 'ProviderError', 'shop.pay:' || old.n %% 12,
        repeat('  File "/srv/shop/pay.py", line 88, in charge' || chr(10), 12)
    FROM old
    WHERE old.state = 'failed'
)
INSERT INTO countersign.ended (id, state, attempt, worker, started_at, ended_at, error, error_type,
    error_place, uncertain)
SELECT old.id, old.state, 1, old.worker, old.at, old.at + interval '1 s',
    CASE WHEN old.state = 'failed' THEN 'ProviderError: ' || 500 + old.n %% 7 END,
    CASE WHEN old.state = 'failed' THEN 'ProviderError' END,
    CASE WHEN old.state = 'failed' THEN 'shop.pay:' || old.n %% 12 END,
    old.state = 'failed' AND old.n %% 10 = 0
FROM old
"""
REVIEW: Final[LiteralString] = """
WITH body AS (
    INSERT INTO countersign.jobs (id, name, queue, args, priority)
    SELECT countersign.new_id(), (%(names)s::text[])[1 + n %% %(named)s],
        (%(queues)s::text[])[1 + n %% %(queued)s], '{"order": 48211}', 0
    FROM generate_series(1, %(count)s::integer) AS n
    RETURNING jobs.id
),
numbered AS (
    SELECT body.id, row_number() OVER () AS n FROM body
),
run AS (
    INSERT INTO countersign.runs (job_id, attempt, outcome, worker, claimed_at, started_at)
    SELECT numbered.id, 1, 'lost', (%(workers)s::uuid[])[1 + numbered.n %% %(worked)s], now(), now()
    FROM numbered
)
INSERT INTO countersign.review (id, entered_at, why, attempt, worker, claimed_at, started_at)
SELECT numbered.id, now() - interval '1 h' * (numbered.n %% 1000) / 10, 'lost', 1,
    (%(workers)s::uuid[])[1 + numbered.n %% %(worked)s], now(), now()
FROM numbered
"""
ACTS: Final[LiteralString] = """
INSERT INTO countersign.acts (by, act, subject_kind, subject_id, subject_name, attempt, reason, via,
    bulk_id)
SELECT 'ops:op-' || row_number() OVER () %% %(operators)s, 'retried', 'job', acted.id, jobs.name, 1,
    (ARRAY['deploy_error', 'provider_outage', 'data_mended'])[1 + row_number() OVER () %% 3],
    'console:1', %(bulk)s
FROM (
    SELECT ended.id FROM countersign.ended WHERE ended.state = 'failed'
    ORDER BY ended.ended_at DESC OFFSET %(first)s LIMIT %(count)s
) AS acted
JOIN countersign.jobs ON jobs.id = acted.id
"""
ACTS_OF_A_BATCH: Final = 200
"""Sealed together, as those of a few busy seconds are."""


def load(owner: harness.Connection, ended: int, ready: int, review: int, acts: int) -> None:
    """Load all of it, fold the tallies and seal the acts as maintenance would have by then."""
    owner.execute("SET synchronous_commit = off")
    owner.execute(GONE_WORKERS, {"workers": WORKERS})
    owner.execute(SCHEDULE, {"job": NAMES[0]})
    gone = owner.execute("SELECT workers.id FROM countersign.workers").fetchall()
    known: dict[str, Any] = {"names": NAMES, "named": len(NAMES), "queues": QUEUES}
    known |= {"queued": len(QUEUES), "workers": [row["id"] for row in gone], "worked": len(gone)}
    for first in range(1, ended + 1, harness.BULK):
        last = min(first + harness.BULK - 1, ended)
        owner.execute(ENDED, known | {"first": first, "last": last, "total": ended})
        tallies.fold(owner)
    harness.load(owner, ready // 2, names=[HANDLED], queues=[LINE])
    harness.load(owner, ready - ready // 2, names=NAMES, queues=QUEUES)
    owner.execute(REVIEW, known | {"count": review})
    for first in range(0, acts, ACTS_OF_A_BATCH):
        count = min(ACTS_OF_A_BATCH, acts - first)
        given = {"operators": OPERATORS, "first": first, "count": count, "bulk": uuid4()}
        owner.execute(ACTS, given)
        while seals.seal(owner):
            pass
    while tallies.fold(owner):
        pass
    harness.settle(owner)
