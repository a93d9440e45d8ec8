"""Behaviours A21, A24 and A25: three ways in, what can be set, and what a database has to be."""

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from psycopg import conninfo, sql

from queue_core import SchemaError, backoff, check, enqueue, migrate
from queue_core.errors import OptionError, SettingsError
from queue_core.queries.migrations import known
from queue_core.settings import from_environment
from queue_core.worker import WorkerOptions
from queue_core.worker.heartbeat import beat_seconds

ALL = [migration.name for migration in known()]
HERE = "SELECT to_regnamespace('countersign') IS NOT NULL AS here"


@pytest.fixture
def bare(migrated, database):
    """Give a database of the test's own in which nothing is set up."""
    database.owner().execute("DROP SCHEMA countersign CASCADE")
    return database


def test_a21_set_up_at_boot_and_again_at_every_boot(bare, registry) -> None:
    conn = bare.owner()
    assert migrate.migrate(conn) == ALL
    made = enqueue(bare.connect(), "mail.send")
    assert migrate.migrate(conn) == []
    check.require_sound(bare.connect())
    jobs = conn.execute("SELECT id FROM countersign.jobs").fetchall()
    assert jobs == [{"id": made.id}]


def test_a21_of_two_boots_at_once_one_sets_up_and_the_other_waits(bare) -> None:
    boots = [bare.owner(), bare.owner()]
    with ThreadPoolExecutor() as pool:
        applied = list(pool.map(migrate.migrate, boots))
    assert sorted(applied, key=len) == [[], ALL]
    check.require_sound(bare.connect())


def test_a21_the_printed_script_is_a_migration_of_ones_own_and_services_only_check(bare) -> None:
    bare.owner().execute(migrate.as_sql().encode())
    service = bare.connect()
    check.require_sound(service)
    assert check.check(service) == []
    with pytest.raises((SchemaError, psycopg.errors.InsufficientPrivilege)):
        service.execute("CREATE TABLE countersign.more ()")


def test_a21_who_neither_sets_up_nor_finds_it_is_refused_and_changes_nothing(
    bare, registry
) -> None:
    service = bare.connect()
    with pytest.raises(SchemaError, match="flask queue migrate"):
        check.require_sound(service)
    with pytest.raises(psycopg.errors.InvalidSchemaName):
        enqueue(service, "mail.send")
    assert service.execute(HERE).fetchall() == [{"here": False}]


def test_a24_what_is_unset_has_a_default_that_does(monkeypatch) -> None:
    settings = from_environment({})
    assert (settings.stale_after, settings.log) == (60.0, "text")
    assert beat_seconds(settings.stale_after) == 5.0
    assert beat_seconds(0.001) == 0.02
    assert WorkerOptions("dbname=app", "app.jobs").processes >= 1
    assert [backoff.backoff(attempt) for attempt in (1, 2, 30)] == [30.0, 60.0, 3_600.0]


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf", "soon", "86401"])
def test_a24_a_setting_that_cannot_work_is_refused_by_its_name(seconds) -> None:
    with pytest.raises(SettingsError, match="QUEUE_STALE_AFTER"):
        from_environment({"QUEUE_STALE_AFTER": seconds})


@pytest.mark.parametrize("slots", [0, -1, 1_001, True])
def test_a24_slots_that_cannot_work_are_refused(slots) -> None:
    with pytest.raises(OptionError, match="processes"):
        WorkerOptions("dbname=app", "app.jobs", processes=slots)


def test_a25_an_older_server_or_one_that_cannot_keep_any_text_is_refused(
    bare, server, monkeypatch
) -> None:
    assert migrate.OLDEST_SERVER == 140_000
    with monkeypatch.context() as patch:
        patch.setattr(migrate, "OLDEST_SERVER", 1_000_000)
        with pytest.raises(SchemaError, match="14 is needed"):
            migrate.migrate(bare.owner())
    latin = sql.Identifier("of_another_encoding")
    admin = bare.owner()
    admin.execute(
        sql.SQL(
            "CREATE DATABASE {} ENCODING 'LATIN1' LOCALE_PROVIDER libc LOCALE 'C' "
            "TEMPLATE template0"
        ).format(latin)
    )
    try:
        url = conninfo.make_conninfo(server.owner_url, dbname="of_another_encoding")
        with (
            psycopg.connect(url, autocommit=True) as conn,
            pytest.raises(SchemaError, match="UTF8"),
        ):
            migrate.migrate(conn)
    finally:
        admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(latin))
