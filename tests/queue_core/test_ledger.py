"""The ledger: only ever added to, by anybody; and no change without its act."""

import re
import uuid
from collections.abc import Callable, Iterator
from typing import Any, get_args

import psycopg
import pytest
from psycopg.rows import DictRow, dict_row

from queue_core import NewJob, cancel, embedded, enqueue, enqueue_signed, release, retry
from queue_core.queries.acts import acts_of
from queue_core.registry import OnLost
from queue_core.states import ACTS, ENDED, OUTCOMES

SIGNED: dict[str, Any] = {"by": "ops:alice", "reason": "seen_in_test"}

WHO = {
    "a service": "SET LOCAL SESSION AUTHORIZATION countersign_service",
    "the schema's owner": "SET LOCAL ROLE countersign_owner",
    "a superuser": "SELECT 1",
    "a replica": "SET LOCAL session_replication_role = replica",
    "the owner on a replica": (
        "SET LOCAL session_replication_role = replica; SET LOCAL ROLE countersign_owner"
    ),
}
"""Who is speaking, said by a superuser."""


@pytest.fixture
def superuser(migrated: embedded.Server) -> Iterator[psycopg.Connection[DictRow]]:
    """Give a connection of the superuser, rolled back, in a database with one act in it."""
    connect = psycopg.Connection[DictRow].connect
    with connect(migrated.owner_url, row_factory=dict_row) as connection:
        connection.execute(ACT)
        yield connection
        connection.rollback()


def says(superuser: psycopg.Connection[DictRow], who: str, statement: str) -> None:
    """Execute a statement as somebody, in a savepoint."""
    with superuser.transaction():
        superuser.execute(who.encode())
        superuser.execute(statement.encode())


ACT = """
INSERT INTO countersign.acts (by, act, subject_kind, subject_id, subject_name, attempt, reason, via)
VALUES ('ops:alice', 'cancelled', 'job', gen_random_uuid(), 'mail.send', 1, 'why_not', 'code')
"""
REWRITES = {
    "an update": "UPDATE countersign.acts SET reason = 'another'",
    "an update of nothing": "UPDATE countersign.acts SET reason = 'another' WHERE false",
    "an update to the same": "UPDATE countersign.acts SET by = by",
    "an update by a CTE": (
        "WITH a AS (UPDATE countersign.acts SET note = 'x' RETURNING 1) SELECT * FROM a"
    ),
    "a delete": "DELETE FROM countersign.acts",
    "a delete of nothing": "DELETE FROM countersign.acts WHERE false",
    "a delete by a CTE": "WITH a AS (DELETE FROM countersign.acts RETURNING 1) SELECT * FROM a",
    "a truncation": "TRUNCATE countersign.acts",
    "a truncation of all that hangs on it": "TRUNCATE countersign.acts CASCADE",
    "a merge that updates": """
        MERGE INTO countersign.acts USING (VALUES (1)) AS given (n) ON acts.attempt = given.n
        WHEN MATCHED THEN UPDATE SET reason = 'another'""",
    "a merge that deletes": """
        MERGE INTO countersign.acts USING (VALUES (1)) AS given (n) ON acts.attempt = given.n
        WHEN MATCHED THEN DELETE""",
    "a merge that would, and meets nothing": """
        MERGE INTO countersign.acts USING (VALUES (1)) AS given (n) ON false
        WHEN MATCHED THEN DELETE""",
    "an upsert": ACT.replace("(by,", "(id, by,").replace("('ops", "(1, 'ops")
    + "ON CONFLICT (id) DO UPDATE SET reason = 'another'",
    "an upsert on a condition": ACT
    + "ON CONFLICT (id) DO UPDATE SET reason = 'another' WHERE false",
}


@pytest.mark.parametrize("statement", REWRITES.values(), ids=REWRITES)
@pytest.mark.parametrize("who", WHO.values(), ids=WHO)
def test_nobody_rewrites_the_ledger(superuser, who: str, statement: str) -> None:
    before = superuser.execute("SELECT * FROM countersign.acts").fetchall()
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        says(superuser, who, statement)
    assert superuser.execute("SELECT * FROM countersign.acts").fetchall() == before


