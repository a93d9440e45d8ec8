"""Cases from the field: a database away or read-only, migrations, history that is in no way."""

import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from queue_core import SchemaError, enqueue, migrate
from queue_core.errors import DatabaseAwayError
from queue_core.transitions.claim import Claimable, claim
from queue_core.worker import link as links
from tests import schemas
from tests.queue_core.worker.conftest import wait_for

folder = schemas.folder


def test_case_71_a_database_that_is_away_for_ten_minutes_is_asked_seldom_and_found_soon(
    monkeypatch,
) -> None:
    now, knocks = [1_000.0], list[float]()

    def knock(*_: object, **__: object) -> object:
        knocks.append(now[0])
        raise DatabaseAwayError("the database is away")

    monkeypatch.setattr(links, "connect", knock)
    monkeypatch.setattr(links, "time", SimpleNamespace(monotonic=lambda: now[0]))
    link = links.Link("dbname=nowhere", links.BUSY)
    while now[0] < 1_600:
        with pytest.raises(DatabaseAwayError):
            link.open()
        assert link.wait_seconds() > 0  # nobody spins
        now[0] += link.wait_seconds()
    pauses = [later - earlier for earlier, later in pairwise(knocks)]
    assert max(pauses) <= 10  # so long at most until it is found again
    assert len(knocks) < 140
    assert len(set(pauses)) == len(pauses)  # jittered: a crowd does not come at once


def test_case_72_a_worker_leaves_a_server_that_only_reads_by_now(database) -> None:
    link = links.Link(database.url, links.BUSY)
    before = link.open()
    before.execute("SET default_transaction_read_only = on")  # as after a demotion
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction) as raised:
        before.execute(WRITE)
    assert link.failed(raised.value)
    assert before.closed
    wait_for(lambda: link.wait_seconds() == 0)
    link.open().execute(WRITE)
    link.close()


WRITE = "UPDATE countersign.workers SET name = name"


def test_case_76_a_migration_beside_live_traffic_waits_and_holds_nobody_up_for_long(
    database, registry, make_worker, folder: Path
) -> None:
    (folder / "0101_busy.sql").write_text(
        "SET LOCAL lock_timeout = '100ms';"
        "ALTER TABLE countersign.ready ADD COLUMN extra int;"
        "ALTER TABLE countersign.running ADD COLUMN extra int;"
    )
    over, going = threading.Event(), threading.Barrier(3)

    def live(conn: Any, worker: Any) -> int:
        conn.execute("SET lock_timeout = '3s'")
        rounds = 0
        while not over.is_set():
            with conn.transaction():
                enqueue(conn, "mail.send")
                claim(conn, worker=worker, names=[Claimable("mail.send")], count=2)
            rounds += 1
            if rounds == 1:
                going.wait()
        return rounds

    connections = [database.connect() for _ in range(2)]
    workers = [make_worker(conn) for conn in connections]
    with ThreadPoolExecutor(2) as pool:
        living = [pool.submit(live, *pair) for pair in zip(connections, workers, strict=True)]
        going.wait()
        try:
            assert migrate.migrate(database.owner()) == ["0101_busy.sql"]
        finally:
            over.set()
        assert all(each.result(timeout=30) for each in living)


def test_case_76_older_code_refuses_a_newer_schema_and_changes_nothing(database) -> None:
    owner = database.owner()
    owner.execute("INSERT INTO countersign.migrations VALUES (9001, '9001_later.sql', 'x')")
    with pytest.raises(SchemaError, match="newer than this code"):
        migrate.migrate(owner)
    query = "SELECT count(*) AS n FROM countersign.migrations WHERE number = 9001"
    assert owner.execute(query).fetchall() == [{"n": 1}]


REFERENCES = """
SELECT pg_constraint.conrelid::regclass::text AS child,
    pg_constraint.confrelid::regclass::text AS parent
FROM pg_constraint
WHERE pg_constraint.connamespace = 'countersign'::regnamespace AND pg_constraint.contype = 'f'
ORDER BY child
"""


def test_case_79_no_row_of_history_refers_to_a_workers_or_a_jobs(conn) -> None:
    assert conn.execute(REFERENCES).fetchall() == [
        {"child": "countersign.schedules", "parent": "countersign.schedule_versions"},
        {"child": "countersign.sessions", "parent": "countersign.operators"},
    ]
