"""Running one job: `run_one` and `flask queue work --one`."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from queue_core.errors import DatabaseAwayError, OptionError, RunCutOffError
from queue_core.worker import WorkerOptions, run_one
from tests.queue_core.worker.conftest import JOBS, ROOT

MODULES = "tests.queue_core.worker"


def options(database, **chosen) -> WorkerOptions:
    return WorkerOptions(**{"url": database.url, "jobs": JOBS} | chosen)


def test_a23_run_one_runs_the_best_job_and_says_whether_there_was_one(database, jobs):
    others = [jobs.add("sample.safe") for _ in range(3)]
    best = jobs.add("sample.safe", priority=5)
    assert run_one(options(database))
    assert jobs.facts(best).state == "completed"
    assert [jobs.facts(made).state for made in others] == ["ready"] * 3
    for _ in range(3):
        assert run_one(options(database))
    assert not run_one(options(database))
    live = "SELECT id FROM countersign.workers WHERE stopped_at IS NULL"
    assert jobs.conn.execute(live).fetchall() == []


def test_a23_a_job_that_fell_due_counts_before_anybody_promoted_it(database, jobs):
    due = jobs.add("sample.safe", delay=3_600)
    database.owner().execute("UPDATE countersign.waiting SET run_at = now() - interval '1 s'")
    assert run_one(options(database))
    assert jobs.facts(due).state == "completed"


def test_a_job_that_fails_or_crashes_was_one_too(database, jobs):
    made = [jobs.add("sample.raise", attempts=1), jobs.add("sample.die")]
    for each in made:
        assert run_one(options(database))
        assert jobs.facts(each).state == "failed"


def test_run_one_gives_the_signals_back(database):
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    run_one(options(database))
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


def test_a_run_that_is_cut_off_is_told(database, jobs):
    path = jobs.path()
    made = jobs.add("sample.sleep", {"seconds": 60, "path": str(path)}, attempts=2)

    def stop() -> None:
        jobs.begun(path)
        os.kill(os.getpid(), signal.SIGTERM)

    other = threading.Thread(target=stop)
    other.start()
    with pytest.raises(RunCutOffError) as told:
        run_one(options(database, grace=0))
    other.join()
    assert told.value.exit_code == 4
    assert jobs.facts(made).state == "ready"


def test_jobs_that_cannot_be_used_are_told(database):
    with pytest.raises(OptionError, match="its configuration is missing"):
        run_one(options(database, jobs=f"{MODULES}.broken"))


def test_without_a_database_nothing_is_run(database, tmp_path):
    with pytest.raises(DatabaseAwayError):
        run_one(options(database, url=f"host={tmp_path} dbname=nothing"))


def test_the_command_runs_one_job_and_says_so(database, jobs):
    made = jobs.add("sample.safe")
    command = [sys.executable, "-m", "flask", "queue", "work", "--jobs", JOBS, "--one"]
    told = [
        subprocess.run(
            command, cwd=ROOT, env=os.environ | {"DATABASE_URL": database.url},
            stdout=subprocess.PIPE, check=True, text=True,
        ).stdout
        for _ in range(2)
    ]  # fmt: skip
    assert told == ["ran one job\n", "no job was ready\n"]
    assert jobs.facts(made).state == "completed"
