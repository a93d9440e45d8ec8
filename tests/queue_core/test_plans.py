"""Plans: the hot statements look ids up, in full tables that the statistics believe empty."""

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, LiteralString
from uuid import UUID

import psycopg
import pytest
from psycopg.rows import DictRow, dict_row, scalar_row

from queue_core import cancel, close, confirm, release, retry
from queue_core.lanes import Head, Lane, Lanes, Place
from queue_core.marks import assign, note, reveal
from queue_core.outcomes import Completed, Deferred, Failed, RunReport, Stopped
from queue_core.queries.acts import acts_of, acts_on, last_pauses
from queue_core.queries.counts import CAP, capped_counts
from queue_core.queries.fitting import FIELDS, Filters
from queue_core.queries.handlers import list_handlers, unhandled
from queue_core.queries.held import lost_by, lost_with
from queue_core.queries.jobs import EPOCH, WINDOW, Cursor, list_jobs
from queue_core.queries.overview import overview
from queue_core.queries.places import locate
from queue_core.queries.queues import list_cap, list_queues, queue
from queue_core.queries.rates import rates
from queue_core.queries.review import list_review
from queue_core.queries.runs import runs_of
from queue_core.queries.schedules import list_schedules
from queue_core.queries.tabs import tabs
from queue_core.queries.workers import list_workers, live
from queue_core.states import STATES, State
from queue_core.transitions.claim import Claimable, claim
from queue_core.transitions.complete import complete
from queue_core.transitions.defer import defer
from queue_core.transitions.dispute import dispute
from queue_core.transitions.fail import fail
from queue_core.transitions.give_back import give_back
from queue_core.transitions.promote import promote
from queue_core.transitions.recover import recover
from queue_core.transitions.stop import stop
from queue_core.worker.link import BUSY
from queue_core.worker.plans import KEEP
from tests.databases import Database, Pool

# One process fills the tables once.
pytestmark = pytest.mark.xdist_group("plans")

ROWS = 100_000
FUTURE = 100_000
RUNNING = 20_000
TOMBSTONES = 20_000
LARGE = 1_000
BATCH = 64
MANY = 1_000
BUFFERS_PER_JOB = 40
ROWS_PER_JOB = 5
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


NAMES = [Claimable("mail.send", 3), Claimable("audit.file")]


def remembered() -> Lanes:
    """Return the memory of a claimer that saw a first job here."""
    lanes = Lanes()
    lanes.looked([Head(Lane("q", "mail.send"), Place(-10, "-infinity", uuid.UUID(int=0)))], 0.0)
    return lanes


def _claims(conn: psycopg.Connection[Any], ids: Sequence[UUID]) -> Any:
    return claim(conn, worker=LIVE, names=NAMES, count=len(ids))


def _claims_on(conn: psycopg.Connection[Any], ids: Sequence[UUID]) -> Any:
    return claim(conn, worker=LIVE, names=NAMES, count=len(ids), lanes=remembered())


def _reports(transition: Callable[..., Any], ending: Any, worker: UUID = LIVE) -> Call:
    def report(conn: psycopg.Connection[Any], ids: Sequence[UUID]) -> Any:
        reports = [RunReport(job, 1, ending, seconds=1.0, wait=30.0) for job in ids]
        return transition(conn, worker, reports)

    return report


def _acts(verb: Callable[..., Any]) -> Call:
    return lambda conn, ids: [each for each in verb(conn, ids, **SIGNED) if each.applied]


VERBS: dict[str, tuple[str, Call]] = {
    "claim": ("ready", _claims),
    "claim from a remembered place": ("ready", _claims_on),
    "complete": ("running", _reports(complete, Completed("1"))),
    "fail": ("running", _reports(fail, Failed("no"))),
    "crash": ("running", _reports(fail, Failed("crashed", outcome="crashed"))),
    "defer": ("running", _reports(defer, Deferred(9.0))),
    "stop": ("running", _reports(stop, Stopped("Stopped"))),
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
    "confirm": ("review", _acts(confirm)),
    "close": ("review", _acts(close)),
}
CLAIMS = ("claim", "claim from a remembered place")
MARKING = [
    (assign, "review"),
    (assign, "ended"),
    (partial(note, note="Looked."), "ended"),
    (reveal, "ready"),
    (reveal, "ended"),
]
OFTEN = 7
"""How often a statement is run before Postgres may keep a plan for all of its parameters."""


