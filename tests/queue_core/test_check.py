import hashlib
import random
import re
import threading
from pathlib import Path

import psycopg
import pytest

from queue_core import cancel, check, close, confirm, enqueue, fleet, release, retry
from queue_core.check import guards, places, schema
from queue_core.errors import SchemaError
from queue_core.migrate import make_partitions
from queue_core.outcomes import Completed, Deferred, Failed, RunReport, Unreadable
from queue_core.queries.places import locate
from queue_core.seals import seal
from queue_core.transitions.claim import Claimable, claim
from queue_core.transitions.complete import complete
from queue_core.transitions.defer import defer
from queue_core.transitions.dispute import dispute
from queue_core.transitions.fail import fail
from queue_core.transitions.give_back import give_back
from queue_core.transitions.promote import promote
from queue_core.transitions.recover import recover
from queue_core.transitions.set_aside import set_aside
from tests import schemas

MIGRATIONS = Path(__file__).parents[2] / "migrations"
owner = schemas.owner


def codes(problems: list[check.Problem]) -> list[str]:
    return [problem.code for problem in problems]


def this_week(conn, parent: str) -> str:
    row = conn.execute(
        "SELECT %s || to_char(now() AT TIME ZONE 'UTC', '_IYYY\"w\"IW') AS part", (parent,)
    ).fetchone()
    return row["part"]


def test_a_new_database_is_sound(conn, owner):
    for connection in (conn, owner):
        assert check.check(connection) == []
        assert check.check(connection, full=True) == []
        check.require_sound(connection)
        check.require_schema(connection)
        assert not check.is_foreign(connection)


# What an intruder, a mistake or a half-failed deploy does, the code it has to show under, and
# a word of what is said.
ACTS = "ALTER TABLE countersign.acts"
MAKE = "CREATE TRIGGER {0} BEFORE {1} ON countersign.acts FOR EACH {2} EXECUTE FUNCTION {3}; "
ALWAYS = "ALTER TABLE countersign.acts ENABLE ALWAYS TRIGGER {0}"


def remade(name: str, events: str, level: str, function: str) -> str:
    drop = f"DROP TRIGGER {name} ON countersign.acts; "
    return drop + MAKE.format(name, events, level, function) + ALWAYS.format(name)


