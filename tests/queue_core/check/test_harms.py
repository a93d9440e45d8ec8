"""What a superuser can do to the schema, one harm at a time, and the code under which it shows."""

from typing import NamedTuple

import pytest

from queue_core import check
from queue_core.errors import SchemaError
from tests import schemas
from tests.sealing import sign

owner = schemas.owner


class Harm(NamedTuple):
    """A statement, the code it has to show under, and words of what is said."""

    statement: str
    code: str
    words: str


EDITED, MISSING = "migration.edited", "schema.missing"
OFF, GONE = "ledger.trigger_disabled", "ledger.trigger_missing"
WEEK = "to_char(now() AT TIME ZONE 'UTC', '_IYYY\"w\"IW')"


def on_partition(parent: str, statement: str) -> str:
    """Return a block that does something to this week's partition, named by %I."""
    formatted = f"format('{statement}', '{parent}' || {WEEK})"
    return f"DO $$ BEGIN EXECUTE {formatted}; END $$"


SWALLOW = "BEFORE INSERT ON {} FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()"
TABLES = {
    "a column of another type": Harm(
        "ALTER TABLE countersign.workers ALTER COLUMN pid TYPE bigint", EDITED, "workers.pid"
    ),
    "a column that may be empty": Harm(
        "ALTER TABLE countersign.ready ALTER COLUMN queue DROP NOT NULL", EDITED, "ready.queue"
    ),
    "a default less": Harm(
        "ALTER TABLE countersign.workers ALTER COLUMN beat_at DROP DEFAULT", EDITED, "beat_at"
    ),
    "a default more": Harm(
        "ALTER TABLE countersign.acts ALTER COLUMN by SET DEFAULT 'ops:bob'", EDITED, "acts.by"
    ),
    "a column more": Harm(
        "ALTER TABLE countersign.jobs ADD COLUMN secret text", EDITED, "jobs.secret"
    ),
    "a constraint less": Harm(
        "ALTER TABLE countersign.runs DROP CONSTRAINT runs_outcome_check",
        MISSING,
        "runs.runs_outcome_check",
    ),
    "a constraint more": Harm(
        "ALTER TABLE countersign.ready ADD CONSTRAINT quiet CHECK (queue <> 'pay')",
        EDITED,
        "ready.quiet",
    ),
    "a constraint of the same name": Harm(
        "ALTER TABLE countersign.ended DROP CONSTRAINT ended_state_check, "
        "ADD CONSTRAINT ended_state_check CHECK (state <> '')",
        EDITED,
        "ended.ended_state_check",
    ),
    "a constraint that holds for new rows alone": Harm(
        "ALTER TABLE countersign.running DROP CONSTRAINT running_attempt_check, "
        "ADD CONSTRAINT running_attempt_check CHECK (attempt >= 1) NOT VALID",
        EDITED,
        "NOT VALID",
    ),
    "a foreign key that is not kept": Harm(
        "ALTER TABLE countersign.sessions DISABLE TRIGGER ALL", EDITED, "trigger sessions."
    ),
    "an index on something else": Harm(
        "DROP INDEX countersign.ready_claim; "
        "CREATE INDEX ready_claim ON countersign.ready (name, queue)",
        EDITED,
        "(name, queue)",
    ),
    "a trigger on a place": Harm(
        f"CREATE TRIGGER quiet {SWALLOW.format('countersign.ready')}", EDITED, "ready.quiet"
    ),
    "a trigger on a partition": Harm(
        on_partition("jobs", f"CREATE TRIGGER quiet {SWALLOW.format('countersign.%I')}"),
        EDITED,
        ".quiet",
    ),
    "a right to a partition": Harm(
        on_partition("ended", "GRANT UPDATE ON countersign.%I TO countersign_runtime"),
        EDITED,
        "UPDATE to countersign_runtime",
    ),
    "a rule on a place": Harm(
        "CREATE RULE quiet AS ON DELETE TO countersign.running DO INSTEAD NOTHING",
        EDITED,
        "running.quiet",
    ),
    "row security": Harm(
        "ALTER TABLE countersign.jobs ENABLE ROW LEVEL SECURITY", EDITED, "row security"
    ),
    "row security on a partition": Harm(
        on_partition("ended", "ALTER TABLE countersign.%I ENABLE ROW LEVEL SECURITY"),
        EDITED,
        "with row security",
    ),
    "a place that a crash empties": Harm(
        "ALTER TABLE countersign.ready SET UNLOGGED", EDITED, "not kept after a crash"
    ),
    "a partition that a crash empties": Harm(
        on_partition("ended", "ALTER TABLE countersign.%I SET UNLOGGED"),
        EDITED,
        "not kept after a crash",
    ),
    "a place with children": Harm(
        "CREATE TABLE public.more () INHERITS (countersign.waiting)", EDITED, "public.more"
    ),
    "a partition for any time": Harm(
        "CREATE TABLE countersign.jobs_rest PARTITION OF countersign.jobs DEFAULT",
        EDITED,
        "jobs_rest",
    ),
    "partitions that changed names": Harm(
        """
        DO $$
        DECLARE
            first text := 'ended' || to_char(now() + interval '3 weeks', '_IYYY"w"IW');
            second text := 'ended' || to_char(now() + interval '4 weeks', '_IYYY"w"IW');
        BEGIN
            PERFORM countersign.make_partitions();
            EXECUTE format('ALTER TABLE countersign.%I RENAME TO between', first);
            EXECUTE format('ALTER TABLE countersign.%I RENAME TO %I', second, first);
            EXECUTE format('ALTER TABLE countersign.between RENAME TO %I', second);
        END
        $$
        """,
        EDITED,
        "another week",
    ),
    "a table of another owner": Harm(
        "ALTER TABLE countersign.workers OWNER TO postgres", EDITED, "of postgres"
    ),
    "a right less": Harm(
        "REVOKE INSERT ON countersign.ended FROM countersign_runtime", MISSING, "ended.INSERT"
    ),
    "a right less on the ledger": Harm(
        "REVOKE INSERT ON countersign.acts FROM countersign_runtime", MISSING, "acts.INSERT"
    ),
    "a right more": Harm(
        "GRANT UPDATE ON countersign.jobs TO countersign_runtime", EDITED, "jobs.UPDATE"
    ),
    "a right for everybody": Harm(
        "GRANT DELETE ON countersign.runs TO PUBLIC", EDITED, "to everybody"
    ),
    "a right to one column": Harm(
        "GRANT UPDATE (state) ON countersign.ended TO countersign_runtime", EDITED, "ended.state"
    ),
    "a right to make things": Harm(
        "GRANT CREATE ON SCHEMA countersign TO countersign_runtime", EDITED, "countersign.CREATE"
    ),
    "a schema of another owner": Harm(
        "ALTER SCHEMA countersign OWNER TO postgres", EDITED, "schema countersign"
    ),
    "a function with its caller's rights": Harm(
        "ALTER FUNCTION countersign.make_partitions(integer) SECURITY INVOKER",
        EDITED,
        "make_partitions",
    ),
    "a function for everybody": Harm(
        "GRANT EXECUTE ON FUNCTION countersign.make_partitions(integer) TO PUBLIC",
        EDITED,
        "for all",
    ),
    "a function with its caller's operators": Harm(
        "ALTER FUNCTION countersign.is_code(text) RESET search_path", EDITED, "is_code"
    ),
    "a function of another owner": Harm(
        "ALTER FUNCTION countersign.new_id() OWNER TO postgres", EDITED, "new_id"
    ),
    "a hash of an act that is another": Harm(
        "CREATE OR REPLACE FUNCTION countersign.act_digest(act countersign.acts) RETURNS bytea "
        "LANGUAGE sql STABLE PARALLEL SAFE AS 'SELECT sha256(''x'')'",
        EDITED,
        "act_digest",
    ),
    "a hash of a seal that is gone": Harm(
        "DROP FUNCTION countersign.seal_digest(countersign.seals)", MISSING, "seal_digest"
    ),
    "ids that leave gaps": Harm(
        "ALTER SEQUENCE countersign.acts_id INCREMENT 2", EDITED, "acts_id is `by 2"
    ),
    "ids that services may set": Harm(
        "GRANT UPDATE ON SEQUENCE countersign.acts_id TO countersign_runtime",
        EDITED,
        "acts_id.UPDATE",
    ),
}


