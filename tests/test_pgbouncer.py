"""Behind PgBouncer in transaction mode, set up as docs/operations.md has it."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from queue_core import Client, migrate
from queue_core.database import connect, value
from queue_core.errors import SchemaError
from queue_core.poolers import is_pooled
from queue_core.waking import SLEEP
from queue_core.worker.link import BUSY
from tests.conftest import THROUGH_POOLER
from tests.pooler import PGBOUNCER, passed_through_it, pooler
from tests.queue_core.worker.conftest import Jobs, launch

ROOT = Path(__file__).resolve().parents[1]
LOCKED = "SELECT id FROM countersign.ready WHERE id = %(id)s FOR UPDATE"
SETTING = "SELECT current_setting('lock_timeout') AS set"
LISTENERS = """
SELECT FROM pg_locks WHERE locktype = 'advisory' AND classid::bigint << 32 | objid::bigint = %s
"""
CORE = "tests/queue_core"
FEW = (
    *(f"{CORE}/transitions/test_{verb}.py" for verb in ("complete", "fail", "recover")),
    f"{CORE}/test_acts.py",
)
"""Quick ones that stand for all, which tests/chaos/test_pooler.py has."""
SECONDS = 400

pytestmark = [
    pytest.mark.skipif(PGBOUNCER is None, reason="NOT RUN: no pgbouncer (Debian: pgbouncer)"),
    pytest.mark.skipif(THROUGH_POOLER, reason="runs tests through it itself"),
]


@pytest.fixture(scope="module")
def url(shared_database) -> Iterator[str]:
    """Give a database as services reach it, through a pooler."""
    with pooler(shared_database.url) as through:
        yield through


@pytest.fixture
def jobs(url, tmp_path) -> Iterator[Jobs]:
    with connect(url, name="test") as conn:
        yield Jobs(conn, tmp_path)


def test_a_pooler_is_noticed_and_nothing_is_prepared(url, shared_database):
    with connect(url, name="test") as conn:
        assert is_pooled(conn)
        assert conn.prepare_threshold is None
    with connect(shared_database.url, name="test") as conn:
        assert not is_pooled(conn)
        assert conn.prepare_threshold is not None


def test_settings_hold_in_each_transaction_and_reach_nobody_else(url):
    with connect(url, name="test", options=BUSY) as ours, connect(url, name="test") as others:
        for _ in range(2):
            with ours.transaction(), ours.transaction():
                assert ours.execute(SETTING).fetchone() == {"set": "200ms"}
            with others.transaction():
                assert others.execute(SETTING).fetchone() == {"set": "0"}


def test_a_pooler_that_refuses_settings_gets_none(shared_database):
    with (
        pooler(shared_database.url, passes="extra_float_digits") as strict,
        connect(strict, name="test", options=BUSY) as conn,
        conn.transaction(),
    ):
        assert conn.execute(SETTING).fetchone() == {"set": "200ms"}


def test_a_statement_by_itself_has_the_settings_too(url, shared_database, registry, job_in):
    made = job_in(shared_database.connect(), "ready")
    blocker = shared_database.connect(autocommit=False)
    blocker.execute("SELECT FROM countersign.ready WHERE id = %s FOR UPDATE", [made.id])
    with (
        connect(url, name="test", options="-c lock_timeout=50ms") as conn,
        pytest.raises(psycopg.errors.LockNotAvailable),
    ):
        value(conn, LOCKED, {"id": made.id})
    blocker.rollback()


def test_migrations_go_past_it(url):
    with connect(url, name="test") as conn, pytest.raises(SchemaError, match="QUEUE_OWNER_URL"):
        migrate.migrate(conn)


def test_a_client_and_a_worker_with_real_processes_work_through_it(url, jobs, tmp_path):
    worker = launch(url, tmp_path, processes=2)
    try:
        with Client(url) as client:
            made = [client.enqueue("sample.echo", {"value": n}).id for n in range(20)]
        for each in made:
            jobs.ended(each, "completed")
        jobs.ended(jobs.add("sample.raise", attempts=1), "failed")
        jobs.ended(jobs.add("sample.exit", {"code": 3}, attempts=1), "failed")
        path = jobs.path()
        late = jobs.add("sample.sleep", {"seconds": 1, "path": str(path)})
        jobs.begun(path)
        assert not jobs.conn.execute(LISTENERS, [SLEEP]).fetchall()
        assert worker.end() == 0
        assert jobs.facts(late).state == "completed"
        for trouble in ("storing or claiming failed", "a beat failed", "a chore failed"):
            assert not worker.lines(trouble)
    finally:
        worker.kill_all()


@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 40)
def test_case_73_the_tests_of_the_core_pass_through_it():
    assert passed_through_it(*FEW, seconds=SECONDS) > 200