@dataclass
class Loaded:
    """A worker's connection that found all tables empty, one that kept the plans of claims, one to
    look with, and when the tables filled."""

    conn: psycopg.Connection[DictRow]
    kept: psycopg.Connection[DictRow]
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
def shared_database(databases: Pool) -> Iterator[Database]:
    """Give a database whose files hold nothing of any other test."""
    with databases.make() as made:
        yield made


@pytest.fixture(scope="module")
def loaded(shared_database: Any) -> Iterator[Loaded]:
    """Fill tables that were empty when each statement was prepared, and say so to no planner."""
    owner = shared_database.owner()
    for row in owner.execute(QUIET).fetchall():
        owner.execute(row["format"])
    owner.execute("VACUUM ANALYZE")

    def connect() -> psycopg.Connection[DictRow]:
        return psycopg.Connection[DictRow].connect(
            shared_database.url,
            options=f"{BUSY} -c idle_in_transaction_session_timeout=0",
            autocommit=True,
            prepare_threshold=0,
            row_factory=dict_row,
        )

    with connect() as conn, connect() as kept:
        kept.execute(KEEP)
        for verb in CLAIMS:
            VERBS[verb][1](kept, [uuid.uuid4()])
        for _ in range(OFTEN):
            for _, call in VERBS.values():
                call(conn, [uuid.uuid4()])
            claim(conn, worker=LIVE, names=NAMES, count=1, lanes=remembered())
        (now,) = owner.execute("SELECT clock_timestamp() AS now").fetchall()
        for statement in FILL:
            owner.execute(statement, SIZES)
        yield Loaded(conn, kept, owner, now["now"])


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
    assert len(prepared) == 15  # thirteen verbs, and the looks at lanes and for where jobs stand
    for each in prepared:
        assert (each["generic"], each["on_empty_tables"]) == (0, True), each["statement"]


FETCHED = """
SELECT sum(pg_stat_xact_user_tables.idx_tup_fetch)::integer AS rows
FROM pg_stat_xact_user_tables
"""


@pytest.mark.parametrize("verb", CLAIMS)
@pytest.mark.parametrize("number", [BATCH, 1])
def test_the_kept_plan_of_a_claim_fetches_so_many_rows_a_job_and_no_more(
    loaded: Loaded, verb: str, number: int
) -> None:
    """Though it was made when all tables were empty and vacuumed, for whatever parameters."""
    conn, (place, call) = loaded.kept, VERBS[verb]
    ids = loaded.some(place, number)
    with conn.transaction():
        (before,) = conn.execute(FETCHED, prepare=False).fetchall()
        moved = call(conn, ids)
        (after,) = conn.execute(FETCHED, prepare=False).fetchall()
        found = conn.execute(SEQUENTIAL, {"large": LARGE}, prepare=False).fetchall()
    assert (len(moved), found) == (number, [])
    assert after["rows"] - before["rows"] <= ROWS_PER_JOB * (1 + number)
    for each in conn.execute(PREPARED, {"filled_at": loaded.filled_at}, prepare=False).fetchall():
        assert (each["generic"] > 0, each["on_empty_tables"]) == (True, True), each["statement"]


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


def read_whole(plans: list[dict[str, Any]], most: int = LARGE) -> set[str]:
    """Return the tables of which more than so many rows were read without an index."""
    return {
        node["Relation Name"]
        for plan in plans
        for node in nodes(plan)
        if node["Node Type"] == "Seq Scan"
        and node["Actual Loops"] * (node["Actual Rows"] + node.get("Rows Removed by Filter", 0))
        > most
    }


def test_a_promotion_reads_nothing_of_what_is_due_later(loaded: Loaded, monkeypatch) -> None:
    plans = explained(loaded, monkeypatch, lambda: promote(loaded.conn, limit=FUTURE))
    passed_over = [node.get("Rows Removed by Filter", 0) for plan in plans for node in nodes(plan)]
    assert passed_over
    assert sum(passed_over) == 0


def compared(node: dict[str, Any]) -> int:
    """Return how many pairs of rows a plan's joins looked at and threw away."""
    own = node.get("Rows Removed by Join Filter", 0) * node["Actual Loops"]
    return own + sum(compared(each) for each in node.get("Plans", []))


@pytest.mark.parametrize("verb", ["claim", "claim from a remembered place"])
def test_a_claim_touches_at_most_twenty_pages_a_job(loaded: Loaded, monkeypatch, verb: str) -> None:
    _, call = VERBS[verb]
    ids = loaded.some("ready", BATCH)
    plans = explained(loaded, monkeypatch, lambda: call(loaded.conn, ids))
    assert not read_whole(plans)
    assert sum(map(pages, plans)) <= 20 * BATCH


