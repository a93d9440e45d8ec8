"""Migrations: each file once, one boot at a time, refused where edited, newer or not allowed."""

import importlib
import pkgutil
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import conninfo, sql
from psycopg.rows import DictRow, dict_row, tuple_row

import queue_core
from queue_core import SchemaError, enqueue, migrate
from queue_core.queries.migrations import applied, differences, known, missing
from tests import schemas

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "migrations").glob("*.sql"))
NAMES = [file.name for file in FILES]
Conn = psycopg.Connection[DictRow]
folder = schemas.folder


@dataclass
class Bare:
    """An empty database of a test's own, for any role."""

    url: str
    name: str
    _stack: ExitStack

    def connect(self, *, autocommit: bool = True, **options: str) -> Conn:
        """Open a connection of the superuser, or as `options` say; closed at the test's end."""
        url = conninfo.make_conninfo(self.url, **options)
        connection = psycopg.Connection[DictRow].connect(
            url, autocommit=autocommit, row_factory=dict_row
        )
        return self._stack.enter_context(connection)


@pytest.fixture
def conn(conn):
    """Give all the weeks that a migration makes, until the transaction is rolled back."""
    make_partitions(conn)
    return conn


@pytest.fixture
def database(database):
    """Give all the weeks that a migration makes."""
    make_partitions(database.owner())
    return database


@pytest.fixture
def bare(migrated) -> Iterator[Bare]:
    """Give an empty database on a server that has our roles."""
    name = f"bare_{uuid.uuid4().hex[:12]}"
    admin_url = conninfo.make_conninfo(migrated.owner_url, dbname="postgres")
    with psycopg.connect(admin_url, autocommit=True) as admin:
        admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        try:
            with ExitStack() as stack:
                yield Bare(conninfo.make_conninfo(migrated.owner_url, dbname=name), name, stack)
        finally:
            drop = sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name))
            admin.execute(drop)


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_a_database_that_cannot_keep_every_text_is_refused(bare: Bare, encoding: str) -> None:
    name = f"{bare.name}_{encoding.lower()}"
    with bare.connect() as owner:
        owner.execute(
            f"CREATE DATABASE {name} ENCODING '{encoding}' LOCALE 'C' LOCALE_PROVIDER libc "
            "TEMPLATE template0".encode()
        )
        with bare.connect(dbname=name) as conn:
            with pytest.raises(SchemaError, match=encoding):
                migrate.migrate(conn)
            assert not has(conn, "countersign.migrations")
        owner.execute(f"DROP DATABASE {name}".encode())


def test_a_server_that_is_too_old_is_refused(bare: Bare, monkeypatch) -> None:
    conn = bare.connect()
    monkeypatch.setattr(migrate, "OLDEST_SERVER", conn.info.server_version + 1)
    with pytest.raises(SchemaError, match="14 is needed"):
        migrate.migrate(conn)
    assert not has(conn, "countersign.migrations")


def has(conn: Conn, table: str) -> bool:
    (row,) = conn.execute("SELECT to_regclass(%s) IS NOT NULL AS present", [table]).fetchall()
    return row["present"]


# Applying


def test_an_empty_database_gets_every_file_once_in_order(bare: Bare) -> None:
    conn = bare.connect()
    assert applied(conn) == []
    assert [each.name for each in missing(conn)] == NAMES
    assert migrate.migrate(conn) == NAMES
    assert [(each.number, each.name) for each in applied(conn)] == [
        (number, name) for number, name in enumerate(NAMES, start=1)
    ]
    assert missing(conn) == []
    assert migrate.migrate(conn) == []
    assert differences(conn) == []


def test_boots_at_once_apply_every_file_once(bare: Bare) -> None:
    together = threading.Barrier(4)

    def boot(conn: Conn) -> list[str]:
        together.wait()
        return migrate.migrate(conn)

    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(boot, [bare.connect() for _ in range(4)]))
    assert sorted(done) == [[], [], [], NAMES]


