"""Runs that share a process: many at once, ended one by one, and all together if they must."""

import signal
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from queue_core import cancel
from queue_core.worker import WorkerOptions, run_one
from tests.databases import Pool
from tests.queue_core.worker import shared, shared_only
from tests.queue_core.worker.conftest import Jobs, Worker, is_alive, launch, wait_for

pytestmark = pytest.mark.xdist_group("shared")  # one worker serves most of them

assert shared.jobs.handled()
assert shared_only.jobs.handled()  # declares the names for this process, which enqueues

MODULE = "tests.queue_core.worker.shared"
KINDS = pytest.mark.parametrize("kind", ["loop", "threads"])
WITH_ANOTHER = "crashed: its process was killed for another run, which did not stop"


@pytest.fixture(scope="module")
def shop(
    databases: Pool, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Worker, Jobs]]:
    folder = tmp_path_factory.mktemp("shared")
    with databases.lend() as database:
        worker = launch(
            database.url, folder, jobs=MODULE, async_slots=7, thread_slots=6, stale_after=6,
            constants={"force.STOP_SECONDS": 1.0},
        )  # fmt: skip
        yield worker, Jobs(database.connect(), folder)
        assert worker.end() == 0
        assert "\nTraceback" not in worker.text()


@pytest.fixture
def worker(shop: tuple[Worker, Jobs]) -> Worker:
    return shop[0]


@pytest.fixture
def jobs(shop: tuple[Worker, Jobs]) -> Jobs:
    return shop[1]


def wait(jobs: Jobs, kind: str, **options) -> tuple[UUID, Path]:
    """Add a run that waits, and return it as soon as it does."""
    path = jobs.path()
    made = jobs.add(f"{kind}.wait", {"path": str(path)}, **options)
    jobs.begun(path)
    return made, path


def open_up(*paths: Path) -> None:
    """Let the runs that wait at these paths end, now or whenever they run again."""
    for path in paths:
        path.with_name(path.name + ".end").touch()


def let_end(jobs: Jobs, made: UUID, path: Path) -> None:
    open_up(path)
    assert jobs.ended(made, "completed").attempt == 1
    assert jobs.result(made) == "waited"


@KINDS
def test_runs_that_share_a_process_go_on_at_once_in_it_and_plain_ones_elsewhere(jobs, kind):
    made = [jobs.add(f"{kind}.meet", {"of": 6}) for _ in range(6)]
    plain = jobs.add("plain.echo")
    pids = {jobs.ended(each, "completed") and jobs.result(each) for each in made}
    jobs.ended(plain, "completed")
    assert len(pids) == 1
    assert jobs.result(plain) not in pids


def test_a_worker_says_how_many_runs_may_go_on_at_once(worker, jobs):
    row = jobs.conn.execute("SELECT slots FROM countersign.workers WHERE id = %s", [worker.id()])
    assert row.fetchone() == {"slots": 1 + 7 + 6}


@KINDS
def test_no_more_runs_begin_than_there_are_slots(jobs, kind):
    slots = {"loop": 7, "threads": 6}[kind]
    going = [wait(jobs, kind) for _ in range(slots)]
    waiting = jobs.add(f"{kind}.echo")
    jobs.ended(jobs.add("plain.echo"), "completed")  # what is asked for elsewhere goes on
    assert jobs.facts(waiting).state == "ready"
    for each in going:
        let_end(jobs, *each)
    jobs.ended(waiting, "completed")


def test_the_limit_of_a_name_holds_among_runs_that_share_a_process(jobs):
    paths = [jobs.path() for _ in range(2)]
    made = [jobs.add("loop.alone", {"path": str(path)}) for path in paths]
    jobs.begun(paths[0])
    jobs.ended(jobs.add("loop.echo"), "completed")
    assert jobs.facts(made[1]).state == "ready"
    for path in paths:
        jobs.begun(path)
        open_up(path)
    assert [jobs.ended(each, "completed").attempt for each in made] == [1, 1]