LISTS: dict[str, Callable[[psycopg.Connection[Any]], object]] = {
    **{state: lambda conn, state=state: list_jobs(conn, state) for state in STATES},
    "ready, a page on": lambda conn: list_jobs(
        conn, "ready", cursor=Cursor(EPOCH, list_jobs(conn, "ready", limit=200).rows[-1].id)
    ),
    "overview": overview,
    "one queue": lambda conn: queue(conn, "q"),
    "how far queues are counted": list_cap,
    "counts up to a cap": capped_counts,
    "queues": list_queues,
    "schedules": list_schedules,
    "live workers": live,
    "handlers": list_handlers,
    "names that nobody handles": unhandled,
    "lost workers": lambda conn: list_workers(conn, "lost"),
    "stopped workers, a page on": lambda conn: list_workers(
        conn, "stopped", cursor=Cursor(EPOCH, uuid.UUID(int=0))
    ),
    "how fast queues go": rates,
    "acts on a queue": lambda conn: acts_on(conn, "queue", "q", limit=21),
    "who paused queues last": lambda conn: last_pauses(conn, "queue", ["q", "r"]),
    "acts of a job": lambda conn: acts_of(conn, uuid.uuid4()),
    "runs of a job": lambda conn: runs_of(conn, uuid.uuid4()),
    "review": lambda conn: list_review(conn, "needs_review"),
    "review, a page on": lambda conn: list_review(
        conn, "needs_review", spot=list_review(conn, "needs_review").next
    ),
    "uncertain failures": lambda conn: list_review(conn, "uncertain"),
    "what was lost with a worker": lambda conn: lost_with(conn, GONE),
    "how much workers held": lambda conn: lost_by(conn, [GONE, LIVE]),
}


CAPPED = (overview, capped_counts)
"""Count up to a cap in whatever order."""


@pytest.mark.parametrize("listed", LISTS.values(), ids=LISTS)
def test_a_list_reads_its_page_and_no_large_table(loaded: Loaded, monkeypatch, listed) -> None:
    plans = explained(loaded, monkeypatch, lambda: listed(loaded.conn))
    assert plans
    assert read_whole(plans, CAP + 1 if listed in CAPPED else LARGE) <= {"running"}


MIDST: dict[State, LiteralString] = {
    "ready": "SELECT run_at AS at, id FROM countersign.ready ORDER BY id OFFSET 50000 LIMIT 1",
    "waiting": "SELECT run_at AS at, id FROM countersign.waiting ORDER BY id OFFSET 50000 LIMIT 1",
    "failed": "SELECT ended_at AS at, id FROM countersign.ended ORDER BY 1, 2 OFFSET 50000 LIMIT 1",
    "needs_review": "SELECT entered_at AS at, id FROM countersign.review OFFSET 2000 LIMIT 1",
}


@pytest.mark.parametrize("state", MIDST)
@pytest.mark.parametrize("direction", ["next", "previous"])
def test_a_page_far_from_both_ends_reads_as_little_as_the_first(
    loaded: Loaded, monkeypatch, state: State, direction
) -> None:
    (row,) = loaded.owner.execute(MIDST[state]).fetchall()
    at = Cursor(row["at"], row["id"])
    plans = explained(
        loaded,
        monkeypatch,
        lambda: list_jobs(loaded.conn, state, cursor=at, direction=direction),
    )
    assert not read_whole(plans)
    assert sum(map(pages, plans)) <= BUFFERS_PER_JOB * 51


@pytest.mark.parametrize("kind", ["needs_review", "uncertain"])
@pytest.mark.parametrize("direction", ["next", "previous"])
def test_a_page_of_the_review_is_a_walk_along_its_index(
    loaded: Loaded, monkeypatch, kind, direction
) -> None:
    """All that is in review here came in one moment, from one worker."""
    spot = list_review(loaded.conn, "needs_review", limit=3_000).next
    plans = explained(
        loaded,
        monkeypatch,
        lambda: list_review(loaded.conn, kind, spot=spot, direction=direction),
    )
    assert sum(map(pages, plans)) <= BUFFERS_PER_JOB * 50


@pytest.mark.parametrize(("verb", "place"), MARKING)
def test_an_act_that_moves_nothing_looks_up_one_job(
    loaded: Loaded, monkeypatch, verb, place: str
) -> None:
    (job,) = loaded.some(place, 1)
    plans = explained(loaded, monkeypatch, lambda: verb(loaded.conn, job, **SIGNED))
    assert sum(map(pages, plans)) <= 3 * BUFFERS_PER_JOB