def test_a_boot_waits_for_the_one_that_migrates_without_a_snapshot(bare: Bare) -> None:
    holder, waiter = bare.connect(), bare.connect()
    holder.execute("SELECT pg_advisory_lock(%s)", [migrate.LOCK_KEY])
    holder.execute("CREATE TABLE public.busy (id int)")
    holder.execute("SET statement_timeout = '10s'")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(migrate.migrate, waiter)
        # Waits for every snapshot there is, so also for that of a waiting boot.
        holder.execute("CREATE INDEX CONCURRENTLY ON public.busy (id)")
        time.sleep(3 * migrate.POLL_SECONDS)
        assert not waiting.done()
        holder.execute("SELECT pg_advisory_unlock(%s)", [migrate.LOCK_KEY])
        assert waiting.result(timeout=30) == NAMES


def test_a_boot_does_not_wait_for_ever(bare: Bare, monkeypatch) -> None:
    monkeypatch.setattr(migrate, "LONGEST_WAIT_SECONDS", 0.2)
    bare.connect().execute("SELECT pg_advisory_lock(%s)", [migrate.LOCK_KEY])
    conn = bare.connect()
    with pytest.raises(SchemaError, match="another process"):
        migrate.migrate(conn)
    assert not has(conn, "countersign.migrations")


def test_the_lock_is_let_go_of_whatever_happened(bare: Bare, folder: Path) -> None:
    (folder / "0001_foundation.sql").write_text("SELECT 1 / 0;")
    conn = bare.connect()
    with pytest.raises(psycopg.errors.DivisionByZero):
        migrate.migrate(conn)
    query = "SELECT pg_try_advisory_lock(%s) AS got"
    assert bare.connect().execute(query, [migrate.LOCK_KEY]).fetchall() == [{"got": True}]


def test_a_file_that_fails_in_the_middle_leaves_nothing_of_itself(bare: Bare, folder: Path) -> None:
    (folder / "0101_good.sql").write_text("CREATE TABLE countersign.good (id int);")
    bad = folder / "0102_bad.sql"
    bad.write_text("CREATE TABLE countersign.half (id int); SELECT 1 / 0; SELECT 2;")
    conn = bare.connect()
    with pytest.raises(psycopg.errors.DivisionByZero):
        migrate.migrate(conn)
    assert (has(conn, "countersign.good"), has(conn, "countersign.half")) == (True, False)
    assert [each.name for each in missing(conn)] == ["0102_bad.sql"]
    bad.write_text("CREATE TABLE countersign.half (id int);")
    assert migrate.migrate(conn) == ["0102_bad.sql"]
    assert has(conn, "countersign.half")


def test_a_file_that_cannot_be_recorded_is_not_applied(
    bare: Bare, folder: Path, monkeypatch
) -> None:
    conn = bare.connect()
    migrate.migrate(conn)
    (folder / "0101_good.sql").write_text("CREATE TABLE countersign.good (id int);")
    monkeypatch.setattr(migrate, "_record", lambda _: "SELECT 1 / 0")
    with pytest.raises(psycopg.errors.DivisionByZero):
        migrate.migrate(conn)
    assert not has(conn, "countersign.good")


def test_outside_autocommit_nothing_would_be_kept_so_it_is_refused(bare: Bare) -> None:
    conn = bare.connect(autocommit=False)
    with pytest.raises(SchemaError, match="autocommit"):
        migrate.migrate(conn)
    assert conn.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


# A busy queue


def test_a_busy_table_is_waited_out(database, folder: Path) -> None:
    (folder / "0101_busy.sql").write_text(
        "SET LOCAL lock_timeout = '50ms'; ALTER TABLE countersign.ready ADD COLUMN extra int;"
    )
    busy, conn = database.connect(autocommit=False), database.owner()
    busy.execute("SELECT FROM countersign.ready")
    with ThreadPoolExecutor(1) as pool:
        migrating = pool.submit(migrate.migrate, conn)
        time.sleep(0.4)
        assert not migrating.done()
        busy.rollback()
        assert migrating.result(timeout=30) == ["0101_busy.sql"]


def test_a_deadlock_with_the_queues_own_traffic_is_waited_out(database, folder: Path) -> None:
    (folder / "0101_crossing.sql").write_text(
        "SET LOCAL deadlock_timeout = '50ms'; SET LOCAL lock_timeout = '10s';"
        "LOCK TABLE countersign.ready; LOCK TABLE countersign.waiting;"
    )
    busy, conn, look = database.connect(autocommit=False), database.owner(), database.owner()
    busy.execute("SELECT FROM countersign.waiting")
    with ThreadPoolExecutor(1) as pool:
        migrating = pool.submit(migrate.migrate, conn)
        wait_for_lock_of(look, conn.info.backend_pid)
        busy.execute("SELECT FROM countersign.ready")
        busy.rollback()
        assert migrating.result(timeout=30) == ["0101_crossing.sql"]