# What an inserter may choose

FORGED = """
INSERT INTO countersign.acts (id, at, xid, by, act, subject_kind, subject_id, subject_name, attempt,
    reason, via)
VALUES (1, '2001-01-01', '3', 'ops:alice', 'cancelled', 'job', gen_random_uuid(), 'mail.send', 1,
    'backdated', 'code')
"""
FORGERIES = {
    "an insert": FORGED,
    "an insert that ignores conflicts": FORGED + "ON CONFLICT DO NOTHING",
    "a merge": """
        MERGE INTO countersign.acts USING (VALUES (1)) AS given (n) ON false
        WHEN NOT MATCHED THEN INSERT (id, at, xid, by, act, subject_kind, subject_id, subject_name,
            attempt, reason, via)
        VALUES (1, '2001-01-01', '3', 'ops:alice', 'cancelled', 'job', gen_random_uuid(),
            'mail.send', 1, 'backdated', 'code')""",
}
STAMPS = """
SELECT acts.id, acts.at BETWEEN now() AND clock_timestamp() AS at_now,
    acts.xid = pg_current_xact_id() AS own_xid
FROM countersign.acts
ORDER BY acts.id
"""


def stamped(connection: psycopg.Connection[DictRow]) -> list[int]:
    """Return the acts' ids, having seen that the trigger set them, their dates and xids."""
    stamps = connection.execute(STAMPS).fetchall()
    assert all(stamp["at_now"] and stamp["own_xid"] for stamp in stamps)
    ids = [stamp["id"] for stamp in stamps]
    assert len(set(ids)) == len(ids)
    return ids


@pytest.mark.parametrize("statement", FORGERIES.values(), ids=FORGERIES)
@pytest.mark.parametrize("who", WHO.values(), ids=WHO)
def test_nobody_chooses_id_date_or_transaction_of_an_act(
    superuser, who: str, statement: str
) -> None:
    (first,) = stamped(superuser)
    says(superuser, who, statement)
    assert stamped(superuser)[-1] > first


@pytest.mark.parametrize("who", WHO.values(), ids=WHO)
def test_a_copy_chooses_nothing_either(superuser, who: str) -> None:
    (first,) = stamped(superuser)
    line = f"1\t2001-01-01\t3\tops:alice\tcancelled\tjob\t{uuid.uuid4()}\tmail.send\t1\tx\tcode\n"
    columns = "id, at, xid, by, act, subject_kind, subject_id, subject_name, attempt, reason, via"
    with superuser.transaction():
        superuser.execute(who)
        with superuser.cursor().copy(f"COPY countersign.acts ({columns}) FROM STDIN") as copy:
            for _ in range(2):
                copy.write(line)
    assert len(stamped(superuser)) == 3
    assert stamped(superuser)[1] > first


def test_dates_of_acts_go_on_within_a_transaction(conn) -> None:
    conn.execute(ACT)
    conn.execute(ACT)
    earlier, later = conn.execute("SELECT id, at FROM countersign.acts ORDER BY id").fetchall()
    assert earlier["at"] < later["at"]


def test_every_trigger_of_the_ledger_fires_always(conn) -> None:
    query = """
        SELECT tgname AS name, tgenabled::text AS enabled, tgqual IS NULL AS whenever
        FROM pg_trigger WHERE tgrelid = 'countersign.acts'::regclass AND NOT tgisinternal
        ORDER BY tgname"""
    assert conn.execute(query).fetchall() == [
        {"name": name, "enabled": "A", "whenever": True}
        for name in ("acts_refuse_row", "acts_refuse_statement", "acts_stamp")
    ]


# What the table holds by itself

GOOD: dict[str, Any] = {
    "by": "ops:alice",
    "act": "cancelled",
    "subject_kind": "job",
    "subject_id": uuid.uuid4(),
    "subject_name": "mail.send",
    "attempt": 0,
    "reason": "why_not",
    "note": None,
    "via": "code",
}
INSERT = """
INSERT INTO countersign.acts (by, act, subject_kind, subject_id, subject_name, attempt, reason,
    note, via)
VALUES (%(by)s, %(act)s, %(subject_kind)s, %(subject_id)s, %(subject_name)s, %(attempt)s,
    %(reason)s, %(note)s, %(via)s)
"""


