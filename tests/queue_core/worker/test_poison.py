"""What a run does to its process: the next one in that slot finds a clean one."""

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from tests.conftest import CANARY
from tests.databases import Pool
from tests.queue_core.worker import poison
from tests.queue_core.worker.conftest import Jobs, Worker, is_alive, launch, wait_for

pytestmark = pytest.mark.xdist_group("poison")  # one worker serves them all

assert poison.jobs.handled()
LIMIT = 256


@pytest.fixture(scope="module")
def slot(
    databases: Pool, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Worker, Jobs]]:
    """Give a worker with one slot that all tests of this module share, and its jobs.

    Its standard output leads nowhere.
    """
    folder = tmp_path_factory.mktemp("slot")
    with databases.lend() as database:
        worker = launch(
            database.url, folder, jobs=poison.__name__, memory_limit=LIMIT,
            through=["sh", "-c", 'exec "$@" >/dev/null', "sh"],
            constants={"starts.CRASHES": 10**6},
        )  # fmt: skip
        yield worker, Jobs(database.connect(), folder)
        assert worker.end() == 0
        assert CANARY not in worker.text()
        assert "\nTraceback" not in worker.text()


@pytest.fixture
def worker(slot: tuple[Worker, Jobs]) -> Worker:
    return slot[0]


@pytest.fixture
def jobs(slot: tuple[Worker, Jobs]) -> Jobs:
    return slot[1]


def result(jobs: Jobs, name: str, args: dict[str, object] | None = None) -> Any:
    made = jobs.add(name, args)
    jobs.ended(made, "completed")
    return jobs.result(made)


def test_what_can_be_put_back_is_and_the_child_stays(jobs):
    before = result(jobs, "poison.look")
    jobs.ended(jobs.add("poison.settings"), "completed")
    assert result(jobs, "poison.look") == before
    assert before["variables"] == before["held_back"] == []
    assert before["ignored"] == [
        each for each in poison.SIGNALS if poison.is_ignored(each)
    ]  # nohup


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("poison.thread", {}),
        ("poison.thread", {"daemon": True, "count": 100}),
        ("poison.output", {"closed": True}),
        ("poison.output", {"closed": False}),
    ],
    ids=["thread", "threads", "output", "stream"],
)
def test_what_cannot_be_put_back_ends_the_child_once_its_run_is_stored(jobs, worker, name, args):
    told = len(worker.lines("a child is replaced"))
    child = result(jobs, name, args)
    found = result(jobs, "poison.look")
    assert found["pid"] != child
    assert found["threads"] == []
    wait_for(lambda: not is_alive(child))
    assert len(worker.lines("a child is replaced")) == told + 1


@pytest.mark.parametrize("name", ["poison.fork", "poison.program"])
def test_what_a_run_left_running_ends_before_the_next_begins(jobs, name):
    child, left = result(jobs, name)
    assert result(jobs, "poison.look")["pid"] != child
    assert not is_alive(left)


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("poison.thread", {"daemon": True}),
        ("poison.pool", {}),
        ("poison.programs", {}),
        ("poison.print", {"mebibytes": 100}),
    ],
    ids=["daemon", "pool", "program", "print"],
)
def test_what_libraries_keep_and_what_is_over_costs_no_child(jobs, name, args):
    child = result(jobs, name, args)
    assert result(jobs, "poison.nothing", {"seconds": 0}) == child


def test_runs_behind_one_that_cost_the_child_are_given_back(jobs):
    with jobs.conn.transaction():  # seen together, so claimed together
        first = jobs.add("poison.thread")
        behind = [jobs.add("poison.nothing", {"seconds": 0}) for _ in range(3)]
    jobs.ended(first, "completed")
    for made in behind:
        assert jobs.ended(made, "completed").error is None
        assert jobs.result(made) != jobs.result(first)
        assert {outcome for _, outcome in jobs.runs(made)} <= {"returned"}


@pytest.mark.parametrize("name", ["poison.eat", "poison.nibble"])
def test_a_run_that_wants_more_memory_than_there_is_fails_and_its_child_leaves(jobs, name):
    before = result(jobs, "poison.nothing", {"seconds": 0})
    made = jobs.add(name)
    assert jobs.ended(made, "failed").error == f"MemoryError: the limit is {LIMIT} MiB"
    after = result(jobs, "poison.look")
    assert (after["pid"] != before, after["hoard"]) == (True, 0)


def test_a_run_that_keeps_most_of_the_memory_leaves_it_to_nobody(jobs):
    child = result(jobs, "poison.eat", {"caught": True})
    after = result(jobs, "poison.look")
    assert (after["pid"] != child, after["hoard"]) == (True, 0)


def test_a_run_past_the_end_of_the_stack_ends_alone(jobs):
    made = jobs.add("poison.recurse")
    wait_for(lambda: jobs.facts(made).state == "failed")
    assert jobs.facts(made).error in {
        "crashed: signal 11",
        f"MemoryError: the limit is {LIMIT} MiB",
        "RecursionError: maximum recursion depth exceeded",
    }
    assert result(jobs, "poison.look")["recursion"] < 10_000


def test_a_run_that_closes_everything_ends_alone(jobs):
    made = jobs.add("poison.close")
    assert jobs.ended(made, "failed").error == "crashed: exit code 70"
    result(jobs, "poison.look")


def test_what_is_for_the_supervisor_goes_to_nobody_else(jobs):
    path = jobs.path()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        made = jobs.add("poison.usurp", {"path": str(path)})
        ears, _ = listener.accept()
        with ears:
            assert ears.recv(65_536) == b""
    assert jobs.ended(made, "failed").error == "crashed: exit code 70"
    path.unlink()