WAITS = """
SELECT wait_event_type = 'Lock' AS waits FROM pg_stat_activity WHERE pid = %s
"""


def wait_for_lock_of(look: Any, pid: int) -> None:
    give_up = time.monotonic() + 15
    while look.execute(WAITS, [pid]).fetchall() != [{"waits": True}]:
        assert time.monotonic() < give_up
        time.sleep(0.01)


def test_a_table_that_stays_busy_is_named_in_the_end(database, folder: Path, monkeypatch) -> None:
    monkeypatch.setattr(migrate, "LOCK_TRIES", 2)
    (folder / "0101_busy.sql").write_text(
        "SET LOCAL lock_timeout = '20ms'; LOCK TABLE countersign.ready;"
    )
    database.connect(autocommit=False).execute("SELECT FROM countersign.ready")
    with pytest.raises(SchemaError, match=r"0101_busy\.sql could not get its locks"):
        migrate.migrate(database.owner())


# Edited and newer


def test_an_edited_file_is_refused_and_nothing_is_applied(database, folder: Path) -> None:
    edited = folder / NAMES[1]
    edited.write_text(edited.read_text() + "\n-- one more thought\n")
    (folder / "0101_new.sql").write_text("CREATE TABLE countersign.new (id int);")
    conn = database.owner()
    with pytest.raises(SchemaError, match=f"{NAMES[1]} was edited"):
        migrate.migrate(conn)
    with pytest.raises(SchemaError, match=f"{NAMES[1]} was edited"):
        missing(conn)
    assert not has(conn, "countersign.new")


def test_line_ends_of_another_system_are_no_edit(database, folder: Path) -> None:
    for file in folder.iterdir():
        file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    conn = database.owner()
    assert differences(conn) == []
    assert migrate.migrate(conn) == []


def test_files_with_line_ends_of_another_system_can_be_applied(bare: Bare, folder: Path) -> None:
    for file in folder.iterdir():
        file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    conn = bare.connect()
    assert migrate.migrate(conn) == NAMES
    (row,) = conn.execute(FUNCTION_BODIES).fetchall()
    assert "\r" not in row["bodies"]


FUNCTION_BODIES = """
SELECT string_agg(pg_proc.prosrc, '') AS bodies
FROM pg_proc WHERE pg_proc.pronamespace = 'countersign'::regnamespace
"""


def test_a_database_that_is_newer_than_the_code_is_refused(database) -> None:
    conn = database.owner()
    conn.execute("INSERT INTO countersign.migrations VALUES (9001, '9001_later.sql', 'x')")
    for look in (migrate.migrate, missing):
        with pytest.raises(SchemaError, match=r"9001_later\.sql, newer than this code"):
            look(conn)


def test_every_difference_is_told_at_once(database, folder: Path) -> None:
    (folder / NAMES[0]).write_text("SELECT 1;")
    conn = database.owner()
    conn.execute("INSERT INTO countersign.migrations VALUES (9001, '9001_later.sql', 'x')")
    assert len(differences(conn)) == 2


def test_files_that_are_no_migrations_are_passed_over(folder: Path) -> None:
    for name in ("README.md", "0101_draft.sql.orig", "101_short.sql", "0102_Upper.sql", "x.sql"):
        (folder / name).write_text("SELECT 1 / 0;")
    assert [each.name for each in known()] == NAMES


# The same by hand