STATEMENT = ("acts_refuse_statement", "UPDATE OR DELETE OR TRUNCATE", "STATEMENT")
ROW = ("acts_refuse_row", "UPDATE OR DELETE", "ROW")
REFUSE = "countersign.refuse_change()"
HARMS = {
    "a table dropped": (
        "DROP TABLE countersign.runs",
        "schema.missing",
        "countersign.runs is missing",
    ),
    "a view dropped": ("DROP VIEW countersign.job_states", "schema.missing", "job_states"),
    "a column dropped": (
        "ALTER TABLE countersign.workers DROP COLUMN lost_rule",
        "schema.missing",
        "workers.lost_rule",
    ),
    "a function dropped": (
        "DROP FUNCTION countersign.made_at(uuid)",
        "schema.missing",
        "countersign.made_at",
    ),
    "a function replaced": (
        (
            "CREATE OR REPLACE FUNCTION countersign.is_code(text text) RETURNS boolean "
            "LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT true'"
        ),
        "migration.edited",
        "countersign.is_code",
    ),
    "an index dropped": ("DROP INDEX countersign.ready_claim", "schema.missing", "ready_claim"),
    "an index left invalid": (
        (
            "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'countersign.ready_claim'"
            "::regclass"
        ),
        "schema.missing",
        "REINDEX",
    ),
    "a migration not applied": (
        "DELETE FROM countersign.migrations WHERE number = 7",
        "schema.missing",
        "flask queue migrate",
    ),
    "a migration edited": (
        "UPDATE countersign.migrations SET sha256 = 'x' WHERE number = 3",
        "migration.edited",
        "0003_places.sql was edited",
    ),
    "a newer database": (
        "INSERT INTO countersign.migrations VALUES (9000, '9000_later.sql', 'x')",
        "migration.edited",
        "newer than this code",
    ),
    "a stamp dropped": (
        "DROP TRIGGER acts_stamp ON countersign.acts",
        "ledger.trigger_missing",
        "acts_stamp",
    ),
    "a row guard dropped": (
        "DROP TRIGGER acts_refuse_row ON countersign.acts",
        "ledger.trigger_missing",
        "acts_refuse_row",
    ),
    "a trigger disabled": (
        f"{ACTS} DISABLE TRIGGER acts_refuse_row",
        "ledger.trigger_disabled",
        "ENABLE ALWAYS TRIGGER acts_refuse_row",
    ),
    "all triggers disabled": (
        f"{ACTS} DISABLE TRIGGER ALL",
        "ledger.trigger_disabled",
        "acts_stamp",
    ),
    "a trigger that a replica skips": (
        f"{ACTS} ENABLE TRIGGER acts_refuse_statement",
        "ledger.trigger_disabled",
        "does not fire always",
    ),
    "a trigger for replicas alone": (
        f"{ACTS} ENABLE REPLICA TRIGGER acts_stamp",
        "ledger.trigger_disabled",
        "does not fire always",
    ),
    "a trigger with a condition": (
        remade(ROW[0], ROW[1], "ROW WHEN (OLD.id < 0)", REFUSE),
        "ledger.trigger_disabled",
        "acts_refuse_row of the ledger has a condition",
    ),
    "a trigger for one column": (
        remade(ROW[0], "UPDATE OF note OR DELETE", "ROW", REFUSE),
        "ledger.trigger_disabled",
        "acts_refuse_row of the ledger has a condition",
    ),
    "a trigger for fewer events": (
        remade(STATEMENT[0], "UPDATE OR DELETE", "STATEMENT", REFUSE),
        "ledger.trigger_disabled",
        "other events",
    ),
    "a trigger that calls something else": (
        "CREATE FUNCTION countersign.nothing() RETURNS trigger LANGUAGE plpgsql SET search_path ="
        " pg_catalog, pg_temp AS 'BEGIN RETURN NULL; END'; "
        + remade(*STATEMENT, "countersign.nothing()"),
        "ledger.trigger_disabled",
        "calls another function",
    ),
    "a trigger's function replaced": (
        (
            "CREATE OR REPLACE FUNCTION countersign.refuse_change() RETURNS trigger "
            "LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS 'BEGIN RETURN OLD; END'"
        ),
        "ledger.trigger_disabled",
        "was changed",
    ),
    "a trigger's function with its caller's rights": (
        "ALTER FUNCTION countersign.stamp_act() SECURITY INVOKER",
        "ledger.trigger_disabled",
        "was changed",
    ),
    "a trigger's function with its caller's search path": (
        "ALTER FUNCTION countersign.stamp_act() RESET search_path",
        "ledger.trigger_disabled",
        "was changed",
    ),
    "a trigger's function of another owner": (
        "ALTER FUNCTION countersign.stamp_act() OWNER TO postgres",
        "ledger.trigger_disabled",
        "was changed",
    ),
    "a trigger's function that others may use": (
        "GRANT EXECUTE ON FUNCTION countersign.stamp_act() TO PUBLIC",
        "ledger.trigger_disabled",
        "of their own",
    ),
    "a column of the ledger that others may change": (
        "GRANT UPDATE (reason) ON countersign.acts TO countersign_runtime",
        "ledger.trigger_disabled",
        "grants others more",
    ),
    "a trigger more": (
        (
            "CREATE TRIGGER quiet BEFORE INSERT ON countersign.acts FOR EACH ROW "
            "EXECUTE FUNCTION suppress_redundant_updates_trigger()"
        ),
        "ledger.trigger_disabled",
        "quiet",
    ),
    "a ledger with children": (
        "CREATE TABLE public.more () INHERITS (countersign.acts)",
        "ledger.trigger_disabled",
        "children",
    ),
    "a ledger with rules": (
        "CREATE RULE quiet AS ON INSERT TO countersign.acts DO INSTEAD NOTHING",
        "ledger.trigger_disabled",
        "rules",
    ),
    "a ledger with row security": (
        f"{ACTS} ENABLE ROW LEVEL SECURITY",
        "ledger.trigger_disabled",
        "row security",
    ),
    "a ledger that a crash empties": (
        f"{ACTS} SET UNLOGGED",
        "ledger.trigger_disabled",
        "ordinary table",
    ),
    "a ledger of another owner": (
        f"{ACTS} OWNER TO postgres",
        "ledger.trigger_disabled",
        "belongs to postgres",
    ),
    "a ledger that others may change": (
        "GRANT TRIGGER ON countersign.acts TO countersign_runtime",
        "ledger.trigger_disabled",
        "more than to read",
    ),
    "a ledger that takes unsigned acts": (
        f"{ACTS} ALTER COLUMN by DROP NOT NULL",
        "migration.edited",
        "column acts.by",
    ),
    "a ledger that takes anything as a code": (
        f"{ACTS} DROP CONSTRAINT acts_by_check",
        "schema.missing",
        "acts_by_check",
    ),
    "no schema": ("DROP SCHEMA countersign CASCADE", "schema.missing", "flask queue migrate"),
}
NO_REASON_TO_STAY_DOWN = {"an index dropped", "an index left invalid"}