NARROWED: dict[str, Filters] = {
    "a queue": {"queue": "nowhere"},
    "a name": {"name": "nothing"},
    "an error": {"error_type": "Rare"},
    "a worker": {"worker": "h-9"},
    "a schedule": {"schedule": "hourly"},
    "an operator": {"operator": "ops:bob"},
    "a part": {"search": "zz"},
    "a worker and an operator": {"worker": "h-9", "operator": "ops:bob"},
    "a name and an error": {"name": "nothing", "error_type": "Rare"},
    "a part and a queue": {"search": "zz", "queue": "nowhere"},
    "an id": {"search": "01a22cef-1b"},
    "a time": {
        "since": datetime(2026, 1, 1, tzinfo=UTC),
        "until": datetime(2026, 1, 2, tzinfo=UTC),
    },
    "none of many": {"without": {field: ["x", "y"] for field in FIELDS}},
}


@pytest.mark.parametrize("filters", NARROWED.values(), ids=NARROWED)
def test_a_filtered_list_reads_what_it_may_look_at_and_no_more(
    loaded: Loaded, monkeypatch, filters: Filters
) -> None:
    for state in STATES:
        plans = explained(
            loaded, monkeypatch, lambda state=state: list_jobs(loaded.conn, state, **filters)
        )
        assert read_whole(plans, WINDOW) <= {"running"}, state
        assert sum(map(pages, plans)) <= BUFFERS_PER_JOB * WINDOW, state
    plans = explained(loaded, monkeypatch, lambda: tabs(loaded.conn, **filters))
    assert read_whole(plans, CAP + 1) <= {"running"}


PLACES = ("ready", "waiting", "blocked", "running", "review", "ended")


@pytest.mark.parametrize("filters", NARROWED.values(), ids=NARROWED)
def test_the_number_on_a_tab_takes_one_look_at_its_rows(
    loaded: Loaded, monkeypatch, filters: Filters
) -> None:
    plans = explained(loaded, monkeypatch, lambda: tabs(loaded.conn, **filters))
    assert len(plans) == len(STATES)
    for plan in plans:
        names = [node.get("Relation Name", "") for node in nodes(plan)]
        tables = [name for name in names if name.startswith(PLACES)]
        assert tables
        assert len(tables) == len(set(tables))


@pytest.mark.parametrize("filters", [{"worker": "h"}, {"without": {"worker": ["h", "i"]}}])
def test_who_ran_a_job_is_looked_up_once_for_each_row(
    loaded: Loaded, monkeypatch, filters: Filters
) -> None:
    plans = explained(
        loaded, monkeypatch, lambda: list_jobs(loaded.conn, "needs_review", **filters)
    )
    names = [node.get("Relation Name", "") for plan in plans for node in nodes(plan)]
    assert names.count("workers") == 1


@pytest.mark.parametrize("verb", VERBS)
def test_no_join_of_a_verb_compares_each_job_with_each(loaded: Loaded, monkeypatch, verb) -> None:
    place, call = VERBS[verb]
    ids = loaded.some(place, MANY)
    plans = explained(loaded, monkeypatch, lambda: call(loaded.conn, ids))
    assert sum(map(compared, plans)) <= MANY


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


BELIEVED = """
UPDATE pg_class SET reltuples = %(rows)s
WHERE pg_class.relnamespace = 'countersign'::regnamespace AND pg_class.relkind = 'r'
"""


@pytest.fixture(params=[0, -1], ids=["analyzed when empty", "never analyzed"])
def believed(request, loaded: Loaded) -> Iterator[Loaded]:
    """Give what was loaded, with what Postgres writes down of tables before they fill."""
    loaded.owner.execute(BELIEVED, {"rows": request.param})
    yield loaded
    loaded.owner.execute(BELIEVED, {"rows": 0})


def test_looking_where_jobs_stand_reads_no_body(believed: Loaded, monkeypatch) -> None:
    for place in ("ready", "ended"):
        ids = believed.some(place, MANY)
        plans = explained(believed, monkeypatch, lambda ids=ids: locate(believed.conn, ids))
        assert not [name for name in read_whole(plans) if name.startswith("jobs")]
        assert sum(map(pages, plans)) <= BUFFERS_PER_JOB * MANY


def test_a_sweep_goes_through_what_runs_and_looks_workers_up(loaded: Loaded, monkeypatch) -> None:
    plans = explained(loaded, monkeypatch, lambda: recover(loaded.conn))
    assert read_whole(plans) <= {"running"}
    assert sum(map(pages, plans)) <= 8 * RUNNING