def seals(statement: str) -> str:
    return f"ALTER TABLE countersign.seals {statement}"


SEALS = {
    "no stamp": Harm("DROP TRIGGER seals_stamp ON countersign.seals", GONE, "seals_stamp"),
    "no row guard": Harm(
        "DROP TRIGGER seals_refuse_row ON countersign.seals", GONE, "seals_refuse_row"
    ),
    "no statement guard": Harm(
        "DROP TRIGGER seals_refuse_statement ON countersign.seals", GONE, "seals_refuse_statement"
    ),
    "a guard turned off": Harm(
        seals("DISABLE TRIGGER seals_refuse_row"),
        OFF,
        "ALTER TABLE countersign.seals ENABLE ALWAYS TRIGGER seals_refuse_row",
    ),
    "a guard that a replica skips": Harm(
        seals("ENABLE TRIGGER seals_stamp"), OFF, "does not fire always"
    ),
    "another stamp": Harm(
        "CREATE OR REPLACE FUNCTION countersign.stamp_seal() RETURNS trigger LANGUAGE plpgsql "
        "SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS 'BEGIN RETURN NEW; END'",
        OFF,
        "was changed",
    ),
    "a stamp for everybody": Harm(
        "GRANT EXECUTE ON FUNCTION countersign.stamp_seal() TO PUBLIC", OFF, "of their own"
    ),
    "a trigger more": Harm(
        f"CREATE TRIGGER quiet {SWALLOW.format('countersign.seals')}", OFF, "'quiet'"
    ),
    "children": Harm("CREATE TABLE public.more () INHERITS (countersign.seals)", OFF, "children"),
    "rules": Harm(
        "CREATE RULE quiet AS ON INSERT TO countersign.seals DO INSTEAD NOTHING", OFF, "rules"
    ),
    "row security": Harm(seals("FORCE ROW LEVEL SECURITY"), OFF, "row security"),
    "emptied by a crash": Harm(seals("SET UNLOGGED"), OFF, "ordinary table"),
    "another owner": Harm(seals("OWNER TO postgres"), OFF, "belongs to postgres"),
    "rights": Harm(
        "GRANT TRUNCATE ON countersign.seals TO countersign_runtime", OFF, "more than to read"
    ),
    "two after one": Harm(
        seals("DROP CONSTRAINT seals_previous_key"), MISSING, "seals_previous_key"
    ),
    "short hashes": Harm(
        seals("DROP CONSTRAINT seals_sha256_check"), MISSING, "seals_sha256_check"
    ),
    "no hash": Harm(seals("ALTER COLUMN sha256 DROP NOT NULL"), EDITED, "seals.sha256"),
    "no column": Harm(seals("DROP COLUMN base"), MISSING, "seals.base"),
    "no table": Harm("DROP TABLE countersign.seals CASCADE", MISSING, "countersign.seals"),
}
HARMS = TABLES | {f"seals: {name}": harm for name, harm in SEALS.items()}
ON_THE_LEDGER = [
    "a default more",
    "a right less on the ledger",
    *(name for name in HARMS if ":" in name),
]