@pytest.mark.parametrize("harm", HARMS)
def test_each_harm_shows_under_its_code(owner, harm):
    statement, code, words = HARMS[harm]
    owner.execute(statement)

    found = check.check(owner)

    assert set(codes(found)) == {code}
    assert words in " ".join(map(str, found))
    assert all(problem.mend for problem in found)


@pytest.mark.parametrize("harm", [harm for harm in HARMS if harm not in NO_REASON_TO_STAY_DOWN])
def test_neither_web_nor_worker_starts_after_it(owner, harm):
    statement, _, words = HARMS[harm]
    owner.execute(statement)

    with pytest.raises(SchemaError) as refused:
        check.require_sound(owner)

    assert words in str(refused.value)


@pytest.mark.parametrize("harm", sorted(NO_REASON_TO_STAY_DOWN))
def test_an_index_keeps_nobody_down(owner, harm):
    owner.execute(HARMS[harm][0])

    check.require_sound(owner)


def test_every_problem_is_named_at_once(owner):
    owner.execute(f"DROP TABLE countersign.runs; {ACTS} DISABLE TRIGGER acts_stamp")

    with pytest.raises(SchemaError) as refused:
        check.require_sound(owner)

    assert "countersign.runs is missing" in str(refused.value)
    assert "ENABLE ALWAYS TRIGGER acts_stamp" in str(refused.value)


@pytest.mark.parametrize(
    ("harm", "refused", "foreign"),
    [
        ("no schema", True, True),
        ("a newer database", True, True),
        ("a migration edited", True, False),
        ("a migration not applied", True, False),
        ("a trigger disabled", False, False),
    ],
)
def test_readers_need_the_schema_of_this_code(owner, harm, refused, foreign):
    owner.execute(HARMS[harm][0])

    assert check.is_foreign(owner) is foreign
    if refused:
        with pytest.raises(SchemaError):
            check.require_schema(owner)
    else:
        check.require_schema(owner)


def test_a_role_without_rights_is_told_which_it_lacks(owner):
    owner.execute("CREATE ROLE stranger; SET LOCAL ROLE stranger")

    found = check.check(owner)

    assert codes(found) == ["schema.missing"]
    assert 'GRANT countersign_runtime TO "stranger"' in found[0].mend
    assert check.warnings(owner) == []
    assert check.is_foreign(owner)


DISINHERITED = """
CREATE ROLE stranger NOINHERIT;
GRANT countersign_runtime TO stranger WITH INHERIT FALSE;
SET LOCAL ROLE stranger
"""


def test_a_member_that_does_not_inherit_is_told_what_helps(owner):
    owner.execute(DISINHERITED)
    (found,) = check.check(owner)
    owner.execute("RESET ROLE")
    owner.execute(found.mend.split("`")[1])
    owner.execute("SET LOCAL ROLE stranger")
    assert not check.is_foreign(owner)


def test_an_older_server_is_told_its_own_way(owner, monkeypatch):
    monkeypatch.setattr(check, "INHERIT_IS_GRANTED", 1_000_000)
    owner.execute(DISINHERITED)
    assert 'ALTER ROLE "stranger" INHERIT' in check.check(owner)[0].mend


def test_the_expected_schema_is_what_the_migrations_make(owner):
    """A table, column, function or index that a new migration brings belongs into the lists."""
    owner.execute("SET LOCAL search_path = countersign")
    have = {table.name: set(table.columns) for table in tables(owner)}
    functions = {
        row["name"]
        for row in owner.execute(
            "SELECT proname AS name FROM pg_proc WHERE pronamespace = 'countersign'::regnamespace"
        ).fetchall()
    }
    indexes = {
        row["name"]
        for row in owner.execute(
            "SELECT index.relname AS name FROM pg_index JOIN pg_class AS index "
            "ON index.oid = indexrelid WHERE index.relnamespace = 'countersign'::regnamespace "
            "AND NOT index.relispartition"
        ).fetchall()
    }

    assert have == {name: set(columns) for name, columns in schema.COLUMNS.items()}
    assert functions == set(schema.BODIES) | {"stamp_act", "stamp_seal", "refuse_change"}
    assert indexes == schema.INDEXES