CATALOGUE = """
SELECT 'column', table_name, column_name, data_type, is_nullable, column_default
FROM information_schema.columns WHERE table_schema = 'countersign'
UNION ALL
SELECT 'constraint', conrelid::regclass::text, conname, pg_get_constraintdef(oid), contype::text, ''
FROM pg_constraint WHERE connamespace = 'countersign'::regnamespace
UNION ALL
SELECT 'relation', relname, relkind::text, relowner::regrole::text, relacl::text, reloptions::text
FROM pg_class WHERE relnamespace = 'countersign'::regnamespace
UNION ALL
SELECT 'index', tablename, indexname, indexdef, '', ''
FROM pg_indexes WHERE schemaname = 'countersign'
UNION ALL
SELECT 'trigger', tgrelid::regclass::text, tgname, pg_get_triggerdef(oid), tgenabled::text, ''
FROM pg_trigger WHERE tgrelid::regclass::text LIKE 'countersign.%' AND NOT tgisinternal
UNION ALL
SELECT 'function', oid::regprocedure::text, pg_get_functiondef(oid), proowner::regrole::text,
    proacl::text, prosecdef::text
FROM pg_proc WHERE pronamespace = 'countersign'::regnamespace
UNION ALL
SELECT 'view', viewname, definition, viewowner, '', ''
FROM pg_views WHERE schemaname = 'countersign'
UNION ALL
SELECT 'schema', nspname, nspowner::regrole::text, nspacl::text, '', ''
FROM pg_namespace WHERE nspname = 'countersign'
ORDER BY 1, 2, 3, 4
"""


def catalogue(conn: Conn) -> list[tuple[Any, ...]]:
    with psycopg.Cursor(conn, row_factory=tuple_row) as cursor:
        return cursor.execute(CATALOGUE).fetchall()


def test_the_printed_script_makes_the_same_schema(bare: Bare, database) -> None:
    conn = bare.connect()
    conn.execute(migrate.as_sql().encode())
    assert conn.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
    printed, migrated = catalogue(conn), catalogue(database.owner())
    assert len(printed) > 400
    assert printed == migrated
    assert (differences(conn), missing(conn), migrate.migrate(conn)) == ([], [], [])


def test_the_printed_script_stops_a_file_as_a_whole(bare: Bare, folder: Path) -> None:
    (folder / "0101_bad.sql").write_text("CREATE TABLE countersign.half (id int); SELECT 1 / 0;")
    conn = bare.connect()
    with pytest.raises(psycopg.errors.DivisionByZero):
        conn.execute(migrate.as_sql().encode())
    conn.execute("ROLLBACK")
    assert not has(conn, "countersign.half")
    assert [each.name for each in missing(conn)] == ["0101_bad.sql"]


def test_the_printed_script_makes_no_role_a_superuser_or_able_to_log_in(bare: Bare) -> None:
    conn = bare.connect()
    conn.execute(migrate.as_sql().encode())
    query = """
        SELECT rolcanlogin OR rolsuper OR rolcreaterole OR rolbypassrls AS powerful FROM pg_roles
        WHERE rolname IN ('countersign_owner', 'countersign_runtime')
    """
    assert conn.execute(query).fetchall() == [{"powerful": False}] * 2


# As which role


@pytest.fixture
def role(bare: Bare) -> Iterator[Callable[[str], str]]:
    """Give a function that makes a login role with options; dropped at the end."""
    made: list[str] = []
    admin = bare.connect()

    def make(options: str) -> str:
        made.append(f"role_{uuid.uuid4().hex[:8]}")
        query = f"CREATE ROLE {made[-1]} LOGIN {options}"
        admin.execute(query.encode())
        return made[-1]

    yield make
    for name in made:
        admin.execute(f"DROP OWNED BY {name}; DROP ROLE {name}".encode())


def grant(bare: Bare, role: str, *, create: bool, owner: str = "") -> None:
    admin = bare.connect()
    if create:
        admin.execute(f"GRANT CREATE ON DATABASE {bare.name} TO {role}".encode())
    if owner:
        admin.execute(f"GRANT countersign_owner TO {role} {owner}".encode())


def test_the_maker_of_the_roles_can_migrate_without_being_a_superuser(bare: Bare, role) -> None:
    # What Postgres 16 and later give to whoever creates a role: to administer it, no more.
    maker = role("CREATEROLE")
    grant(bare, maker, create=True, owner="WITH ADMIN TRUE, INHERIT FALSE, SET FALSE")
    conn = bare.connect(user=maker)
    assert migrate.migrate(conn) == NAMES
    assert migrate.migrate(conn) == []
    assert has(conn, "countersign.acts")


def test_a_plain_role_that_was_granted_the_owner_can_migrate(bare: Bare, role) -> None:
    plain = role("")
    grant(bare, plain, create=True, owner="WITH INHERIT TRUE")
    conn = bare.connect(user=plain)
    assert migrate.migrate(conn) == NAMES
    query = (
        "SELECT nspowner::regrole::text AS owner FROM pg_namespace WHERE nspname = 'countersign'"
    )
    assert conn.execute(query).fetchall() == [{"owner": "countersign_owner"}]


