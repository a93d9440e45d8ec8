"""Connections: what they are, what their failures say, and whose transaction a block is."""

import socket
import threading
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from psycopg import IsolationLevel, conninfo, pq
from psycopg.rows import scalar_row

from queue_core import ContendedError, database
from queue_core.errors import DatabaseAwayError

STATUS = pq.TransactionStatus
SECRET = "hunter2"


def test_a_connection_commits_by_itself_and_bears_its_name(migrated) -> None:
    with database.connect(migrated.url, name="countersign test") as conn:
        assert conn.autocommit
        (row,) = conn.execute("SELECT current_setting('application_name') AS name").fetchall()
        assert row == {"name": "countersign test"}


def test_options_are_added_to_those_of_the_url(migrated) -> None:
    url = conninfo.make_conninfo(migrated.url, options="-c statement_timeout=7s")
    query = "SELECT current_setting('statement_timeout') AS s, current_setting('lock_timeout') AS l"
    with database.connect(url, name="x", options="-c lock_timeout=200ms") as conn:
        assert conn.execute(query).fetchall() == [{"s": "7s", "l": "200ms"}]
    with database.connect(url, name="x") as conn:
        assert conn.execute(query).fetchall() == [{"s": "7s", "l": "0"}]


TORN = "the database's URL cannot be read"
AWAY = "cannot reach database app on 127.0.0.1"


@pytest.mark.parametrize(
    ("url", "said"),
    [
        (f"postgresql://a:{SECRET}@127.0.0.1:1/app", AWAY),
        (f"host=127.0.0.1 port=1 user=a password={SECRET} dbname=app", AWAY),
        (f"postgresql://a@127.0.0.1:1/app?password={SECRET}", AWAY),
        (f"postgresql://a:x%2F{SECRET}@127.0.0.1:1/app", AWAY),
        (f"postgresql://a:x/{SECRET}@127.0.0.1/app", TORN),
        (f"postgresql://a:1/{SECRET}@127.0.0.1/app", TORN),
        (f"postgresql://a:x@{SECRET}@127.0.0.1:1/app", TORN),
        (f"postgresql://a:x {SECRET}@127.0.0.1:1/app", TORN),
        (f"postgresql://a:%{SECRET}@127.0.0.1:1/app", TORN),
        (f"postgresql://a@127.0.0.1:1/app?passwort={SECRET}", TORN),
        (f"host=127.0.0.1 password=x {SECRET}", TORN),
        (f"mysql://a:{SECRET}@127.0.0.1/app", TORN),
        (f"postgresql://localhost:{SECRET}/app", TORN),
        (f"host=127.0.0.1 port={SECRET}", TORN),
        (SECRET, TORN),
    ],
)
def test_no_failure_to_connect_gives_the_password_away(url: str, said: str) -> None:
    with pytest.raises(DatabaseAwayError) as away:
        database.connect(url, name="x")
    assert str(away.value).startswith(said)
    assert away.value.__suppress_context__
    assert SECRET not in str(away.value) + database.describe(url)
    assert "\n" not in str(away.value)


def test_a_refused_role_is_said_in_one_line(migrated) -> None:
    url = conninfo.make_conninfo(migrated.url, user="nobody_here", password=SECRET)
    with pytest.raises(DatabaseAwayError, match="nobody_here") as away:
        database.connect(url, name="x")
    assert SECRET not in str(away.value)
    assert "\n" not in str(away.value)


def test_every_character_passes_whatever_the_environment_says(migrated, monkeypatch) -> None:
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    with database.connect(migrated.url, name="x") as conn:
        assert database.value(conn, "SELECT %(text)s", {"text": "€ 日本"}) == "€ 日本"