def test_at_least_fifty_harms_are_tried_here():
    assert len({harm.statement for harm in HARMS.values()}) >= 50


@pytest.mark.parametrize("name", HARMS)
def test_each_harm_shows_under_its_code(owner, name):
    harm = HARMS[name]
    owner.execute(harm.statement)

    found = check.check(owner)

    assert {problem.code for problem in found} == {harm.code}
    assert harm.words in " ".join(map(str, found))
    assert all(problem.mend for problem in found)


@pytest.mark.parametrize("name", ON_THE_LEDGER)
def test_what_is_done_to_the_ledger_keeps_web_and_worker_down(owner, name):
    harm = HARMS[name]
    owner.execute(harm.statement)
    with pytest.raises(SchemaError) as refused:
        check.require_sound(owner)
    assert harm.words in str(refused.value)


@pytest.mark.parametrize(
    "statement",
    [
        "GRANT SELECT ON ALL TABLES IN SCHEMA countersign TO PUBLIC",
        "CREATE INDEX mine ON countersign.runs (worker)",
        "CREATE TABLE countersign.mine (id integer PRIMARY KEY CHECK (id > 0) DEFAULT 7)",
        "CREATE FUNCTION countersign.mine() RETURNS integer LANGUAGE sql AS 'SELECT 1'",
        "ALTER TABLE countersign.ready SET (autovacuum_vacuum_scale_factor = 0.01)",
        "SELECT set_config('intervalstyle', 'iso_8601', true)",
        "SELECT set_config('quote_all_identifiers', 'on', true)",
        "SELECT set_config('search_path', 'countersign', true)",
        "SELECT set_config('datestyle', 'German', true)",
    ],
)
def test_what_does_no_harm_is_quiet(owner, statement):
    owner.execute(statement)
    assert check.check(owner, full=True) == []
    check.require_sound(owner)


def test_ids_set_back_are_found(owner):
    sign(owner, 3)
    owner.execute("SELECT setval('countersign.acts_id', 1, false)")
    (found,) = check.check(owner)
    assert found.code == "ledger.ids_set_back"
    assert "setval" in found.mend
    with pytest.raises(SchemaError):
        check.require_sound(owner)


def test_functions_in_the_way_of_postgres_own_deceive_nobody(owner):
    owner.execute(
        "CREATE SCHEMA evil; "
        "CREATE FUNCTION evil.sha256(bytea) RETURNS bytea LANGUAGE sql "
        "AS $$ SELECT '\\x00'::bytea $$; "
        "CREATE FUNCTION evil.encode(bytea, text) RETURNS text LANGUAGE sql AS $$ SELECT 'x' $$; "
        "SET LOCAL search_path = evil, pg_catalog"
    )
    assert check.check(owner) == []
    path = owner.execute("SHOW search_path").fetchone()
    assert path == {"search_path": "evil, pg_catalog"}


@pytest.mark.parametrize("table", ["ready", "ended", "acts", "seals", "acts_id", "workers"])
def test_a_service_that_may_not_read_is_told_so(owner, table):
    owner.execute(
        f"REVOKE SELECT ON countersign.{table} FROM countersign_runtime; "
        "SET LOCAL ROLE countersign_service"
    )
    found = check.check(owner, full=True)
    assert [problem.code for problem in found] == [MISSING]
    assert f"{table}.SELECT to countersign_runtime" in found[0].what
