"""Plans: the hot statements look ids up, in full tables that the statistics believe empty."""

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString
from uuid import UUID

import psycopg
import pytest
from psycopg.rows import DictRow, dict_row, scalar_row

from queue_core import cancel, release, retry
from queue_core.outcomes import Completed, Deferred, Failed, RunReport
from queue_core.queries.places import locate
from queue_core.transitions.claim import Claimable, claim
from queue_core.transitions.complete import complete
from queue_core.transitions.defer import defer
from queue_core.transitions.dispute import dispute
from queue_core.transitions.fail import fail
from queue_core.transitions.give_back import give_back
from queue_core.transitions.promote import promote
from queue_core.transitions.recover import recover
from queue_core.worker.link import BUSY

# One process fills the tables once.
pytestmark = pytest.mark.xdist_group("plans")

ROWS = 50_000
FUTURE = 100_000
RUNNING = 20_000
TOMBSTONES = 20_000
LARGE = 1_000
BATCH = 64
MANY = 1_000
BUFFERS_PER_JOB = 40
SIGNED: dict[str, Any] = {"by": "ops:alice", "reason": "seen_in_test"}
LIVE, GONE = uuid.UUID(int=1), uuid.UUID(int=2)

QUIET = """
SELECT format('ALTER TABLE %s SET (autovacuum_enabled = false)', pg_class.oid::regclass)
FROM pg_class
WHERE pg_class.relnamespace = 'countersign'::regnamespace AND pg_class.relkind = 'r'
"""
# Half of what is ready has a better priority and a name that nobody here handles.
FILL = (
    """
INSERT INTO countersign.jobs (id, name, queue, args, priority)
SELECT countersign.new_id(), 'mail.send', 'q', '{}', 0
FROM generate_series(1, 2 * %(rows)s + %(running)s + 5000)
""",
    """
CREATE TEMP TABLE shuffled AS
SELECT jobs.id, row_number() OVER (ORDER BY random()) AS n FROM countersign.jobs
""",
    """
INSERT INTO countersign.ready (id, queue, name, rank, run_at)
SELECT id, 'q', CASE n %% 2 WHEN 0 THEN 'mail.send' ELSE 'other' END, -(n %% 2),
    now() - n * interval '1 ms'
FROM shuffled WHERE n <= %(rows)s
""",
    """
INSERT INTO countersign.ended (id, state, attempt, ended_at)
SELECT id, 'failed', 1, now() - random() * interval '5 days'
FROM shuffled WHERE n > %(rows)s AND n <= 2 * %(rows)s
""",
    """
INSERT INTO countersign.runs (job_id, attempt, outcome)
SELECT id, 1, 'failed' FROM shuffled WHERE n > %(rows)s AND n <= 2 * %(rows)s
""",
    """
INSERT INTO countersign.running (id, attempt, worker, queue, name, rank, run_at, attempts_allowed,
    on_lost)
SELECT id, 1, CASE WHEN n %% 300 = 0 THEN %(gone)s ELSE %(live)s END, 'q', 'mail.send', 0, now(), 2,
    'attempts'
FROM shuffled WHERE n > 2 * %(rows)s AND n <= 2 * %(rows)s + %(running)s
""",
    """
INSERT INTO countersign.review (id, why, attempt, worker)
SELECT id, 'lost', 1, %(gone)s
FROM shuffled WHERE n > 2 * %(rows)s + %(running)s AND n <= 2 * %(rows)s + %(running)s + 4000
""",
    """
INSERT INTO countersign.waiting (id, queue, name, rank, run_at)
SELECT countersign.new_id(), 'q', 'mail.send', -10, now() + interval '1 day'
FROM generate_series(1, %(future)s)
""",
    """
INSERT INTO countersign.waiting (id, queue, name, rank, run_at)
SELECT id, 'q', 'mail.send', 0, now()
FROM shuffled WHERE n > 2 * %(rows)s + %(running)s + 4000
""",
    """
INSERT INTO countersign.workers (id, host, pid, boot_id, pid_namespace, version, queues, slots,
    lost_at, lost_rule)
SELECT CASE n WHEN 1 THEN %(live)s::uuid ELSE gen_random_uuid() END, 'h', 1, 'b', 'p', 'v', '{}',
    1, CASE WHEN n > 1 THEN now() END, CASE WHEN n > 1 THEN 'stale' END
FROM generate_series(1, %(tombstones)s) AS n
""",
)
SIZES: dict[str, Any] = {
    "rows": ROWS,
    "future": FUTURE,
    "running": RUNNING,
    "tombstones": TOMBSTONES,
    "live": LIVE,
    "gone": GONE,
}
Call = Callable[[psycopg.Connection[Any], Sequence[UUID]], Any]


