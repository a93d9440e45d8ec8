"""The client: a connection of its own, one commit a call, whole after forks and outages."""

import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg import conninfo, sql

from queue_core import (
    ArgumentsError,
    Client,
    ContendedError,
    DatabaseAwayError,
    NewJob,
    TookTooLongError,
)
from queue_core.queries.facts import job as facts
from queue_core.queries.places import locate
from tests.conftest import CANARY, Database

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def client(shared_database: Database, registry) -> Iterator[Client]:
    """Give a client, closed at the end."""
    with Client(shared_database.url) as made:
        yield made


def backend(client: Client) -> int:
    assert client._conn
    return client._conn.info.backend_pid


def test_nothing_is_opened_before_the_first_call() -> None:
    with Client("postgresql://nobody@127.0.0.1:1/nowhere"):
        pass


def test_a_job_is_there_as_soon_as_the_call_returns(client, shared_database) -> None:
    other = shared_database.connect()
    made = client.enqueue("mail.send", {"address": "a@b.c"}, priority=3, delay=5, attempts=2)
    found = facts(other, made.id)
    assert found
    assert (found.state, found.priority, found.attempts) == ("waiting", 3, 2)


def test_many_are_one_commit_and_all_or_none(client, shared_database) -> None:
    other = shared_database.connect()
    made = client.enqueue_many(NewJob("mail.send", queue="many") for _ in range(1_001))
    assert len(locate(other, [each.id for each in made])) == 1_001
    jobs = [NewJob("mail.send", queue="none")] * 1_001
    with pytest.raises(ArgumentsError):
        client.enqueue_many([*jobs, NewJob("mail.send", {"address": "\0"})])
    query = "SELECT count(*) AS jobs FROM countersign.jobs WHERE jobs.queue = 'none'"
    assert other.execute(query).fetchall() == [{"jobs": 0}]


def test_one_connection_serves_all_calls_and_threads(client, shared_database) -> None:
    other = shared_database.connect()
    client.enqueue("mail.send")
    first = backend(client)
    found: list[UUID] = []

    def ask() -> None:
        found.extend(client.enqueue("mail.send").id for _ in range(25))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(locate(other, found)) == 100
    assert backend(client) == first


def test_a_closed_client_opens_again_when_it_is_called(client) -> None:
    client.enqueue("mail.send")
    client.close()
    client.close()
    assert client._conn is None
    assert client.enqueue("mail.send").created


def test_an_error_of_ours_leaves_the_connection_as_it_was(client) -> None:
    client.enqueue("mail.send")
    before = backend(client)
    with pytest.raises(ArgumentsError):
        client.enqueue("mail.send", {"address": 7})
    client.enqueue("mail.send")
    assert backend(client) == before


def test_a_connection_that_was_cut_is_told_and_the_next_call_has_a_new_one(
    client, shared_database
) -> None:
    client.enqueue("mail.send")
    owner = shared_database.owner()
    owner.execute("SELECT pg_terminate_backend(%s)", [backend(client)])
    with pytest.raises(DatabaseAwayError, match="not known") as away:
        client.enqueue("mail.send", {"address": CANARY})
    assert away.value.__suppress_context__
    assert CANARY not in str(away.value)
    assert client.enqueue("mail.send").created


@pytest.mark.parametrize(
    ("limit", "error"),
    [("statement_timeout", TookTooLongError), ("lock_timeout", ContendedError)],
)
def test_a_limit_that_ends_a_call_is_told_as_such_and_the_connection_stays(
    shared_database, registry, limit, error
) -> None:
    url = conninfo.make_conninfo(shared_database.url, options=f"-c {limit}=50ms")
    with Client(url) as client, shared_database.owner(autocommit=False) as owner:
        client.enqueue("mail.send")
        before = backend(client)
        owner.execute("LOCK TABLE countersign.jobs IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(error) as told:
            client.enqueue("mail.send", {"address": CANARY})
        owner.rollback()
        assert told.value.__suppress_context__
        assert CANARY not in str(told.value)
        assert client.enqueue("mail.send").created
        assert backend(client) == before


def test_a_database_that_is_away_is_told_without_the_password(registry) -> None:
    with (
        Client("postgresql://a:hunter2@127.0.0.1:1/app") as client,
        pytest.raises(DatabaseAwayError, match="cannot reach database app") as away,
    ):
        client.enqueue("mail.send")
    assert "hunter2" not in str(away.value)


def test_a_database_that_comes_back_is_found_again(server, registry) -> None:
    gone = f"gone_{os.getpid()}"
    url = conninfo.make_conninfo(server.url, dbname=gone)
    admin_url = conninfo.make_conninfo(server.owner_url, dbname="postgres")
    make = sql.SQL("CREATE DATABASE {} TEMPLATE pristine").format(sql.Identifier(gone))
    drop = sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(gone))
    with Client(url) as client, psycopg.connect(admin_url, autocommit=True) as admin:
        with pytest.raises(DatabaseAwayError):
            client.enqueue("mail.send")
        admin.execute(make)
        try:
            assert client.enqueue("mail.send").created
        finally:
            admin.execute(drop)


FORKING = """
import os, sys, threading
from queue_core import Client, Registry

jobs = Registry()

@jobs.job("mail.send")
def send(run, address):
    pass

client = Client(sys.argv[1])
print("parent", client.enqueue("mail.send", {"address": "a"}).id, flush=True)
held, over = threading.Event(), threading.Event()

def hold():
    with client._lock:
        held.set()
        over.wait(20)

holder = threading.Thread(target=hold)
holder.start()
held.wait()
child = os.fork()
if not child:
    print("child", client.enqueue("mail.send", {"address": "b"}).id, flush=True)
    client.close()
    os._exit(0)
os.waitpid(child, 0)
over.set()
holder.join()
print("parent", client.enqueue("mail.send", {"address": "c"}).id, flush=True)
client.close()
"""


def test_a_fork_has_a_connection_of_its_own_whatever_the_parents_threads_held(
    shared_database,
) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-W",
            "error::ResourceWarning",
            "-c",
            textwrap.dedent(FORKING),
            shared_database.url,
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    words = [line.split() for line in done.stdout.splitlines()]
    assert [who for who, _ in words] == ["parent", "child", "parent"]
    found: Any = locate(shared_database.connect(), [UUID(job) for _, job in words])
    assert len(found) == 3