def test_a_server_that_never_answers_is_given_up_on(monkeypatch) -> None:
    monkeypatch.setattr(database, "CONNECT_SECONDS", 2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"postgresql://a@127.0.0.1:{silent.getsockname()[1]}/app"
        with pytest.raises(DatabaseAwayError):
            database.connect(url, name="x")


@pytest.mark.parametrize(
    ("url", "name"),
    [
        (f"postgresql://a:{SECRET}@db.example/app", "database app on db.example"),
        ("postgresql://a@db.example", "database (default) on db.example"),
        ("postgresql:///app", "database app on the local socket"),
        ("postgresql:///app?host=/run/pg", "database app on /run/pg"),
        ("postgresql://a,b/app", "database app on a,b"),
        ("postgresql://a@localhost:5433/app", "database app on localhost, port 5433"),
        ("postgresql://a:5432,b:5433/app", "database app on a,b, port 5432,5433"),
        (f"postgresql://a:{SECRET}/app", "the database (its URL cannot be read)"),
        ("hostaddr=127.0.0.1 dbname=a@b", "database a@b on 127.0.0.1"),
        (f"postgresql://a:x/{SECRET}@db.example/app", "the database (its URL cannot be read)"),
        ("nonsense", "the database (its URL cannot be read)"),
    ],
)
def test_a_database_is_named_without_its_password(url: str, name: str) -> None:
    assert database.describe(url) == name


# Whose transaction


def test_a_block_in_autocommit_is_a_transaction_of_its_own(shared_database) -> None:
    conn, other = shared_database.connect(), shared_database.connect()
    before = workers(other)
    with database.transaction(conn):
        register(conn)
        assert workers(other) == before
    assert workers(other) == before + 1
    with pytest.raises(ZeroDivisionError):
        register_and_fail(conn)
    assert workers(other) == before + 1


def test_a_block_never_commits_the_callers_transaction(shared_database) -> None:
    conn, other = shared_database.connect(autocommit=False), shared_database.connect()
    before = workers(other)
    with database.transaction(conn):
        register(conn)
    assert conn.info.transaction_status == STATUS.INTRANS
    assert workers(other) == before
    with pytest.raises(ZeroDivisionError):
        register_and_fail(conn)
    assert conn.info.transaction_status == STATUS.INTRANS
    assert workers(conn) == before + 1  # what the caller did before the failed block stays
    conn.rollback()
    assert workers(conn) == before


REGISTER = """
INSERT INTO countersign.workers (id, host, pid, boot_id, pid_namespace, version, queues, slots)
VALUES (gen_random_uuid(), 'pay-3', 1, 'b', 'n', '0', '{}', 1)
"""


def register(conn: psycopg.Connection[Any]) -> None:
    assert database.execute(conn, REGISTER, {}) == 1


def register_and_fail(conn: psycopg.Connection[Any]) -> None:
    with database.transaction(conn):
        register(conn)
        raise ZeroDivisionError


def workers(conn: psycopg.Connection[Any]) -> Any:
    return database.value(conn, "SELECT count(*) FROM countersign.workers", {})


# Reading


@dataclass
class Pair:
    first: int
    second: str


def test_rows_have_the_shape_asked_for_whatever_the_connections_is(migrated) -> None:
    query = "SELECT n AS first, 'x' || n AS second FROM generate_series(1, %(most)s) AS n"
    with psycopg.connect(migrated.url, row_factory=scalar_row) as conn:
        assert database.rows(conn, query, {"most": 2}, Pair) == [Pair(1, "x1"), Pair(2, "x2")]
        assert database.rows(conn, query, {"most": 0}, Pair) == []
        assert database.value(conn, query, {"most": 3}) == 1
        assert database.value(conn, query, {"most": 0}) is None
        assert conn.row_factory is scalar_row


# Contention


def test_a_lock_that_others_hold_is_contention(shared_database) -> None:
    holder, waiter = (shared_database.connect(autocommit=False) for _ in range(2))
    holder.execute("LOCK TABLE countersign.ready")
    waiter.execute("SET lock_timeout = '50ms'")
    with pytest.raises(ContendedError) as contended, database.contention():
        waiter.execute("LOCK TABLE countersign.ready")
    assert contended.value.__suppress_context__
    holder.rollback()


def test_a_deadlock_is_contention_for_one_of_the_two(shared_database) -> None:
    first, second = (shared_database.connect(autocommit=False) for _ in range(2))
    first.execute("SELECT pg_advisory_xact_lock(1)")
    second.execute("SELECT pg_advisory_xact_lock(2)")
    contended: list[ContendedError] = []

    def cross(conn: psycopg.Connection[Any], key: int) -> None:
        try:
            with database.contention():
                conn.execute("SELECT pg_advisory_xact_lock(%s)", [key])
        except ContendedError as error:
            contended.append(error)
        conn.rollback()

    threads = [threading.Thread(target=cross, args=pair) for pair in ((first, 2), (second, 1))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(contended) == 1


def test_a_snapshot_that_is_too_old_is_contention(shared_database) -> None:
    strict, other = (shared_database.connect(autocommit=False) for _ in range(2))
    register(strict)
    strict.commit()
    strict.isolation_level = IsolationLevel.REPEATABLE_READ
    update = "UPDATE countersign.workers SET slots = slots + 1"
    workers(strict)
    other.execute(update)
    other.commit()
    with pytest.raises(ContendedError), database.contention():
        strict.execute(update)
    strict.rollback()


def test_other_failures_pass_as_they_are(conn) -> None:
    with pytest.raises(psycopg.errors.DivisionByZero), database.contention():
        conn.execute("SELECT 1 / 0")


def test_the_states_of_a_lost_connection_are_told_apart_from_a_refusal(shared_database) -> None:
    conn, owner = shared_database.connect(), shared_database.owner()
    owner.execute("SELECT pg_terminate_backend(%s)", [conn.info.backend_pid])
    with pytest.raises(database.LOST_STATES):
        conn.execute("SELECT 1")
    with pytest.raises(database.LOST_STATES):
        conn.execute("SELECT 1")
    assert not issubclass(psycopg.errors.UniqueViolation, database.LOST_STATES)
