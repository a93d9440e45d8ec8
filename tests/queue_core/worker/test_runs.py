"""A worker at work: each way in which a run can end, seen from the database."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.conftest import CANARY
from tests.databases import Pool
from tests.queue_core.worker.conftest import Jobs, Worker, launch, wait_for
from tests.sealing import sign

pytestmark = pytest.mark.xdist_group("shop")  # one worker serves them all


@pytest.fixture(scope="module")
def shop(
    databases: Pool, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Worker, Jobs]]:
    """Give a worker with two slots that all tests of this module share, and its jobs."""
    folder = tmp_path_factory.mktemp("shop")
    with databases.lend() as database:
        worker = launch(
            database.url, folder, processes=2, environment={
                "QUEUE_OWNER_URL": "secret", "QUEUE_SECRET_KEY": "secret",
            },
            constants={"force.STOP_SECONDS": 0.5},
        )  # fmt: skip
        yield worker, Jobs(database.connect(), folder)
        assert worker.end() == 0
        assert CANARY not in worker.text()
        assert "\nTraceback" not in worker.text()


@pytest.fixture
def worker(shop: tuple[Worker, Jobs]) -> Worker:
    return shop[0]


@pytest.fixture
def jobs(shop: tuple[Worker, Jobs]) -> Jobs:
    return shop[1]


def test_a_handler_that_returns_completes_its_job(worker: Worker, jobs: Jobs):
    made = jobs.add("sample.echo", {"value": {"a": [1, CANARY]}})
    facts = jobs.ended(made, "completed")
    assert jobs.result(made) == {"a": [1, CANARY]}
    assert (facts.attempt, facts.worker) == (1, worker.id())
    assert facts.started_at
    assert jobs.runs(made) == []
    assert worker.lines(str(made)) == []  # a line each would bury those of failures


def test_a13_a_handler_that_raises_waits_for_its_next_attempt(jobs: Jobs):
    made = jobs.add("sample.raise", {"text": "no such address"})
    facts = jobs.ended(made, "waiting")
    assert facts.error == "ValueError: no such address"
    assert jobs.runs(made) == [(1, "failed")]
    wait = jobs.conn.execute(
        "SELECT extract(epoch FROM run_at - now())::float AS wait FROM countersign.waiting"
        " WHERE id = %s",
        [made],
    ).fetchone()
    assert wait
    assert 20 < wait["wait"] < 34  # pyright: ignore[reportOperatorIssue]


def test_a_text_of_an_error_is_kept_and_never_logged(worker: Worker, jobs: Jobs):
    made = jobs.add("sample.raise", {"text": f"refused {CANARY}"}, attempts=1)
    assert CANARY in (jobs.ended(made, "failed").error or "")
    assert CANARY not in worker.text()


def test_a_permanent_error_fails_whatever_attempts_are_left(jobs: Jobs):
    made = jobs.add("sample.permanent", attempts=5)
    assert jobs.ended(made, "failed").attempt == 1


def test_retry_after_sets_the_wait(jobs: Jobs):
    made = jobs.add("sample.later", {"seconds": 3_000})
    run_at = jobs.ended(made, "waiting").run_at
    row = jobs.conn.execute("SELECT extract(epoch FROM %s - now())::float AS wait", [run_at])
    assert 2_900 < (row.fetchone() or {})["wait"] <= 3_000  # pyright: ignore[reportOperatorIssue]


def test_a_deferred_job_comes_back_with_its_attempt(jobs: Jobs):
    made = jobs.add("sample.defer", {"seconds": 3_600})
    facts = jobs.ended(made, "waiting")
    assert jobs.runs(made) == [(1, "deferred")]
    assert facts.attempts_allowed == 2


def test_leaving_the_process_politely_only_fails_the_run(jobs: Jobs):
    made = jobs.add("sample.leave")
    assert jobs.ended(made, "failed").error == "SystemExit: 3"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT])
def test_a13_a_child_that_dies_is_seen_with_its_signal_and_disturbs_nobody(jobs: Jobs, number):
    path, dying = jobs.path(), jobs.path()
    other = jobs.add("sample.sleep", {"seconds": 1.5, "path": str(path)})
    jobs.begun(path)
    made = jobs.add("sample.die", {"number": int(number), "path": str(dying)})
    jobs.begun(dying)
    facts = jobs.ended(made, "failed", 2)
    assert facts.error == f"crashed: signal {int(number)}"
    assert facts.uncertain
    assert jobs.ended(other, "completed").attempt == 1
    after = jobs.add("sample.echo", {"value": 1})
    jobs.ended(after, "completed")


def test_a_child_killed_from_outside_is_seen_within_a_second(jobs: Jobs):
    path = jobs.path()
    made = jobs.add("sample.sleep", {"seconds": 60, "path": str(path)})
    os.kill(jobs.begun(path), signal.SIGKILL)
    assert jobs.ended(made, "failed", 1).error == "crashed: signal 9"
    run = jobs.conn.execute(
        "SELECT signal, child_pid FROM countersign.runs WHERE job_id = %s", [made]
    )
    assert run.fetchone() == {"signal": 9, "child_pid": int(path.read_text())}


def test_a_child_that_exits_in_a_run_crashed_even_with_code_0(jobs: Jobs):
    for code in (0, 3):
        made = jobs.add("sample.exit", {"code": code}, attempts=1)
        assert jobs.ended(made, "failed").error == f"crashed: exit code {code}"


def test_a_job_whose_child_died_twice_needs_a_person(jobs: Jobs):
    made = jobs.add("sample.exit", {"code": 3}, attempts=5)
    jobs.ended(made, "waiting")
    jobs.conn.execute(
        "WITH gone AS (DELETE FROM countersign.waiting WHERE id = %s RETURNING *)"
        " INSERT INTO countersign.ready SELECT * FROM gone",
        [made],
    )
    assert jobs.ended(made, "needs_review").why == "crashed_again"


def test_a_job_that_asks_for_review_gets_it_when_its_child_dies(jobs: Jobs):
    made = jobs.add("sample.review")
    facts = jobs.ended(made, "needs_review")
    assert (facts.why, facts.signal) == ("crashed", 9)


def test_a_death_is_seen_though_a_process_left_behind_holds_the_line(jobs: Jobs):
    path = jobs.path()
    made = jobs.add("sample.parent", {"path": str(path)})
    child = jobs.begun(path)
    left = jobs.begun(path.with_name(path.name + ".child"))
    os.kill(child, signal.SIGKILL)
    assert jobs.ended(made, "failed", 2).error == "crashed: signal 9"
    wait_for(lambda: not Path(f"/proc/{left}").exists() or _is_zombie(left), 2)


def _is_zombie(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def test_a_handler_that_prints_disturbs_nothing(worker: Worker, jobs: Jobs):
    made = jobs.add("sample.print", {"text": "{}"})
    jobs.ended(made, "completed")
    assert jobs.result(made) == "printed"


def test_a_fork_that_comes_back_from_a_handler_reports_nothing(jobs: Jobs):
    made = jobs.add("sample.fork", {"path": ""})
    jobs.ended(made, "completed")
    assert jobs.result(made) == "from the child"


def test_a_child_that_sends_garbage_is_killed_and_its_run_crashed(jobs: Jobs):
    made = jobs.add("sample.garbage")
    assert jobs.ended(made, "failed").error == "crashed: sent what is no message"


def test_a_child_that_can_no_longer_report_ends_and_its_run_crashed(jobs: Jobs):
    made = jobs.add("sample.hang_up")
    assert jobs.ended(made, "failed").error == "crashed: exit code 70"


def test_children_see_the_database_and_no_secret(jobs: Jobs):
    made = jobs.add("sample.environment")
    jobs.ended(made, "completed")
    assert jobs.result(made) == {
        "DATABASE_URL": True, "QUEUE_OWNER_URL": False, "QUEUE_SECRET_KEY": False,
        "COUNTERSIGN_TEST": True,
    }  # fmt: skip


def test_a17_a_run_past_its_limit_is_stopped_and_tidies_up(jobs: Jobs):
    path, tidied = jobs.path(), jobs.path()
    args = {"seconds": 60, "path": str(path), "tidied": str(tidied)}
    made = jobs.add("sample.sleep", args, time_limit=1.5)
    child = jobs.begun(path)
    facts = jobs.ended(made, "failed")
    assert facts.error == "timed out after 1.5s"
    assert jobs.runs(made) == [(1, "timed_out")]
    assert tidied.read_text() == "tidied"
    assert not Path(f"/proc/{child}").exists()


@pytest.mark.parametrize("name", ["sample.stubborn", "sample.gil"])
def test_a17_case_14_a_run_that_will_not_stop_at_its_limit_is_killed(jobs: Jobs, name: str):
    path = jobs.path()
    args = {"path": str(path)} | ({"seconds": 60} if name == "sample.gil" else {})
    made = jobs.add(name, args, time_limit=2)
    child = jobs.begun(path)
    facts = jobs.ended(made, "failed", 8)
    assert facts.error == "timed out after 2s"
    assert not Path(f"/proc/{child}").exists()


def test_a_run_that_the_worker_does_not_know_of_is_given_back(worker: Worker, jobs: Jobs):
    made = jobs.add("sample.echo", {"value": CANARY}, delay=3_600)
    jobs.conn.execute(
        "WITH gone AS (DELETE FROM countersign.waiting WHERE id = %s RETURNING *)"
        " INSERT INTO countersign.running (id, attempt, worker, queue, name, rank, run_at,"
        " attempts_allowed, on_lost) SELECT id, 1, %s, queue, name, rank, run_at, 1, 'attempts'"
        " FROM gone",
        [made, worker.id()],
    )
    # Under the worker, and it knows nothing of it: as after a claim whose commit went unanswered.
    assert jobs.ended(made, "completed").attempt == 2
    assert jobs.runs(made) == [(1, "returned")]


def test_a_number_that_python_refuses_sends_only_its_own_job_to_review(jobs: Jobs):
    with psycopg.connect(jobs.conn.info.dsn, autocommit=True) as conn, conn.transaction():
        poisoned, fine = (_insert(conn, value) for value in ("1e5000", "7"))
    assert jobs.ended(fine, "completed").attempt == 1
    assert jobs.ended(poisoned, "needs_review").why == "unreadable"


def _insert(conn: psycopg.Connection, value: str):
    row = conn.execute(
        "WITH made AS (INSERT INTO countersign.jobs (id, name, queue, args, priority)"
        " VALUES (countersign.new_id(), 'sample.echo', 'default',"
        " jsonb_build_object('value', %s::jsonb), 0) RETURNING id)"
        " INSERT INTO countersign.ready (id, queue, name, rank, run_at)"
        " SELECT id, 'default', 'sample.echo', 0, now() FROM made RETURNING id",
        [value],
    ).fetchone()
    assert row
    return row[0]


def test_a_job_whose_body_is_gone_goes_to_review(jobs: Jobs):
    row = jobs.conn.execute(
        "INSERT INTO countersign.ready (id, queue, name, rank, run_at)"
        " VALUES (countersign.new_id(), 'default', 'sample.echo', 0, now()) RETURNING id"
    ).fetchone()
    assert row
    found = wait_for(lambda: jobs.conn.execute(
        "SELECT why FROM countersign.review WHERE id = %s", [row["id"]]).fetchone())  # fmt: skip
    assert found == {"why": "unreadable"}


def test_acts_are_sealed_by_the_workers_maintenance(worker: Worker, jobs: Jobs):
    acts = sign(jobs.conn, 2)
    count = "SELECT count(*) AS count FROM countersign.seals WHERE %s = ANY (seals.ids)"
    wait_for(lambda: jobs.conn.execute(count, [acts[1]]).fetchall()[0]["count"])
    assert not worker.lines("a chore failed")
