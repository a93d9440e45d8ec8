"""The console's connections: one pool a process, sound schemas alone, limits, and outages."""

import os
import threading

import psycopg
import pytest
from psycopg import sql

from console import database as connections
from console.database import CommitUnansweredError, NotWrittenError
from queue_core.errors import DatabaseAwayError, SchemaError, TookTooLongError
from tests.console.people import Person

NOBODY = "host=/nonexistent dbname=x"


def pids(app, uses=1):
    """The database's pids of connections that the app lends at once."""
    loans = [connections.connections(app).take() for _ in range(uses)]
    found = [loan.conn.info.backend_pid for loan in loans]
    for loan in loans:
        loan.pool.putconn(loan.conn)
    return found


def test_making_the_app_opens_nothing(app_on, monkeypatch):
    monkeypatch.setattr(psycopg.Connection, "connect", None)
    app_on(NOBODY)


def test_a_request_takes_one_connection_and_gives_it_back(alice, app):
    alice.get("/")
    first = pids(app)
    for _ in range(5):
        alice.get("/jobs/")
    assert pids(app) == first


def test_case_78_a_process_that_was_forked_opens_connections_of_its_own(app_on, shop, scene):
    app = app_on(shop.url)
    pids(app)
    pool = connections.connections(app)._pool
    assert pool
    before = list(pool._pool)
    read, write = os.pipe()
    if not (child := os.fork()):
        try:
            os.write(write, str(pids(app)[0]).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as answer:
        childs = int(answer.read())
    os.waitpid(child, 0)
    assert childs not in {conn.info.backend_pid for conn in before}
    for conn in before:
        assert conn.execute("SELECT 1 AS n").fetchone() == {"n": 1}


def test_connections_are_bounded_by_the_threads_of_a_process(app):
    assert len(set(pids(app, uses=connections.MOST_CONNECTIONS))) == connections.MOST_CONNECTIONS


def test_a_connection_that_the_server_ended_is_replaced_before_anybody_gets_it(alice, app, books):
    (pid,) = pids(app)
    books.execute("SELECT pg_terminate_backend(%s)", [pid])
    assert alice.get("/").status_code == 200


def test_a_console_on_a_database_that_is_away_says_so_and_comes_back(
    app_on, shop, scene, monkeypatch
):
    app = app_on(shop.url)
    somebody = Person(app, "ops:alice")
    connections.connections(app).close()
    monkeypatch.setattr(connections.Connections, "_url", lambda _: NOBODY)
    answer = somebody.get("/")
    assert answer.status_code == 503
    assert "The database does not answer" in answer.text
    assert somebody.get("/healthz").status_code == 200
    assert somebody.get("/readyz").json == {"ok": False, "problem": "the database does not answer"}
    monkeypatch.undo()
    assert somebody.get("/").status_code == 200


def test_a_pool_that_finds_the_database_away_is_thrown_away(app_on, shop, scene, monkeypatch):
    app = app_on(shop.url)
    monkeypatch.setattr(connections, "PATIENCE_SECONDS", 0.2)
    pids(app)
    pool = connections.connections(app)._pool
    (loan,) = [connections.connections(app).take()]
    loan.conn.close()
    monkeypatch.setattr(connections, "_require_answer", lambda conn: conn.execute("SELECT 1/0"))
    loan.pool._check = connections._require_answer
    loan.pool.putconn(loan.conn)
    with pytest.raises(DatabaseAwayError):
        connections.connections(app).take()
    monkeypatch.undo()
    assert pids(app)
    assert connections.connections(app)._pool is not pool


def test_case_74_a_pool_whose_threads_are_gone_is_thrown_away(app_on, shop, scene, monkeypatch):
    app = app_on(shop.url)
    monkeypatch.setattr(connections, "PATIENCE_SECONDS", 0.2)
    loans = [connections.connections(app).take()]
    for thread in loans[0].pool._signal_stop_worker():
        thread.join()
    with pytest.raises(DatabaseAwayError):
        take_all(app, loans)
    assert pids(app)
    assert connections.connections(app)._pool is not loans[0].pool
    for loan in loans:
        loan.conn.close()


def take_all(app, loans):
    """Take connections until the pool would have to open one, and can."""
    while True:
        loans.append(connections.connections(app).take())


def test_pages_are_refused_while_the_ledger_could_be_rewritten(app_on, database):
    with database.owner() as owner:
        owner.execute("ALTER TABLE countersign.acts DISABLE TRIGGER acts_refuse_row")
        nobody = Person(app_on(database.url))
        assert nobody.get("/readyz").json == {"ok": False, "problem": "the schema is not sound"}
        answer = nobody.sign_in("ops:alice")
        assert answer.status_code == 503
        assert "The schema is not sound" in answer.text
        owner.execute("ALTER TABLE countersign.acts ENABLE ALWAYS TRIGGER acts_refuse_row")
        assert nobody.get("/readyz").status_code == 200


def test_a_reading_that_takes_too_long_is_ended(app):
    with app.app_context(), pytest.raises(TookTooLongError), connections.reading() as conn:
        slowly(conn)


def slowly(conn):
    """Run a statement that passes its time."""
    conn.execute("SET LOCAL statement_timeout = 10")
    conn.execute("SELECT pg_sleep(5)")


def test_a_part_that_takes_too_long_leaves_the_rest_of_the_snapshot(app):
    with app.app_context(), connections.reading() as conn:
        before = conn.execute("SELECT pg_current_snapshot()::text").fetchone()
        with pytest.raises(TookTooLongError), connections.part(conn):
            slowly(conn)
        assert conn.execute("SELECT pg_current_snapshot()::text").fetchone() == before


def test_a_page_sees_one_moment_whatever_commits_meanwhile(app, books, job_at):
    with app.app_context(), connections.reading() as conn:
        query = "SELECT count(*) AS n FROM countersign.jobs"
        before = conn.execute(query).fetchone()
        job_at("ready")
        assert conn.execute(query).fetchone() == before


SETTINGS = """
SELECT current_setting('transaction_isolation') AS isolation,
    current_setting('transaction_read_only') AS read_only,
    current_setting('lock_timeout') AS lock
"""


def test_what_only_reads_leaves_the_connection_fit_to_write(app):
    with app.app_context():
        with connections.reading():
            pass
        with connections.acting() as conn:
            shown = conn.execute(SETTINGS).fetchone()
    assert shown == {"isolation": "read committed", "read_only": "off", "lock": "400ms"}


def test_a_connection_lost_while_acting_says_that_nothing_was_done(app, shop):
    with (
        app.app_context(),
        pytest.raises(DatabaseAwayError) as raised,
        connections.acting() as conn,
    ):
        use(end(shop, conn))
    assert not isinstance(raised.value, CommitUnansweredError)


def test_a_connection_lost_at_the_commit_says_that_nobody_knows(app, shop):
    with app.app_context(), pytest.raises(CommitUnansweredError), connections.acting() as conn:
        end(shop, conn)


def end(shop, conn):
    """End a connection from the server's side, and return it."""
    with shop.owner() as owner:
        owner.execute("SELECT pg_terminate_backend(%s, 5000)", [conn.info.backend_pid])
    return conn


def use(conn):
    """Run a statement."""
    conn.execute("SELECT 1")


def test_a_refusal_of_the_database_says_that_nothing_was_done_and_repeats_no_value(app):
    with app.app_context(), pytest.raises(NotWrittenError) as raised, connections.acting() as conn:
        conn.execute("SELECT 'hunter2'::integer")
    assert "hunter2" not in str(raised.value)


def test_a_connection_lost_while_reading_is_an_outage(app, shop):
    with app.app_context(), pytest.raises(DatabaseAwayError), connections.reading() as conn:
        use(end(shop, conn))
    with app.app_context(), pytest.raises(DatabaseAwayError), connections.session() as conn:
        use(end(shop, conn))


READ_ONLY = "ALTER DATABASE {} SET default_transaction_read_only = {}"


def test_case_72_a_server_that_only_reads_by_now_is_left_for_one_that_writes(app_on, database):
    app = app_on(database.url)
    with database.owner() as owner:
        name = sql.Identifier(owner.info.dbname)
        owner.execute(sql.SQL(READ_ONLY).format(name, sql.SQL("on")))
        with app.app_context(), pytest.raises(DatabaseAwayError), connections.acting() as conn:
            write(conn)
        with app.app_context(), pytest.raises(DatabaseAwayError), connections.session() as conn:
            write(conn)
        owner.execute("SET default_transaction_read_only = off")
        owner.execute(sql.SQL(READ_ONLY).format(name, sql.SQL("off")))
    with app.app_context(), connections.acting() as conn:
        write(conn)


def write(conn):
    """Write something that is of no account."""
    conn.execute("UPDATE countersign.operators SET role = role")


def test_threads_of_one_process_share_one_pool(app_on, shop, scene):
    app = app_on(shop.url)
    pools, gate = set(), threading.Barrier(6)

    def take():
        gate.wait()
        loan = connections.connections(app).take()
        pools.add(loan.pool)
        loan.pool.putconn(loan.conn)

    threads = [threading.Thread(target=take) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(pools) == 1


def test_an_unsound_schema_keeps_every_request_out_until_it_is_mended(app_on, database):
    app = app_on(database.url)
    with database.owner() as owner:
        owner.execute("DROP TRIGGER acts_refuse_statement ON countersign.acts")
    with pytest.raises(SchemaError):
        connections.connections(app).take()