def test_a_whole_act_fits_the_table(conn) -> None:
    conn.execute(INSERT, GOOD | {"note": "x" * 2_000, "via": "v" * 400})
    conn.execute(INSERT, GOOD | {"subject_kind": "operator", "subject_id": None, "attempt": None})


@pytest.mark.parametrize(
    "wrong",
    [
        {"act": "invented"},
        {"subject_kind": "table"},
        {"subject_id": None},
        {"attempt": None},
        {"subject_kind": "operator"},
        {"subject_kind": "operator", "subject_id": None},
        {"note": ""},
        {"note": "x" * 2_001},
        {"via": ""},
        {"via": "v" * 401},
        {"by": None},
        {"reason": None},
        {"subject_name": None},
        {"via": None},
    ],
    ids=str,
)
def test_an_act_that_is_not_whole_is_refused_by_the_table(conn, wrong: dict[str, Any]) -> None:
    with pytest.raises((psycopg.errors.CheckViolation, psycopg.errors.NotNullViolation)):
        conn.execute(INSERT, GOOD | wrong)


@pytest.mark.parametrize(
    ("table", "column", "listed"),
    [
        ("acts", "act", ACTS),
        ("runs", "outcome", OUTCOMES),
        ("ended", "state", ENDED),
        ("running", "on_lost", get_args(OnLost)),
        ("acts", "subject_kind", ("job", "queue", "schedule", "operator")),
    ],
)
def test_the_lists_in_the_schema_are_those_of_the_code(
    conn, table: str, column: str, listed
) -> None:
    query = """
        SELECT pg_get_constraintdef(oid) AS text FROM pg_constraint
        WHERE conrelid = to_regclass('countersign.' || %s) AND contype = 'c'"""
    checks = [row["text"] for row in conn.execute(query, [table]).fetchall()]
    (check,) = [text for text in checks if re.match(rf"CHECK \(\({column} = ANY ", text)]
    named = re.findall(r"'([^']*)'", check)
    assert len(named) == len(listed)
    assert set(named) == set(listed)


def test_an_act_outlives_its_job(superuser, registry) -> None:
    job = enqueue(superuser, "mail.send").id
    cancel(superuser, [job], **SIGNED)
    superuser.execute("DELETE FROM countersign.ended")
    superuser.execute("DELETE FROM countersign.jobs")
    (act,) = acts_of(superuser, job)
    assert (act.subject_name, act.attempt, act.act) == ("mail.send", 0, "cancelled")


# What a service may not do

