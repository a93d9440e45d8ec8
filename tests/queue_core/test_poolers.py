"""What is done for poolers, seen without one; tests/test_pgbouncer.py has a real one."""

import psycopg
import pytest

from queue_core import database, migrate, poolers
from queue_core.database import connect, value
from queue_core.errors import DatabaseAwayError, SchemaError

TIMEOUT = "SELECT current_setting('lock_timeout') AS set"
REFUSED = "FATAL:  unsupported startup parameter: options"


@pytest.fixture
def conn(migrated):
    """Give a connection of ours that sets what it needs in each transaction."""
    with connect(migrated.url, name="test") as ours:
        ours.settle("-c lock_timeout=50ms -c idle_in_transaction_session_timeout=5s")
        yield ours


def test_settings_hold_in_a_transaction_and_end_with_it(conn):
    with conn.transaction():
        assert value(conn, TIMEOUT, {}) == "50ms"
        with conn.transaction():
            assert value(conn, TIMEOUT, {}) == "50ms"
    assert conn.execute(TIMEOUT).fetchone() == {"set": "0"}


def test_settings_hold_for_a_statement_by_itself_and_end_with_it(conn):
    assert value(conn, TIMEOUT, {}) == "50ms"
    assert conn.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
    assert conn.execute(TIMEOUT).fetchone() == {"set": "0"}


def test_a_connection_without_a_pooler_is_taken_for_what_it_is(migrated):
    with connect(migrated.url, name="test", options="-c lock_timeout=50ms") as conn:
        assert not poolers.allow_for_pooler(conn)
        assert conn.prepare_threshold is not None
        assert conn.execute(TIMEOUT).fetchone() == {"set": "50ms"}


def test_behind_a_pooler_nothing_is_prepared_and_settings_are_set_anew(migrated, monkeypatch):
    monkeypatch.setattr(poolers, "is_pooled", lambda _: True)
    with connect(migrated.url, name="test", options="-c lock_timeout=50ms") as conn:
        conn.execute("RESET ALL").execute("SET lock_timeout = 0")  # another session
        assert conn.prepare_threshold is None
        assert value(conn, TIMEOUT, {}) == "50ms"


def test_a_pooler_that_refuses_settings_is_asked_without_them(migrated, monkeypatch):
    asked = []
    connected = database._connect

    def refuse(url, name, options):
        asked.append(options)
        if options:
            raise psycopg.OperationalError(REFUSED)
        return connected(url, name, options)

    monkeypatch.setattr(database, "_connect", refuse)
    with connect(migrated.url, name="test", options="-c lock_timeout=50ms"):
        assert asked == ["-c lock_timeout=50ms", ""]


def test_any_other_refusal_is_told(migrated, monkeypatch):
    def refuse(*_):
        raise psycopg.OperationalError("FATAL:  no")

    monkeypatch.setattr(database, "_connect", refuse)
    with pytest.raises(DatabaseAwayError):
        connect(migrated.url, name="test", options="-c lock_timeout=50ms")


def test_migrations_need_a_session_of_their_own(conn, monkeypatch):
    monkeypatch.setattr(migrate, "is_pooled", lambda _: True)
    with pytest.raises(SchemaError, match="straight to Postgres"):
        migrate.migrate(conn)