@pytest.mark.parametrize(
    ("options", "create", "owner"),
    [("", True, ""), ("", False, "WITH INHERIT TRUE"), ("CREATEROLE", False, "")],
)
def test_a_role_that_may_not_is_told_what_it_takes(
    bare: Bare, role, options, create, owner
) -> None:
    plain = role(options)
    grant(bare, plain, create=create, owner=owner)
    conn = bare.connect(user=plain)
    with pytest.raises(SchemaError, match="CREATEROLE") as refused:
        migrate.migrate(conn)
    assert "\n" not in str(refused.value)
    assert not has(bare.connect(), "countersign.migrations")


def test_a_service_may_neither_migrate_nor_spoil(database) -> None:
    conn = database.connect()
    assert migrate.migrate(conn) == []  # all is there, and partitions are its own to make
    for statement in (
        "CREATE TABLE countersign.mine (id int)",
        "UPDATE countersign.migrations SET sha256 = ''",
        "DROP TABLE countersign.ready",
        "ALTER TABLE countersign.jobs ADD COLUMN mine int",
        "UPDATE countersign.jobs SET priority = 1",
        "DELETE FROM countersign.jobs",
        "TRUNCATE countersign.ended",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            conn.execute(statement.encode())


# Partitions

PARTS = """
SELECT child.relname AS name, pg_get_expr(child.relpartbound, child.oid) AS bounds
FROM pg_inherits
JOIN pg_class AS child ON child.oid = pg_inherits.inhrelid
WHERE pg_inherits.inhparent = %s::regclass
ORDER BY child.relname
"""
BOUNDS = re.compile(r"FOR VALUES FROM \('(\S+)'\) TO \('(\S+)'\)")


def parts(conn: Any, parent: str) -> list[tuple[str, str]]:
    """Return the bounds of a table's partitions, in order of their names."""
    found: list[tuple[str, str]] = []
    for row in conn.execute(PARTS, [f"countersign.{parent}"]).fetchall():
        match = BOUNDS.fullmatch(row["bounds"])
        assert match, row  # so there is no default partition either
        found.append((match[1], match[2]))
    return found


def make_partitions(conn: Any, ahead: int | None = None) -> int:
    call = (
        "SELECT countersign.make_partitions(%s) AS made"
        if ahead is not None
        else ("SELECT countersign.make_partitions() AS made")
    )
    (row,) = conn.execute(call, [ahead] if ahead is not None else []).fetchall()
    return row["made"]


@pytest.mark.parametrize("parent", ["jobs", "ended"])
def test_partitions_reach_16_weeks_ahead_without_a_gap(conn, parent: str) -> None:
    bounds = parts(conn, parent)
    assert len(bounds) == 18
    assert bounds == sorted(bounds)
    assert [high for _, high in bounds[:-1]] == [low for low, _ in bounds[1:]]
    weeks = "SELECT date_trunc('week', now(), 'UTC') AS week"
    (now,) = conn.execute(weeks).fetchall()
    made = "SELECT countersign.made_at(%s) AS low, countersign.made_at(%s) AS high"
    (ends,) = conn.execute(made, [bounds[0][0], bounds[-1][1]]).fetchall()
    assert now["week"] - ends["low"] == timedelta(weeks=1)
    assert ends["high"] - now["week"] == timedelta(weeks=17)


def test_partitions_are_made_once_and_as_far_as_asked(database) -> None:
    conn = database.connect()
    assert make_partitions(conn) == 0
    assert make_partitions(conn, 18) == 4
    assert make_partitions(conn, 18) == 0
    assert make_partitions(conn, 0) == 0
    assert len(parts(conn, "jobs")) == 20


@pytest.mark.parametrize("ahead", [-1, 521])
def test_partitions_without_end_are_refused(conn, ahead: int) -> None:
    with pytest.raises(psycopg.errors.RaiseException):
        make_partitions(conn, ahead)


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "America/New_York"])
def test_weeks_are_those_of_utc_wherever_the_session_is(database, zone: str) -> None:
    conn = database.connect()
    conn.execute(
        "SELECT set_config('TimeZone', %s, false), set_config('DateStyle', 'German', false)", [zone]
    )
    assert make_partitions(conn) == 0
    assert make_partitions(conn, 60) == 2 * 44  # past both changes of the clocks
    bounds = parts(conn, "ended")
    assert [high for _, high in bounds[:-1]] == [low for low, _ in bounds[1:]]