FORBIDDEN = (
    "ALTER TABLE countersign.acts DISABLE TRIGGER ALL",
    "ALTER TABLE countersign.acts DISABLE TRIGGER acts_refuse_row",
    "ALTER TABLE countersign.acts ENABLE REPLICA TRIGGER acts_refuse_statement",
    "ALTER TABLE countersign.acts ADD COLUMN more text",
    "ALTER TABLE countersign.acts DROP CONSTRAINT acts_pkey",
    "ALTER TABLE countersign.acts ENABLE ROW LEVEL SECURITY",
    "ALTER TABLE countersign.acts OWNER TO countersign_service",
    "ALTER TABLE countersign.acts SET SCHEMA public",
    "ALTER TABLE countersign.acts RENAME TO was_acts",
    "DROP TRIGGER acts_stamp ON countersign.acts",
    "DROP TABLE countersign.acts",
    "DROP SCHEMA countersign CASCADE",
    "CREATE TRIGGER mine AFTER INSERT ON countersign.acts EXECUTE FUNCTION countersign.stamp_act()",
    "CREATE RULE mine AS ON INSERT TO countersign.acts DO INSTEAD NOTHING",
    "CREATE TABLE countersign.mine ()",
    "CREATE TEMP TABLE mine () INHERITS (countersign.acts)",
    "CREATE FUNCTION countersign.mine() RETURNS integer LANGUAGE sql AS 'SELECT 1'",
    "CREATE OR REPLACE FUNCTION countersign.new_id() RETURNS uuid LANGUAGE sql AS 'SELECT NULL'",
    "ALTER FUNCTION countersign.stamp_act() SECURITY INVOKER",
    "DROP FUNCTION countersign.stamp_act() CASCADE",
    "SELECT setval('countersign.acts_id', 1)",
    "SELECT nextval('countersign.acts_id')",
    "ALTER SEQUENCE countersign.acts_id RESTART",
    "SET ROLE countersign_owner",
    "SET ROLE postgres",
    "SET session_replication_role = replica",
    "ALTER ROLE countersign_service SUPERUSER",
    "GRANT countersign_owner TO countersign_service",
    "UPDATE countersign.jobs SET args = '{}'",
    "DELETE FROM countersign.jobs",
    "TRUNCATE countersign.jobs",
    "ALTER TABLE countersign.jobs ADD COLUMN more text",
    "UPDATE countersign.runs SET error = NULL",
    "DELETE FROM countersign.runs",
    "TRUNCATE countersign.runs",
    "UPDATE countersign.ended SET state = 'completed'",
    "TRUNCATE countersign.ended",
    "UPDATE countersign.ready SET rank = 0",
    "UPDATE countersign.waiting SET run_at = now()",
    "UPDATE countersign.review SET why = 'lost'",
    "DELETE FROM countersign.workers",
    "DELETE FROM countersign.operators",
    "DELETE FROM countersign.migrations",
    "INSERT INTO countersign.migrations (number, name, sha256) VALUES (99, 'x', 'y')",
    "UPDATE countersign.migrations SET sha256 = 'y'",
)


@pytest.mark.parametrize("statement", FORBIDDEN)
def test_a_service_has_no_right_to_change_what_is_settled(conn, statement: str) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        conn.execute(statement)


def test_a_service_cannot_give_itself_a_right(conn) -> None:
    conn.execute("GRANT ALL ON countersign.acts TO countersign_service")  # no more than a warning
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="permission denied"):
        conn.execute("UPDATE countersign.acts SET reason = 'another'")


def test_a_service_has_no_code_of_its_own_run_as_the_owner(conn) -> None:
    # The types of a table of one's own can call anything: as whoever sets its columns.
    conn.execute("CREATE TEMP TABLE mine (id bigint, at timestamptz, xid xid8)")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        conn.execute(
            "CREATE TRIGGER mine BEFORE INSERT ON mine FOR EACH ROW "
            "EXECUTE FUNCTION countersign.stamp_act()"
        )


def test_a_service_brings_no_operators_that_take_anything_for_a_code(superuser) -> None:
    superuser.execute("""
        CREATE SCHEMA mine;
        CREATE FUNCTION mine.yes(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT true';
        CREATE OPERATOR mine.~ (LEFTARG = text, RIGHTARG = text, FUNCTION = mine.yes);
        CREATE OPERATOR mine.!~ (LEFTARG = text, RIGHTARG = text, FUNCTION = mine.yes);
        GRANT USAGE ON SCHEMA mine TO countersign_runtime;
        SET LOCAL search_path = mine, pg_catalog
    """)
    with pytest.raises(psycopg.errors.CheckViolation):
        says(superuser, WHO["a service"], ACT.replace("'why_not'", r"E'why\u202enot'"))


def test_a_partition_is_no_way_round_its_parent(conn, registry) -> None:
    enqueue(conn, "mail.send")
    query = "SELECT tableoid::regclass::text AS name FROM countersign.jobs LIMIT 1"
    (partition,) = [row["name"] for row in conn.execute(query).fetchall()]
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        conn.execute(f"UPDATE {partition} SET priority = 1")