def tables(conn):
    return places.rows(conn, schema.TABLES, {}, schema._Table)


def test_the_bodies_that_are_compared_are_those_of_the_files():
    bodies = {}
    for file in sorted(MIGRATIONS.glob("*.sql")):
        for name, body in re.findall(
            r"CREATE (?:OR REPLACE )?FUNCTION countersign\.(\w+)\(.*?AS \$\$(.*?)\$\$;",
            file.read_text(),
            re.DOTALL,
        ):
            bodies[name] = hashlib.sha256(body.encode()).hexdigest()

    ours = dict(schema.BODIES)
    ours |= {
        wanted.function.split(".")[1]: wanted.sha256
        for triggers in guards.TRIGGERS.values()
        for wanted in triggers.values()
    }
    assert bodies == ours


# Partitions -------------------------------------------------------------------------------------


@pytest.mark.parametrize("parent", ["jobs", "ended"])
def test_a_dropped_partition_of_this_week_is_missed(owner, parent):
    part = this_week(owner, parent)
    owner.execute(f"DROP TABLE countersign.{part}")

    (problem,) = check.check(owner)

    assert problem.code == "partition.missing"
    assert part in problem.what
    assert "flask queue migrate" in problem.mend


def test_a_detached_partition_of_this_week_is_missed(owner):
    part = this_week(owner, "ended")
    owner.execute(f"ALTER TABLE countersign.ended DETACH PARTITION countersign.{part}")

    (problem,) = check.check(owner)

    assert problem.code == "partition.missing"
    assert "not attached" in problem.what
    assert "ATTACH PARTITION" in problem.mend


@pytest.mark.parametrize(("ahead", "warned"), [(4, False), (3, True)])
def test_fewer_than_four_weeks_ahead_are_warned_about(owner, ahead, warned):
    make_partitions(owner)
    drop_partitions_after(owner, ahead)

    assert check.check(owner) == []
    found = [each for each in check.warnings(owner) if each.code == "partition.missing"]
    assert bool(found) is warned


def test_next_weeks_partition_cannot_be_done_without(owner):
    drop_partitions_after(owner, 0)

    assert codes(check.check(owner)) == ["partition.missing"] * 2


def drop_partitions_after(owner, weeks: int) -> None:
    drops = owner.execute(
        "SELECT format('DROP TABLE countersign.%%I', relname) AS drop FROM pg_class "
        "WHERE relnamespace = 'countersign'::regnamespace AND relkind = 'r' AND relispartition "
        "AND substring(relname FROM '_(.*)') > "
        "to_char((now() + make_interval(days => 7 * %s)) AT TIME ZONE 'UTC', 'IYYY\"w\"IW')",
        (weeks,),
    ).fetchall()
    for row in drops:
        owner.execute(row["drop"])


def test_empty_weeks_of_long_ago_are_warned_about(owner):
    for parent in ("jobs", "ended"):
        owner.execute(
            f"CREATE TABLE countersign.{parent}_2020w01 PARTITION OF countersign.{parent} "
            "FOR VALUES FROM ('016f5c00-0000-0000-0000-000000000000') "
            "TO ('016f8000-0000-0000-0000-000000000000')"
        )
    warning = next(each for each in check.warnings(owner) if each.code == "partition.kept")
    assert "QUEUE_OWNER_URL" in warning.mend
    owner.execute(
        "INSERT INTO countersign.jobs (id, name, queue, args, priority) "
        "VALUES ('016f5c00-0000-7000-8000-000000000000', 'old', 'default', '{}', 0)"
    )
    assert "partition.kept" not in codes(check.warnings(owner))


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/Los_Angeles", "Pacific/Kiritimati"])
def test_the_sessions_time_zone_does_not_matter(owner, zone):
    owner.execute(f"SET LOCAL timezone = '{zone}'")
    make_partitions(owner)

    assert check.check(owner) == []
    assert "partition.missing" not in codes(check.warnings(owner))


# Roles --------------------------------------------------------------------------------------------