def test_two_may_make_partitions_at_once(database) -> None:
    together = threading.Barrier(2)

    def make(conn: Any) -> int:
        together.wait()
        return make_partitions(conn, 26)

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(make, [database.connect(), database.connect()])) == [0, 20]
    assert len(parts(database.connect(), "jobs")) == 28


def test_an_open_enqueue_and_new_partitions_do_not_wait_for_each_other(database, registry) -> None:
    asking, making, late = (database.connect(autocommit=False) for _ in range(3))
    for conn in (making, late):
        conn.execute("SET lock_timeout = '2s'")
        conn.commit()
    first = enqueue(asking, "mail.send").id
    assert make_partitions(making, 17) == 2
    second = enqueue(late, "mail.send").id
    late.commit()
    making.commit()
    asking.commit()
    found = late.execute(
        "SELECT count(*) AS n FROM countersign.jobs WHERE id = ANY(%s)", [[first, second]]
    )
    assert found.fetchall() == [{"n": 2}]


def test_who_migrates_does_not_wait_for_ever_for_partitions(database, monkeypatch) -> None:
    monkeypatch.setattr(migrate, "MAKE_PARTITIONS", migrate.MAKE_PARTITIONS.replace("5s", "50ms"))
    owner, other = database.owner(), database.owner()
    (part,) = owner.execute(
        "SELECT max(inhrelid::regclass::text) AS name FROM pg_inherits "
        "WHERE inhparent = 'countersign.jobs'::regclass"
    ).fetchall()
    owner.execute(f"DROP TABLE {part['name']}".encode())
    with other.transaction():
        other.execute("LOCK TABLE countersign.jobs IN SHARE MODE")
        with pytest.raises(SchemaError, match="partitions"):
            migrate.migrate(owner)
    assert migrate.migrate(owner) == []
    assert len(parts(owner, "jobs")) == 18


def test_only_services_and_the_owner_may_make_partitions(database) -> None:
    conn = database.owner()
    conn.execute("GRANT USAGE ON SCHEMA countersign TO pg_monitor; SET ROLE pg_monitor")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        make_partitions(conn)


EDGE = """
SELECT each.tableoid::regclass::text AS part FROM countersign.jobs AS each WHERE each.name = %s
ORDER BY each.id
"""


def test_an_id_stands_in_the_partition_of_its_week_to_the_millisecond(conn) -> None:
    insert = """
        INSERT INTO countersign.jobs (id, name, queue, args, priority)
        SELECT countersign.lowest_id(date_trunc('week', now(), 'UTC') + %s), 'edge', 'q', '{}', 0
    """
    for offset in (timedelta(milliseconds=-1), timedelta(0), timedelta(weeks=1, milliseconds=-1)):
        conn.execute(insert, [offset])
    before, first, last = (row["part"] for row in conn.execute(EDGE, ["edge"]).fetchall())
    assert before < first == last


def test_an_id_past_the_last_partition_is_refused(conn) -> None:
    with pytest.raises(psycopg.errors.CheckViolation):
        conn.execute(
            """
            INSERT INTO countersign.jobs (id, name, queue, args, priority)
            SELECT countersign.lowest_id(now() + interval '18 weeks'), 'edge', 'q', '{}', 0
            """
        )


# Ids


def test_ids_are_uuids_of_version_7_that_rise_and_differ(conn) -> None:
    query = "SELECT countersign.new_id() AS id FROM generate_series(1, 5000)"
    ids = [row["id"] for row in conn.execute(query).fetchall()]
    assert {(each.version, each.variant) for each in ids} == {(7, uuid.RFC_4122)}
    assert len(set(ids)) == 5_000
    times = [each.int >> 64 for each in ids]
    assert times == sorted(times)
    assert len({each.int & (1 << 62) - 1 for each in ids}) == 5_000