def test_a_service_is_no_more_than_a_member_of_runtime(conn) -> None:
    query = """
        SELECT rolsuper OR rolcreaterole OR rolcreatedb OR rolreplication OR rolbypassrls AS power,
            pg_has_role(oid, 'countersign_owner', 'MEMBER') AS owner,
            pg_has_role(oid, 'countersign_runtime', 'USAGE') AS runtime
        FROM pg_roles WHERE rolname = current_user"""
    (role,) = conn.execute(query).fetchall()
    assert role == {"power": False, "owner": False, "runtime": True}
    groups = """
        SELECT bool_or(rolcanlogin) AS login FROM pg_roles
        WHERE rolname IN ('countersign_owner', 'countersign_runtime')"""
    assert conn.execute(groups).fetchall() == [{"login": False}]


# One change, one act, one commit

ON_ACT = """
CREATE FUNCTION public.on_act() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
AS $$ BEGIN {} RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER on_act AFTER INSERT ON countersign.acts {}
    FOR EACH ROW EXECUTE FUNCTION public.on_act()
"""
FAILURES = {
    "the ledger refuses the act": ("RAISE EXCEPTION 'the ledger is full';", ""),
    "the backend dies before its commit": (
        "PERFORM pg_terminate_backend(pg_backend_pid()); PERFORM pg_sleep(5);",
        "DEFERRABLE INITIALLY DEFERRED",
    ),
}


def enqueues_signed(conn: psycopg.Connection[Any], ids: list[uuid.UUID], **signed: Any) -> None:
    del ids
    enqueue_signed(conn, NewJob("mail.send"), **signed)


ACTS_FROM: dict[str, tuple[str, Callable[..., Any]]] = {
    "cancel of a ready one": ("ready", cancel),
    "cancel of a waiting one": ("waiting", cancel),
    "cancel of a blocked one": ("blocked", cancel),
    "cancel of a running one": ("running", cancel),
    "retry of a failed one": ("failed", retry),
    "retry of a cancelled one": ("cancelled", retry),
    "release": ("needs_review", release),
    "enqueue": ("ready", enqueues_signed),
}


def acts_and_commits(
    caller: psycopg.Connection[DictRow], act: Callable[..., Any], job: uuid.UUID
) -> None:
    act(caller, [job], **SIGNED)
    caller.commit()


@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
def test_without_its_act_there_is_no_change(database, job_in, contents, failure) -> None:
    with database.connect() as watching, database.owner() as owner:
        jobs = {name: job_in(watching, place) for name, (place, _) in ACTS_FROM.items()}
        before = contents(watching)
        owner.execute(ON_ACT.format(*failure))
        for name, (_, act) in ACTS_FROM.items():
            for autocommit in (True, False):
                caller = database.connect(autocommit=autocommit)
                with pytest.raises(psycopg.Error):
                    acts_and_commits(caller, act, jobs[name].id)
                caller.close()
                assert contents(watching) == before, (name, autocommit)


def test_a_backend_killed_from_outside_before_the_commit_leaves_nothing(
    shared_database, job_in, contents
) -> None:
    with shared_database.connect() as watching, shared_database.owner() as owner:
        jobs = {name: job_in(watching, place) for name, (place, _) in ACTS_FROM.items()}
        before = contents(watching)
        for name, (_, act) in ACTS_FROM.items():
            caller = shared_database.connect(autocommit=False)
            act(caller, [jobs[name].id], **SIGNED)
            killed = "SELECT pg_terminate_backend(%s, 5000) AS done"
            assert owner.execute(killed, [caller.info.backend_pid]).fetchone() == {"done": True}
            with pytest.raises(psycopg.OperationalError):
                caller.commit()
            assert contents(watching) == before, name


def test_without_the_change_there_is_no_act(database, job_in, contents) -> None:
    """The place that a job would go to refuses it, and the act goes back with it."""
    verbs = (("ready", cancel), ("failed", retry), ("needs_review", release))
    with database.connect() as caller, database.owner() as owner:
        jobs = [(job_in(caller, place).id, verb) for place, verb in verbs]
        before = contents(caller)
        owner.execute("ALTER TABLE countersign.ended ADD CHECK (id IS NULL) NOT VALID")
        owner.execute("ALTER TABLE countersign.ready ADD CHECK (id IS NULL) NOT VALID")
        for job, verb in jobs:
            with pytest.raises(psycopg.errors.CheckViolation):
                verb(caller, [job], **SIGNED)
            assert contents(caller) == before