@KINDS
def test_a_run_past_its_limit_stops_at_its_own_will_and_disturbs_no_other(jobs, kind):
    """An async one at an await, a thread where it looks."""
    other = wait(jobs, kind)
    path, tidied = jobs.path(), jobs.path()
    args = {"path": str(path), "tidied": str(tidied)}
    made = jobs.add(f"{kind}.wait", args, time_limit=1, attempts=1)
    child = jobs.begun(path)
    assert jobs.ended(made, "failed").error == "timed out after 1s"
    assert jobs.runs(made) == [(1, "timed_out")]
    assert tidied.read_text() == "stopped"
    let_end(jobs, *other)
    assert is_alive(child)


@pytest.mark.parametrize("name", ["loop.stubborn", "loop.block", "threads.stubborn"])
def test_case_24a_a_run_that_will_not_stop_is_killed_and_what_was_with_it_may_have_run_in_part(
    jobs, name
):
    kind = name.partition(".")[0]
    again, where = wait(jobs, kind)
    once, _ = wait(jobs, kind, attempts=1)
    path = jobs.path()
    made = jobs.add(name, {"path": str(path)}, time_limit=1)
    child = jobs.begun(path)
    assert jobs.ended(made, "failed").error == "timed out after 1s"
    assert not is_alive(child)
    assert jobs.ended(again, "waiting").error == WITH_ANOTHER
    open_up(where)
    facts = jobs.ended(once, "failed")
    assert (facts.error, facts.uncertain) == (WITH_ANOTHER, True)
    assert jobs.runs(again) == jobs.runs(once) == [(1, "crashed")]
    jobs.ended(jobs.add(f"{kind}.echo"), "completed")


@KINDS
def test_while_a_run_is_overdue_nothing_new_begins_beside_it(
    start_worker, database, tmp_path, kind
):
    """It waits for the process that takes the place of the run's own."""
    jobs, path, told = Jobs(database.connect(), tmp_path), tmp_path / "run", tmp_path / "told"
    start_worker(jobs=MODULE, constants={"force.STOP_SECONDS": 3.0})
    made = jobs.add(f"{kind}.stubborn", {"path": str(path), "told": str(told)}, time_limit=0.2)
    child = jobs.begun(path)
    wait_for(told.exists)
    late = jobs.add(f"{kind}.echo")
    assert jobs.ended(late, "completed").attempt == 1
    assert jobs.result(late) != child
    assert jobs.facts(made).state == "failed"


@KINDS
def test_a_child_that_dies_takes_all_its_runs_along_and_each_is_told_of(jobs, kind):
    others = [wait(jobs, kind) for _ in range(2)]
    made = jobs.add(f"{kind}.die")
    for each in (*[other for other, _ in others], made):
        assert jobs.ended(each, "waiting").error == "crashed: signal 9"
        assert jobs.runs(each) == [(1, "crashed")]
    open_up(*[path for _, path in others])
    jobs.conn.execute(
        "WITH gone AS (DELETE FROM countersign.waiting WHERE id = %s RETURNING *)"
        " INSERT INTO countersign.ready SELECT * FROM gone",
        [made],
    )
    assert jobs.ended(made, "needs_review").why == "crashed_again"


@KINDS
def test_leaving_the_process_politely_only_fails_the_run_that_does(jobs, kind):
    other = wait(jobs, kind)
    said = {"loop": "SystemExit: 3", "threads": "KeyboardInterrupt"}[kind]
    assert jobs.ended(jobs.add(f"{kind}.leave"), "failed").error == said
    let_end(jobs, *other)


def test_a_task_that_a_handler_left_behind_ends_no_process(jobs):
    other = wait(jobs, "loop")
    jobs.ended(jobs.add("loop.leave_later"), "completed")
    let_end(jobs, *other)


@KINDS
def test_a_fork_that_comes_back_ends_there_and_runs_nothing(jobs, kind):
    other = wait(jobs, kind)
    path = jobs.path()
    made = jobs.add(f"{kind}.fork", {"path": str(path)})
    jobs.ended(made, "completed")
    assert jobs.result(made) == "from the child"
    assert not path.exists()
    let_end(jobs, *other)