def test_an_id_tells_when_it_was_made(conn) -> None:
    query = """
        SELECT made.at BETWEEN now() - interval '1 ms' AND clock_timestamp()
            AND countersign.lowest_id(made.at) <= fresh.id
            AND countersign.lowest_id(made.at + interval '1 ms') > fresh.id AS told
        FROM (SELECT countersign.new_id() AS id FROM generate_series(1, 500)) AS fresh
        CROSS JOIN LATERAL (SELECT countersign.made_at(fresh.id) AS at) AS made
    """
    assert conn.execute(query).fetchall() == [{"told": True}] * 500


# The files


def test_files_are_numbered_without_gaps_and_open_with_their_purpose() -> None:
    assert [int(name[:4]) for name in NAMES] == list(range(1, len(NAMES) + 1))
    for file in FILES:
        purpose, timeout, *_ = file.read_text().splitlines()
        assert re.fullmatch(r"-- [A-Z].*\.", purpose), file.name
        assert timeout.startswith("SET LOCAL lock_timeout"), file.name


STATEMENT = re.compile(r"\b(SELECT|INSERT INTO|DELETE FROM|UPDATE countersign)\b")


def queries() -> Iterator[tuple[str, str]]:
    """Yield every file and every statement, whole and in its pieces, with where it stands."""
    for file in FILES:
        yield file.name, re.sub(r"--.*", "", file.read_text())
    for found in pkgutil.walk_packages(queue_core.__path__, "queue_core."):
        for name, text in vars(importlib.import_module(found.name)).items():
            if isinstance(text, str) and name.isupper() and STATEMENT.search(text):
                yield f"{found.name}.{name}", text


NEWER_THAN_14 = re.compile(
    r"""
    \bMERGE\ INTO\b | \bNULLS\ (NOT\ )?DISTINCT\b | \bsecurity_invoker\b
    | \bregexp_(count|instr|like|substr)\b | \bSET\ NULL\ \(                                 # 15
    | \bany_value\( | \bIS\ (NOT\ )?JSON\b | \bpg_has_role\([^)]*'SET' | \bsystem_user\b
    | \bWITH\ (INHERIT|SET)\b | \barray_(sample|shuffle)\( | (?<![\w'])\d+_\d+ | \bpg_input_ # 16
    | \bJSON_(TABLE|QUERY|VALUE|EXISTS|SCALAR)\b | \btransaction_timeout\b | \brandom\(\d
    | \bto_(bin|oct)\( | \bMAINTAIN\b | \bmerge_action\(                                     # 17
    | \buuidv[47]\( | \bWITHOUT\ OVERLAPS\b | \bNOT\ ENFORCED\b | \bVIRTUAL\b | \bPERIOD\b
    | \bRETURNING\ (OLD|NEW|WITH)\b | \b(min|max)\((\w+\.)?id\) | \barray_(sort|reverse)\(   # 18
    """,
    re.VERBOSE,
)


def without_a_name(text: str) -> list[str]:
    """Return what follows each nameless subquery in FROM, which Postgres takes from 16 on."""
    found: list[str] = []
    for start in re.finditer(r"\b(?:FROM|JOIN|LATERAL)\s*\((?=\s*(?:SELECT|VALUES|\())", text):
        depth, at = 1, start.end()
        while depth and at < len(text):
            depth += {"(": 1, ")": -1}.get(text[at], 0)
            at += 1
        if not depth and not re.match(r"\s*AS \w+", text[at:]):
            found.append(text[at : at + 40])
    return found


def test_no_statement_needs_more_than_postgres_14() -> None:
    seen = list(queries())
    assert len(seen) > 60
    assert [
        (where, match[0]) for where, text in seen for match in NEWER_THAN_14.finditer(text)
    ] == []
    assert [(where, name) for where, text in seen for name in without_a_name(text)] == []


@pytest.mark.parametrize(
    "text",
    ["SELECT uuidv7()", "SELECT max(jobs.id)", "LIMIT 1_000", "MERGE INTO x", "RETURNING NEW.id"],
)
def test_what_is_newer_than_postgres_14_would_be_seen(text: str) -> None:
    assert NEWER_THAN_14.search(text)
    assert without_a_name("SELECT * FROM (SELECT (1)) WHERE true")
    assert without_a_name("SELECT * FROM (SELECT (1)) AS x JOIN LATERAL (SELECT 2) ON true")
    assert not without_a_name("SELECT * FROM (SELECT (1)) AS x WHERE (SELECT true)")