def test_a_role_that_could_rewrite_the_ledger_is_warned_about(conn, owner):
    (warning,) = [each for each in check.warnings(owner) if each.code == "ledger.one_role"]

    assert "ledger.one_role" not in codes(check.warnings(conn))
    assert "QUEUE_OWNER_URL" in warning.mend


# Places -------------------------------------------------------------------------------------------


@pytest.fixture
def job(owner, registry):
    """Give a job that is ready, in a transaction of the superuser's."""
    return enqueue(owner, "mail.send").id


COPIES = {
    "waiting": "INSERT INTO countersign.waiting SELECT * FROM countersign.ready",
    "blocked": "INSERT INTO countersign.blocked SELECT *, 'key' FROM countersign.ready",
    "review": "INSERT INTO countersign.review (id, why, attempt) "
    "SELECT id, 'lost', 1 FROM countersign.ready",
    "ended": "INSERT INTO countersign.ended (id, state, attempt) "
    "SELECT id, 'failed', 1 FROM countersign.ready",
}


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("place", COPIES)
def test_a_job_in_two_places_is_found(owner, job, place, full):
    owner.execute(COPIES[place])

    problem, *more = check.check(owner, full=full)

    assert codes(more) == (["counts.wrong"] if full and place == "ended" else [])
    assert problem.code == "job.two_places"
    assert str(job) in problem.what
    assert place in problem.what
    assert "ready" in problem.what


@pytest.fixture
def run(owner, job, make_worker, claim_one):
    """Claim the job for a live worker."""
    return claim_one(owner, make_worker(owner))


def test_a_running_job_that_has_ended_too_is_found(owner, run):
    owner.execute(
        "INSERT INTO countersign.ended (id, state, attempt) "
        "SELECT id, 'completed', 1 FROM countersign.running"
    )

    (problem,) = check.check(owner)

    assert problem.code == "job.two_places"
    assert "ended and running" in problem.what


@pytest.mark.parametrize("full", [False, True])
def test_a_job_in_no_place_is_found(owner, job, full):
    owner.execute("DELETE FROM countersign.ready")

    (problem,) = check.check(owner, full=full)

    assert problem.code == "job.no_place"
    assert str(job) in problem.what


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize(
    ("place", "table", "mend"),
    [
        ("ready", "ready", "flask queue cancel"),
        ("waiting", "waiting", "flask queue cancel"),
        ("blocked", "blocked", "flask queue cancel"),
        ("running", "running", "its worker sends it to review"),
        ("needs_review", "review", "flask queue confirm|close"),
        ("failed", "ended", "cannot be retried"),
    ],
)
def test_a_place_whose_job_has_no_body_is_found(owner, job_in, place, table, mend, full):
    job_in(owner, place)
    made = job_in(owner, place)
    owner.execute("DELETE FROM countersign.jobs WHERE id = %s", [made.id])

    (problem,) = check.check(owner, full=full)

    assert problem.code == "job.no_body"
    assert f"{made.id} stands in {table}" in problem.what
    assert mend in problem.mend


@pytest.mark.parametrize("full", [False, True])
def test_the_quick_form_looks_for_the_bodies_of_the_newest(owner, registry, monkeypatch, full):
    monkeypatch.setattr(places, "NEWEST_IDS", 2)
    for _ in range(3):
        enqueue(owner, "mail.send")
    owner.execute("DELETE FROM countersign.jobs")

    assert codes(check.check(owner, full=full)) == ["job.no_body"] * (3 if full else 2)


def test_the_arguments_of_a_lost_job_are_not_told(owner, job):
    owner.execute("DELETE FROM countersign.ready")

    assert "canary" not in str(check.check(owner))


def test_old_jobs_are_looked_at_in_full_only(owner):
    owner.execute(
        "CREATE TABLE countersign.jobs_1970 PARTITION OF countersign.jobs FOR VALUES FROM "
        "('00000000-0000-0000-0000-000000000000') TO ('01000000-0000-0000-0000-000000000000')"
    )
    owner.execute(
        "INSERT INTO countersign.jobs (id, name, queue, args, priority) "
        "VALUES ('00ff0000-0000-7000-8000-000000000000', 'old', 'default', '{}', 0)"
    )

    assert check.check(owner) == []
    assert codes(check.check(owner, full=True)) == ["job.no_place"]