def _claims(conn: psycopg.Connection[Any], ids: Sequence[UUID]) -> Any:
    names = [Claimable("mail.send", 3), Claimable("audit.file")]
    return claim(conn, worker=LIVE, names=names, count=len(ids))


def _reports(transition: Callable[..., Any], ending: Any, worker: UUID = LIVE) -> Call:
    def report(conn: psycopg.Connection[Any], ids: Sequence[UUID]) -> Any:
        reports = [RunReport(job, 1, ending, seconds=1.0, wait=30.0) for job in ids]
        return transition(conn, worker, reports)

    return report


def _acts(verb: Callable[..., Any]) -> Call:
    return lambda conn, ids: [each for each in verb(conn, ids, **SIGNED) if each.applied]


VERBS: dict[str, tuple[str, Call]] = {
    "claim": ("ready", _claims),
    "complete": ("running", _reports(complete, Completed("1"))),
    "fail": ("running", _reports(fail, Failed("no"))),
    "crash": ("running", _reports(fail, Failed("crashed", outcome="crashed"))),
    "defer": ("running", _reports(defer, Deferred(9.0))),
    "give back": (
        "running",
        lambda conn, ids: give_back(conn, LIVE, [(job, 1) for job in ids]),
    ),
    "promote": ("waiting", lambda conn, ids: range(promote(conn, limit=len(ids)))),
    "dispute of queued ones": ("ready", _reports(dispute, Completed(), GONE)),
    "dispute of failed ones": ("ended", _reports(dispute, Completed(), GONE)),
    "cancel of ready ones": ("ready", _acts(cancel)),
    "cancel of waiting ones": ("waiting", _acts(cancel)),
    "cancel of running ones": ("running", _acts(cancel)),
    "retry": ("ended", _acts(retry)),
    "release": ("review", _acts(release)),
}
OFTEN = 7
"""How often a statement is run before Postgres may keep a plan for all of its parameters."""


@dataclass
class Loaded:
    """A worker's connection that found all tables empty, one to look with, and when they filled."""

    conn: psycopg.Connection[DictRow]
    owner: psycopg.Connection[Any]
    filled_at: datetime

    def some(self, place: str, number: int) -> list[UUID]:
        """Return ids from all over a place: failed ones, and the live worker's runs."""
        with self.owner.cursor(row_factory=scalar_row) as cursor:
            return cursor.execute(SOME[place], {"live": LIVE, "number": number}).fetchall()


SOME: dict[str, LiteralString] = {
    "ready": "SELECT id FROM countersign.ready ORDER BY md5(id::text) LIMIT %(number)s",
    "waiting": "SELECT id FROM countersign.waiting ORDER BY md5(id::text) LIMIT %(number)s",
    "review": "SELECT id FROM countersign.review ORDER BY md5(id::text) LIMIT %(number)s",
    "running": """
        SELECT id FROM countersign.running WHERE worker = %(live)s AND stop_requested_at IS NULL
        ORDER BY md5(id::text) LIMIT %(number)s""",
    "ended": """
        SELECT id FROM countersign.ended WHERE state = 'failed'
        ORDER BY md5(id::text) LIMIT %(number)s""",
}


@pytest.fixture(scope="module")
def loaded(shared_database: Any) -> Iterator[Loaded]:
    """Fill tables that were empty when each statement was prepared, and say so to no planner."""
    owner = shared_database.owner()
    for row in owner.execute(QUIET).fetchall():
        owner.execute(row["format"])
    connect = psycopg.Connection[DictRow].connect
    with connect(
        shared_database.url,
        options=f"{BUSY} -c idle_in_transaction_session_timeout=0",
        autocommit=True,
        prepare_threshold=0,
        row_factory=dict_row,
    ) as conn:
        for _ in range(OFTEN):
            for _, call in VERBS.values():
                call(conn, [uuid.uuid4()])
        (now,) = owner.execute("SELECT clock_timestamp() AS now").fetchall()
        for statement in FILL:
            owner.execute(statement, SIZES)
        yield Loaded(conn, owner, now["now"])


SEQUENTIAL = """
SELECT pg_stat_xact_user_tables.relname AS name, pg_stat_xact_user_tables.seq_tup_read AS rows
FROM pg_stat_xact_user_tables
WHERE pg_stat_xact_user_tables.seq_tup_read > %(large)s
"""
PREPARED = """
SELECT pg_prepared_statements.statement, pg_prepared_statements.generic_plans AS generic,
    pg_prepared_statements.prepare_time < %(filled_at)s AS on_empty_tables
FROM pg_prepared_statements
WHERE pg_prepared_statements.statement LIKE '%%countersign.%%'
"""


