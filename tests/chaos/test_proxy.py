"""The network of chaos: what it carries, holds back and swallows."""

import threading

import psycopg
import pytest

from queue_core import fleet
from queue_core.database import connect
from queue_core.transitions import complete, defer, fail, give_back
from queue_core.transitions.claim import statement
from tests.chaos.proxy import VERBS
from tests.queue_core.worker.conftest import wait_for

MODULES = {
    "claim": statement,
    "finish": complete,
    "fail": fail,
    "defer": defer,
    "give_back": give_back,
    "beat": fleet,
}


@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_is_known_by_words_of_its_own(verb):
    holds = [
        other for other, module in MODULES.items()
        if any(VERBS[verb].decode() in each for each in vars(module).values()
               if isinstance(each, str))
    ]  # fmt: skip
    assert holds == [verb]


@pytest.fixture
def line(network, make_worker):
    with connect(network.url, name="test") as conn:
        yield conn


def beats(database, worker):
    row = "SELECT beat_at FROM countersign.workers WHERE id = %s"
    return database.connect().execute(row, [worker]).fetchone()["beat_at"]


def test_a_commit_whose_answer_is_swallowed_is_done_and_ends_the_line(
    line, network, database, make_worker
):
    worker = make_worker(line)
    before = beats(database, worker)
    for _ in range(7):  # prepared by then, so that the words are not sent again
        fleet.beat(line, worker)
    network.lose("beat")
    with pytest.raises(psycopg.OperationalError):
        fleet.beat(line, worker)
    assert network.lost == {"beat": 1}
    assert line.broken
    assert beats(database, worker) > before


def beat_twice(line, worker):
    with line.transaction():
        fleet.beat(line, worker)
        fleet.beat(line, worker)


def test_in_a_transaction_it_is_the_answer_to_its_commit(line, network, database, make_worker):
    worker = make_worker(line)
    before = beats(database, worker)
    network.lose("beat")
    with pytest.raises(psycopg.OperationalError):
        beat_twice(line, worker)
    assert beats(database, worker) > before


def test_what_commits_nothing_of_the_kind_is_answered(line, network):
    network.lose("finish")
    assert line.execute("SELECT repeat('x', 300000) AS x").fetchone()["x"] == "x" * 300_000
    assert network.lost == {}


def test_a_stalled_network_holds_back_and_then_delivers(line, network, database):
    line.execute("CREATE TEMP TABLE kept (what text)")
    network.stall()
    asking = threading.Thread(target=line.execute, args=["SELECT pg_advisory_lock(4121)"])
    asking.start()
    held = "SELECT count(*) AS held FROM pg_locks WHERE locktype = 'advisory' AND objid = 4121"
    with database.connect() as other:
        asking.join(0.3)
        assert asking.is_alive()
        assert other.execute(held).fetchone()["held"] == 0
        network.release()
        asking.join(20)
        assert not asking.is_alive()
        assert other.execute(held).fetchone()["held"] == 1


def test_where_answers_alone_are_stalled_the_work_is_done(line, network, database):
    network.stall(questions=False)
    asking = threading.Thread(target=line.execute, args=["SELECT pg_advisory_lock(4121)"])
    asking.start()
    held = "SELECT count(*) AS held FROM pg_locks WHERE locktype = 'advisory' AND objid = 4121"
    with database.connect() as other:
        wait_for(lambda: other.execute(held).fetchone()["held"])
    assert asking.is_alive()
    network.release()
    asking.join(20)
    assert not asking.is_alive()


def test_a_network_that_was_cut_lets_nobody_in_until_it_is_restored(line, network):
    network.cut()
    with pytest.raises(psycopg.OperationalError):
        line.execute("SELECT 1")
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(network.url)
    network.restore()
    with psycopg.connect(network.url) as again:
        assert again.execute("SELECT 1").fetchone() == (1,)