@pytest.mark.parametrize("full", [False, True])
def test_the_quick_form_looks_at_the_newest_ids_of_each_place(owner, monkeypatch, registry, full):
    monkeypatch.setattr(places, "NEWEST_IDS", 3)
    for _ in range(5):
        enqueue(owner, "mail.send")
    owner.execute(
        "INSERT INTO countersign.ended (id, state, attempt) "
        "SELECT id, 'failed', 1 FROM countersign.ready"
    )

    found = codes(check.check(owner, full=full))

    assert found.count("job.two_places") == (5 if full else 3)


def test_of_very_many_problems_the_first_hundred_of_a_kind_are_told(owner, registry):
    for _ in range(101):
        enqueue(owner, "mail.send")
    owner.execute("DELETE FROM countersign.ready")

    assert len(check.check(owner)) == 100


HOUR = "- interval '1 hour'"
MINUTE = "- interval '1 minute'"


@pytest.mark.parametrize(
    ("harm", "unowned"),
    [
        ("DELETE FROM countersign.workers", True),
        (f"UPDATE countersign.workers SET stopped_at = now() {HOUR}", True),
        (f"UPDATE countersign.workers SET lost_at = now() {HOUR}, lost_rule = 'stale'", True),
        (f"UPDATE countersign.workers SET stopped_at = now() {MINUTE}", False),
        (f"UPDATE countersign.workers SET lost_at = now() {MINUTE}, lost_rule = 'stale'", False),
        (f"UPDATE countersign.workers SET beat_at = now() {HOUR}", False),
    ],
)
def test_a_run_that_no_worker_owns_is_found(owner, run, harm, unowned):
    owner.execute(harm)

    found = check.check(owner)

    assert codes(found) == ["run.unowned"] * unowned
    assert all(str(run.id) in problem.what for problem in found)


# Honest states ------------------------------------------------------------------------------------


def hand_back(conn, worker, reports: list[RunReport]) -> None:
    give_back(conn, worker, [(report.id, report.attempt) for report in reports])


class Life:
    """Random honest moves of jobs, each by the statement that makes it in earnest."""

    def __init__(self, conn, worker, seed: int) -> None:
        self.conn, self.worker, self.chance = conn, worker, random.Random(seed)
        self.late: list[RunReport] = []

    def step(self) -> None:
        moves = [self.enqueue, self.claim, self.end_runs, self.act, self.sweep]
        self.chance.choices(moves, weights=[4, 5, 5, 4, 1])[0]()

    def enqueue(self) -> None:
        delay = self.chance.choice([None, None, 0.0, 3_600.0])
        enqueue(self.conn, "mail.send", delay=delay, attempts=self.chance.choice([None, 1, 3]))

    def claim(self) -> None:
        names = [Claimable("mail.send", 1, self.chance.choice(["attempts", "review"]))]
        claim(self.conn, worker=self.worker, names=names, count=self.chance.randrange(1, 4))

    def end_runs(self) -> None:
        for row in self.pick("SELECT id, attempt FROM countersign.running"):
            end, ending = self.chance.choice(
                [
                    (complete, Completed()),
                    (fail, Failed("no")),
                    (fail, Failed("crashed: signal 9", "crashed", signal=9)),
                    (defer, Deferred(0.0)),
                    (hand_back, Failed("shut down")),
                    (set_aside, Unreadable("unreadable")),
                    (dispute, Failed("late")),
                ]
            )
            report = RunReport(row["id"], row["attempt"], ending, 1.0, 4122)
            if end is dispute:
                self.late.append(report)
            else:
                end(self.conn, self.worker, [report])

    def act(self) -> None:
        ids = [row["id"] for row in self.pick("SELECT id FROM countersign.jobs")]
        verb = self.chance.choice([cancel, retry, release, confirm, close])
        verb(self.conn, ids, by="ops:alice", reason="on-call")

    def sweep(self) -> None:
        promote(self.conn)
        if self.chance.random() < 0.5:
            fleet.stop(self.conn, self.worker)
            recover(self.conn)
            self.worker = fleet.register(
                self.conn, fleet.Identity("pay-3", 4121, "b", "n", "0.1.0", [], 4)
            )
        while self.late:
            dispute(self.conn, self.worker, [self.late.pop()])

    def pick(self, statement: str) -> list[dict]:
        found = self.conn.execute(statement + " ORDER BY id").fetchall()
        return self.chance.sample(found, min(len(found), 3))


