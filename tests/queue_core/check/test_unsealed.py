"""Acts that wait for long to be sealed are warned about, with what keeps them waiting."""

import psycopg
import pytest

from queue_core import check, seals
from queue_core.check import unsealed
from queue_core.migrate import make_partitions
from tests.sealing import seal_all, sign, tamper


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    """Count an act as late from the first moment on."""
    monkeypatch.setattr(unsealed, "LONGEST_SECONDS", 0)


def said(conn) -> str:
    """Return the one warning of acts that wait."""
    (warning,) = [each for each in check.warnings(conn) if each.code == "ledger.unsealed"]
    return str(warning)


def test_sealed_acts_are_not_warned_about(database):
    conn = database.connect()
    make_partitions(conn)
    assert check.warnings(conn) == []
    sign(conn, 3)
    seal_all(conn)
    assert check.warnings(conn) == []


def test_young_acts_are_not_warned_about(database, monkeypatch):
    monkeypatch.setattr(unsealed, "LONGEST_SECONDS", 300)
    conn, owner = database.connect(), database.owner()
    make_partitions(conn)
    (act,) = sign(conn)
    assert check.warnings(conn) == []
    tamper(owner, "UPDATE countersign.acts SET at = at - interval '301 s'")
    assert f"act {act} has waited for 5 minutes" in said(conn)


def test_without_a_worker_that_is_the_cause(database):
    conn = database.connect()
    (act,) = sign(conn)
    seal_all(conn)
    sign(conn)
    assert f"act {act + 1} has waited for 0 minutes to be sealed: no worker" in said(conn)
    assert "flask queue work" in said(conn)


def test_where_workers_live_their_logs_tell(database, make_worker):
    conn = database.connect()
    make_worker(conn)
    sign(conn)
    assert "the workers' maintenance does not come to it" in said(conn)
    assert "`a chore failed`" in said(conn)


def test_a_long_transaction_is_named_by_its_process(database):
    conn, long = database.connect(), database.connect(autocommit=False)
    long.execute("SELECT pg_current_xact_id()")
    sign(conn)
    assert seals.seal(conn) == 0
    pid = long.info.backend_pid
    assert f"a transaction of pid {pid} by countersign_service in database test_" in said(conn)
    assert f"pg_terminate_backend({pid})" in said(conn)


def test_a_transaction_of_another_database_is_named_with_it(database, migrated):
    conn = database.connect()
    with psycopg.connect(migrated.owner_url) as elsewhere:
        elsewhere.execute("SELECT pg_current_xact_id()")
        sign(conn)
        assert seals.seal(conn) == 0
        assert "by postgres in database countersign goes on" in said(conn)
        assert "in database countersign goes on, since 20" in said(database.owner())


def test_a_reader_holds_nothing_back(database):
    conn, reader = database.connect(), database.connect(autocommit=False)
    reader.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    reader.execute("SELECT FROM countersign.acts")
    sign(conn)
    assert seals.seal(conn) == 1


def test_whoever_holds_the_sealers_lock_is_named(database):
    conn, holder = database.connect(), database.connect()
    holder.execute("SELECT pg_advisory_lock(hashtext('countersign.seal'))")
    sign(conn)
    assert seals.seal(conn) == 0
    assert f"pid {holder.info.backend_pid} by countersign_service" in said(conn)
    assert "holds the sealers' lock" in said(conn)


def test_a_transaction_that_ended_meanwhile_is_no_cause(database):
    conn, long = database.connect(autocommit=False), database.connect(autocommit=False)
    conn.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    long.execute("SELECT pg_current_xact_id()")
    sign(database.connect())
    assert "a transaction of pid" in said(conn)
    long.rollback()
    assert "has just ended" in said(conn)