@KINDS
def test_what_a_run_says_in_its_context_no_other_hears(jobs, kind):
    for _ in range(2):
        made = [jobs.add(f"{kind}.say", {"of": 0}) for _ in range(3)]
        for each in made:
            jobs.ended(each, "completed")
            assert jobs.result(each) == "nothing"


@KINDS
def test_a_cancelled_run_stops_and_disturbs_no_other(jobs, kind):
    """It is killed for that only if the operator says so."""
    other = wait(jobs, kind)
    path, tidied = jobs.path(), jobs.path()
    made = jobs.add(f"{kind}.wait", {"path": str(path), "tidied": str(tidied)})
    jobs.begun(path)
    (asked,) = cancel(jobs.conn, [made], by="ops:alice", reason="too_slow")
    assert asked.act == "cancel_requested"
    jobs.ended(made, "cancelled")
    assert jobs.runs(made) == [(1, {"loop": "stopped", "threads": "failed"}[kind])]
    assert tidied.read_text() == "cancelled"
    let_end(jobs, *other)


@KINDS
def test_a_run_whose_claim_was_taken_is_stopped_without_its_neighbours(jobs, kind):
    path, tidied = jobs.path(), jobs.path()
    made = jobs.add(f"{kind}.wait", {"path": str(path), "tidied": str(tidied)})
    jobs.begun(path)
    other = wait(jobs, kind)
    jobs.conn.execute(
        "WITH gone AS (DELETE FROM countersign.running WHERE id = %s RETURNING *)"
        " INSERT INTO countersign.ended (id, state, attempt, error)"
        " SELECT id, 'failed', attempt, 'abandoned by its worker' FROM gone",
        [made],
    )
    assert jobs.ended(made, "needs_review").why == "disputed"
    assert tidied.read_text() == "stopped"
    let_end(jobs, *other)


def test_at_the_end_of_the_grace_async_runs_are_cancelled_and_cut_off(
    start_worker, database, tmp_path
):
    jobs = Jobs(database.connect(), tmp_path)
    worker = start_worker(jobs=MODULE, grace=0.5)
    path, tidied = jobs.path(), jobs.path()
    made = jobs.add("loop.wait", {"path": str(path), "tidied": str(tidied)})
    once = jobs.add("loop.wait", {"path": str(path)}, attempts=1)
    jobs.begun(path)
    wait_for(lambda: jobs.facts(once).state == "running")
    assert worker.end() == 4
    assert tidied.read_text() == "stopped"
    assert (jobs.facts(made).state, jobs.runs(made)) == ("ready", [(1, "lost")])
    assert (jobs.facts(once).state, jobs.facts(once).uncertain) == ("failed", True)


def test_a_worker_that_is_told_twice_waits_for_no_async_run(start_worker, database, tmp_path):
    jobs = Jobs(database.connect(), tmp_path)
    worker = start_worker(jobs=MODULE, grace=60, constants={"supervisor.STOP_SECONDS": 600.0})
    path = jobs.path()
    made = jobs.add("loop.stubborn", {"path": str(path)}, attempts=2)
    jobs.begun(path)
    worker.send(signal.SIGTERM)
    wait_for(lambda: worker.lines("worker draining"))
    assert worker.end(signal.SIGTERM) == 4
    assert jobs.runs(made) == [(1, "lost")]


@KINDS
def test_run_one_runs_what_could_share_a_process(database, tmp_path, kind):
    jobs = Jobs(database.connect(), tmp_path)
    made = [jobs.add("plain.echo"), jobs.add(f"{kind}.echo", priority=5)]
    assert run_one(WorkerOptions(database.url, MODULE, async_slots=5))
    assert [jobs.facts(each).state for each in made] == ["ready", "completed"]


def test_no_process_waits_for_plain_runs_that_no_name_has(start_worker, database, tmp_path):
    jobs = Jobs(database.connect(), tmp_path)
    worker = start_worker(jobs="tests.queue_core.worker.shared_only", processes=3)
    jobs.ended(jobs.add("only.echo"), "completed")
    wait_for(lambda: len(worker.children()) == 1)
    assert worker.end() == 0