def test_verbs_prepared_on_empty_tables_read_no_full_one_from_end_to_end(loaded: Loaded) -> None:
    """In transactions that commit: psycopg forgets what it prepared at each rollback."""
    conn = loaded.conn
    for verb, (place, call) in VERBS.items():
        for number in (BATCH, 1):
            ids = loaded.some(place, number)
            with conn.transaction():
                moved = call(conn, ids)
                found = conn.execute(SEQUENTIAL, {"large": LARGE}, prepare=False).fetchall()
            assert len(moved) == number, verb
            assert found == [], (verb, number)
    parameters = {"filled_at": loaded.filled_at}
    prepared = conn.execute(PREPARED, parameters, prepare=False).fetchall()
    assert len(prepared) == 11  # ten verbs, and the look for where jobs stand
    for each in prepared:
        assert (each["generic"], each["on_empty_tables"]) == (0, True), each["statement"]


def pages(node: dict[str, Any]) -> int:
    """Return how many pages a plan touched: a CTE's are its own, not those of who reads it."""
    children = node.get("Plans", [])
    inner = [each for each in children if not each.get("Subplan Name", "").startswith("CTE")]
    own = _hits(node) - sum(_hits(each) for each in inner)
    mine = 0 if node["Node Type"] == "CTE Scan" else max(own, 0)
    return mine + sum(pages(each) for each in children)


def _hits(node: dict[str, Any]) -> int:
    return node["Shared Hit Blocks"] + node["Shared Read Blocks"]


def explained(
    loaded: Loaded, monkeypatch: pytest.MonkeyPatch, call: Callable[[], Any]
) -> list[dict[str, Any]]:
    """Return the plans of a verb's statements, as EXPLAIN ANALYZE tells them."""
    said: list[tuple[Any, Any]] = []
    honest = psycopg.Cursor.execute

    def overheard(cursor: Any, query: Any, params: Any = None, **known: Any) -> Any:
        said.append((query, params))
        return honest(cursor, query, params, **known)

    with monkeypatch.context() as patch, loaded.conn.transaction(force_rollback=True):
        patch.setattr(psycopg.Cursor, "execute", overheard)
        call()
    plans: list[dict[str, Any]] = []
    for query, params in said:
        if "countersign." in query:
            with loaded.conn.transaction(force_rollback=True):
                explain = "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + query
                (row,) = loaded.conn.execute(explain, params, prepare=False).fetchall()
            plans.append(row["QUERY PLAN"][0]["Plan"])
    return plans


@pytest.mark.parametrize(("place", "call"), VERBS.values(), ids=VERBS)
def test_a_verb_touches_so_many_pages_a_job_and_no_more(
    loaded: Loaded, monkeypatch, place: str, call: Call
) -> None:
    for number in (1, BATCH, MANY):
        ids = loaded.some(place, number)
        plans = explained(loaded, monkeypatch, lambda ids=ids: call(loaded.conn, ids))
        touched = sum(map(pages, plans))
        assert touched <= BUFFERS_PER_JOB * (1 + number), number


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", []):
        yield from nodes(child)


def read_whole(plans: list[dict[str, Any]]) -> set[str]:
    """Return the tables that were read from end to end, if they are large."""
    return {
        node["Relation Name"]
        for plan in plans
        for node in nodes(plan)
        if node["Node Type"] == "Seq Scan"
        and node["Actual Loops"] * (node["Actual Rows"] + node.get("Rows Removed by Filter", 0))
        > LARGE
    }


@pytest.mark.parametrize("verb", ["retry", "dispute of failed ones"])
def test_what_ended_is_looked_up_by_id_and_never_by_state(
    loaded: Loaded, monkeypatch, verb: str
) -> None:
    _, call = VERBS[verb]
    ids = loaded.some("ended", BATCH)
    plans = explained(loaded, monkeypatch, lambda: call(loaded.conn, ids))
    indexes = {node.get("Index Name", "") for plan in plans for node in nodes(plan)}
    assert [name for name in indexes if name.startswith("ended") and name.endswith("_pkey")]
    assert not [name for name in indexes if name.startswith("ended") and "_state_" in name]


def test_looking_where_jobs_stand_reads_no_body(loaded: Loaded, monkeypatch) -> None:
    for place in ("ready", "ended"):
        ids = loaded.some(place, MANY)
        plans = explained(loaded, monkeypatch, lambda ids=ids: locate(loaded.conn, ids))
        assert not [name for name in read_whole(plans) if name.startswith("jobs")]
        assert sum(map(pages, plans)) <= BUFFERS_PER_JOB * MANY


def test_a_sweep_goes_through_what_runs_and_looks_workers_up(loaded: Loaded, monkeypatch) -> None:
    plans = explained(loaded, monkeypatch, lambda: recover(loaded.conn))
    assert read_whole(plans) <= {"running"}
    assert sum(map(pages, plans)) <= 8 * RUNNING