@pytest.mark.parametrize("seed", range(4))
def test_a_thousand_honest_states_are_quiet(conn, registry, make_worker, seed):
    life = Life(conn, make_worker(conn), seed)
    for moved in range(250):
        life.step()
        assert places.problems(conn, full=moved % 2 == 0) == []
    assert check.check(conn, full=True) == []
    ids = [row["id"] for row in conn.execute("SELECT id FROM countersign.jobs").fetchall()]
    states = {place.state for place in locate(conn, ids).values()}
    assert states >= {"ready", "waiting", "completed", "failed", "cancelled", "needs_review"}


KILL = """
SELECT pg_terminate_backend(pg_stat_activity.pid, 10000)
FROM pg_stat_activity
WHERE pg_stat_activity.pid = %s
"""


def test_a_thousand_honest_moves_with_seals_and_kills_between_are_quiet(
    database, registry, make_worker
):
    watcher, killer = database.connect(), database.owner()
    life = Life(database.connect(), make_worker(watcher), seed=7)
    for moved in range(1_000):
        if moved % 40 == 39:  # the moves since the last commit never were
            doomed, kept = database.connect(autocommit=False), life.conn
            life.conn, worker, late = doomed, life.worker, list(life.late)
            for _ in range(life.chance.randrange(1, 6)):
                life.step()
            killer.execute(KILL, [doomed.info.backend_pid])
            doomed.close()
            life.conn, life.worker, life.late = kept, worker, late
        life.step()
        if moved % 10 == 0:
            seal(watcher)
        if moved % 40 == 0:
            assert check.check(watcher) == []
    while seal(watcher):
        pass
    assert check.check(watcher, full=True) == []
    signed = watcher.execute(
        "SELECT (SELECT count(*) FROM countersign.acts) AS acts, "
        "(SELECT sum(count) FROM countersign.seals) AS sealed"
    ).fetchone()
    assert signed["acts"] == signed["sealed"] > 100


def test_jobs_on_the_move_do_not_show_in_two_places_or_none(database, registry, make_worker):
    watching = database.connect()
    stop = threading.Event()
    failures: list[BaseException] = []

    def move(seed: int) -> None:
        conn = database.connect()
        life = Life(conn, make_worker(conn, pid=seed), seed)
        try:
            while not stop.is_set():
                life.enqueue()
                life.claim()
                life.end_runs()
        except BaseException as error:  # noqa: BLE001 - is raised again in the test
            failures.append(error)

    threads = [threading.Thread(target=move, args=(seed,)) for seed in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(60):
            assert check.check(watching) == []
    finally:
        stop.set()
        for thread in threads:
            thread.join(20)
    assert failures == []


# The connection -----------------------------------------------------------------------------------


def test_an_autocommit_connection_is_read_in_one_snapshot_and_left_as_it_was(database, monkeypatch):
    conn, other = database.connect(), database.owner()
    conn.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
    seen: list[object] = []
    honest = places.problems

    def problems(connection, *, full):
        seen.append(
            connection.execute(
                "SELECT current_setting('transaction_isolation') AS isolation, "
                "current_setting('transaction_read_only') AS read_only"
            ).fetchone()
        )
        other.execute(
            "INSERT INTO countersign.jobs (id, name, queue, args, priority) "
            "VALUES (countersign.new_id(), 'stray', 'default', '{}', 0)"
        )
        return honest(connection, full=full)

    monkeypatch.setattr(places, "problems", problems)

    assert check.check(conn) == []
    assert seen == [{"isolation": "repeatable read", "read_only": "on"}]
    assert conn.autocommit
    assert conn.isolation_level is psycopg.IsolationLevel.READ_COMMITTED
    assert conn.read_only is None
    assert codes(check.check(conn)) == ["job.no_place"]


def test_the_settings_come_back_after_a_failure_too(database, monkeypatch):
    conn = database.connect()
    monkeypatch.setattr(places, "problems", lambda *_, **__: conn.execute("SELECT 1/0"))

    with pytest.raises(psycopg.errors.DivisionByZero):
        check.check(conn)

    assert conn.read_only is None
    conn.execute("CREATE TEMPORARY TABLE writable ()")


def test_the_callers_transaction_is_left_open(conn):
    conn.execute("CREATE TEMPORARY TABLE mine ()")

    check.check(conn)
    check.require_sound(conn)

    conn.execute("SELECT FROM mine")
