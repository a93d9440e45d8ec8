"""How a worker starts and ends: what stops it from starting, and how it is stopped."""

import os
import selectors
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pytest
from psycopg import conninfo

from queue_core.transitions.claim import Claimed
from queue_core.worker import WorkerOptions
from queue_core.worker import crew as crews
from queue_core.worker.books import RunInHand
from queue_core.worker.children import Child
from queue_core.worker.crew import Crew
from queue_core.worker.guarding import Watch, environment
from queue_core.worker.lines import Lines
from queue_core.worker.roster import Roster
from tests.queue_core.worker.conftest import command_of, is_alive, marked, wait_for

MODULES = "tests.queue_core.worker"


def stopped(jobs, worker) -> bool:
    row = "SELECT stopped_at FROM countersign.workers WHERE id = %s"
    return jobs.conn.execute(row, [worker.id()]).fetchone()["stopped_at"] is not None


def test_a_worker_told_to_stop_lets_its_runs_end(start_worker, jobs):
    path = jobs.path()
    worker = start_worker()
    made = jobs.add("sample.sleep", {"seconds": 1, "path": str(path)})
    late = jobs.add("sample.echo")
    jobs.begun(path)
    assert worker.end() == 0
    assert jobs.facts(made).state == "completed"
    assert jobs.facts(late).state == "ready"
    assert stopped(jobs, worker)
    assert "left as a process should" in worker.text()
    assert marked(worker.marker) == set()


def test_an_idle_worker_stops_at_once(start_worker, jobs):
    worker = start_worker(processes=2)
    worker.id()
    assert worker.end() == 0
    assert marked(worker.marker) == set()


def test_runs_that_outlast_the_grace_are_cut_off(start_worker, jobs):
    path, other = jobs.path(), jobs.path()
    worker = start_worker(grace=0.5, processes=2)
    made = jobs.add("sample.stubborn", {"path": str(path)})
    again = jobs.add("sample.sleep", {"seconds": 60, "path": str(other)}, attempts=2)
    children = [jobs.begun(path), jobs.begun(other)]
    assert worker.end() == 4
    assert not any(is_alive(child) for child in children)
    assert (jobs.facts(made).state, jobs.facts(made).uncertain) == ("failed", True)
    assert jobs.facts(made).error == "abandoned by its worker"
    assert jobs.facts(again).state == "ready"
    assert jobs.runs(made) == jobs.runs(again) == [(1, "lost")]
    assert stopped(jobs, worker)
    assert "left as a process should" in worker.text()
    assert marked(worker.marker) == set()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_the_grace(start_worker, jobs, number):
    path = jobs.path()
    worker = start_worker(grace=30)
    made = jobs.add("sample.sleep", {"seconds": 60, "path": str(path)}, attempts=2)
    jobs.begun(path)
    worker.send(number)
    wait_for(lambda: worker.lines("worker draining"))
    assert worker.end(number, 10) == 4
    assert jobs.facts(made).state == "ready"


def test_a_child_that_stands_still_is_killed_at_the_end_of_the_grace(start_worker, jobs):
    path = jobs.path()
    worker = start_worker(grace=0.5)
    made = jobs.add("sample.sleep", {"seconds": 60, "path": str(path)}, attempts=2)
    child = jobs.begun(path)
    os.kill(child, signal.SIGSTOP)
    assert worker.end() == 4
    assert not is_alive(child)
    assert jobs.facts(made).state == "ready"
    assert marked(worker.marker) == set()


def test_a_child_that_will_not_die_keeps_no_worker_from_ending(monkeypatch):
    """As one that waits in the kernel for a disk that is gone."""
    monkeypatch.setattr(crews, "REAP_SECONDS", 0.2)
    monkeypatch.setattr(Child, "kill", lambda child: setattr(child, "killed", True))
    with selectors.DefaultSelector() as selector:
        options = WorkerOptions("", f"{MODULES}.hanging", processes=1)
        lines = Lines(selector)
        crew = Crew(Roster(options, environment("host=nowhere"), Watch({}), lines), lines)
        crew.fill_up()
        (child,) = crew._children
        run = RunInHand(
            Claimed(uuid4(), 1, "a", "default", "{}", None, 1, "attempts", datetime.now(UTC)), 7, 0
        )
        child.give(run, b"")
        crew.leave()
        assert crew.tray.cut == [run]
    os.kill(child.pid, signal.SIGKILL)
    child.reap()


def test_a_signal_inside_a_finish_waits_for_its_answer(start_worker, jobs, proxy):
    path = jobs.path()
    worker = start_worker(url=proxy.url)
    made = jobs.add("sample.sleep", {"seconds": 0.3, "path": str(path)})
    jobs.begun(path)
    proxy.hold_commit_of("completed")
    jobs.ended(made, "completed")
    worker.send(signal.SIGTERM)
    wait_for(lambda: worker.lines("worker draining"))
    proxy.release()
    assert worker.ended() == 0
    assert (jobs.facts(made).state, jobs.runs(made)) == ("completed", [])
    assert stopped(jobs, worker)


@pytest.mark.parametrize("hangs", [False, True])
def test_a_worker_with_nothing_to_store_ends_without_its_database(start_worker, jobs, proxy, hangs):
    worker = start_worker(url=proxy.url, constants={"supervisor.PARTING_SECONDS": 0.5})
    jobs.ended(jobs.add("sample.echo"), "completed")
    proxy.hold() if hangs else proxy.cut()
    # Where nothing is heard at all, a claim may have been made that nobody here knows of.
    assert worker.end() == (4 if hangs else 0)
    assert marked(worker.marker) == set()


def test_children_that_crash_in_a_row_are_started_ever_later(start_worker, jobs):
    constants = {"starts.CRASHES": 2, "starts.FIRST_PAUSE": 0.05}
    worker = start_worker(constants=constants)
    made = [jobs.add("sample.exit", {"code": 3}, attempts=1) for _ in range(4)]
    for each in made:
        assert jobs.ended(each, "failed").error == "crashed: exit code 3"
    told = wait_for(lambda: worker.lines("children crash in a row")[1:])
    assert "crashes=4 pause=0.1" in told[0]
    jobs.ended(jobs.add("sample.echo"), "completed")
    jobs.ended(jobs.add("sample.exit", {"code": 3}, attempts=1), "failed")
    jobs.ended(jobs.add("sample.echo"), "completed")
    assert len(worker.lines("children crash in a row")) == 2


def test_a_terminal_and_a_manager_that_both_ask_have_asked_once(start_worker, jobs):
    path = jobs.path()
    worker = start_worker()
    made = jobs.add("sample.sleep", {"seconds": 1.5, "path": str(path)})
    jobs.begun(path)
    worker.send(signal.SIGINT)
    wait_for(lambda: worker.lines("worker draining"))
    assert worker.end(signal.SIGTERM) == 0
    assert jobs.facts(made).state == "completed"


def test_children_told_to_stop_by_anybody_else_go_on(start_worker, jobs):
    """As when a service manager sends SIGTERM to every process of the service."""
    path = jobs.path()
    worker = start_worker()
    made = jobs.add("sample.sleep", {"seconds": 1, "path": str(path)})
    jobs.begun(path)
    for pid in marked(worker.marker):
        os.kill(pid, signal.SIGTERM)
    assert worker.ended() == 0
    assert jobs.facts(made).state == "completed"


def test_a_claim_answered_after_the_signal_is_given_back(start_worker, jobs, proxy):
    worker = start_worker(url=proxy.url)
    worker.id()
    path = jobs.path()
    proxy.hold_at(str(path))
    made = jobs.add("sample.sleep", {"seconds": 60, "path": str(path)})
    jobs.ended(made, "running")
    worker.send(signal.SIGTERM)
    wait_for(lambda: worker.lines("worker draining"))
    proxy.release()
    assert worker.ended() == 0
    assert jobs.facts(made).state == "ready"
    assert jobs.runs(made) == [(1, "returned")]
    assert jobs.facts(made).attempts_allowed == 2
    assert not path.exists()


def test_a_worker_beats_while_it_drains(start_worker, jobs):
    path = jobs.path()
    worker = start_worker(stale_after=2.5)
    made = jobs.add("sample.sleep", {"seconds": 3, "path": str(path)})
    jobs.begun(path)
    assert worker.end() == 0
    assert jobs.facts(made).state == "completed"


def test_a_database_that_is_away_at_the_end_costs_the_results(start_worker, jobs, proxy):
    path = jobs.path()
    worker = start_worker(url=proxy.url, grace=0.5, constants={"supervisor.PARTING_SECONDS": 0.5})
    made = jobs.add("sample.sleep", {"seconds": 0.2, "path": str(path)})
    jobs.begun(path)
    proxy.cut()
    assert worker.end() == 4
    assert jobs.facts(made).state == "running"  # until another worker of this host starts
    start_worker()
    assert jobs.ended(made, "failed").error == "abandoned by its worker"


@pytest.mark.parametrize(
    ("module", "said"),
    [
        (f"{MODULES}.broken", "its configuration is missing"),
        (f"{MODULES}.vanishing", "end before they have said hello"),
    ],
)
def test_jobs_that_cannot_be_used_keep_a_worker_from_starting(start_worker, jobs, module, said):
    worker = start_worker(jobs=module, constants={"starts.FIRST_PAUSE": 0.05})
    assert worker.ended() == 2
    assert said in worker.text()
    assert jobs.conn.execute("SELECT id FROM countersign.workers").fetchall() == []
    assert marked(worker.marker) == set()


def test_children_that_others_kill_before_their_hello_are_no_reason_to_give_up(
    start_worker, jobs, tmp_path
):
    """As the kernel does where memory is short, for a while."""
    worker = start_worker(
        jobs=f"{MODULES}.hanging",
        constants={"starts.FIRST_PAUSE": 0.05, "starts.LONGEST_PAUSE": 0.1},
    )
    killed: set[int] = set()
    for _ in range(4):
        (child,) = wait_for(lambda: importing(worker) - killed)
        os.kill(child, signal.SIGKILL)
        killed.add(child)
    wait_for(lambda: importing(worker) - killed)
    assert len(worker.lines("a child ended before it had a run")) == 4
    assert worker.end() == 0


def importing(worker) -> set[int]:
    """Return a worker's children, past the moment in which a fork looks like the worker."""
    return {pid for pid in worker.children() if b"worker.child" in command_of(pid)}


def test_case_25_a_child_that_never_says_hello_is_killed_and_tried_again(start_worker):
    worker = start_worker(
        jobs=f"{MODULES}.hanging",
        constants={"children.START_SECONDS": 1.0, "starts.FIRST_PAUSE": 0.05},
    )
    assert worker.ended() == 2
    assert len(worker.lines("did not say hello in time")) == 3
    assert marked(worker.marker) == set()


def test_a_worker_told_to_stop_before_it_has_begun_stops(start_worker):
    worker = start_worker(jobs=f"{MODULES}.hanging")
    wait_for(lambda: len(marked(worker.marker)) == 3)  # with its guard and a child
    assert worker.end() == 0
    assert marked(worker.marker) == set()


def test_without_a_database_a_worker_does_not_start(start_worker, tmp_path):
    worker = start_worker(url=f"host={tmp_path} dbname=nothing password=secret")
    assert worker.ended() == 3
    assert "cannot reach database nothing" in worker.text()
    assert "secret" not in worker.text()


def test_without_its_schema_a_worker_does_not_start(start_worker, migrated):
    worker = start_worker(url=conninfo.make_conninfo(migrated.owner_url, dbname="postgres"))
    assert worker.ended() == 3
    assert "flask queue migrate" in worker.text()


def test_without_a_trigger_of_the_ledger_a_worker_does_not_start(start_worker, database):
    database.owner().execute("DROP TRIGGER acts_refuse_row ON countersign.acts")
    worker = start_worker()
    assert worker.ended() == 3
    assert "acts_refuse_row" in worker.text()


def test_closed_streams_do_not_end_a_worker(start_worker, jobs):
    worker = start_worker(through=["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh"])
    jobs.ended(jobs.add("sample.print", {"text": "x"}), "failed")
    jobs.ended(jobs.add("sample.echo"), "completed")
    assert worker.end() == 0


def test_a_log_that_nobody_reads_does_not_end_a_worker(start_worker, jobs):
    worker = start_worker(
        through=["sh", "-c", '{ sleep 0.1; "$@"; echo $? >"$OUT"; } 2>&1 | true; cat "$OUT"', "sh"],
        environment={"OUT": str(jobs.path())},
    )
    jobs.ended(jobs.add("sample.echo"), "completed")
    (supervisor,) = {pid for pid in marked(worker.marker) if _runs_a_worker(pid)}
    os.kill(supervisor, signal.SIGTERM)
    worker.ended()
    assert worker.text().strip() == "0"


def _runs_a_worker(pid: int) -> bool:
    words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    return words[1:3] == [b"-m", f"{MODULES}.runner".encode()]


def test_a_queue_is_never_worked_past_its_cap_nor_beyond_those_named(start_worker, jobs):
    paths = [jobs.path() for _ in range(2)]
    wide = jobs.path()
    start_worker(processes=3, queues={"narrow": 1, "wide": None})
    for path in paths:
        jobs.add("sample.sleep", {"seconds": 1.5, "path": str(path)}, queue="narrow", priority=5)
    other = jobs.add("sample.echo", queue="other")
    jobs.begun(paths[0])
    jobs.add("sample.sleep", {"seconds": 0, "path": str(wide)}, queue="wide")
    jobs.begun(wide)
    assert not paths[1].exists()
    jobs.begun(paths[1])
    assert jobs.facts(other).state == "ready"


def test_a_claim_is_made_only_for_a_free_slot(start_worker, jobs):
    path = jobs.path()
    worker = start_worker(processes=1)
    jobs.add("sample.sleep", {"seconds": 1, "path": str(path)})
    waiting = jobs.add("sample.echo")
    jobs.begun(path)
    time.sleep(0.6)
    assert jobs.facts(waiting).state == "ready"
    assert jobs.ended(waiting, "completed").worker == worker.id()


def test_due_jobs_are_promoted(start_worker, jobs):
    start_worker()
    made = jobs.add("sample.echo", delay=1.0)
    assert jobs.facts(made).state == "waiting"
    jobs.ended(made, "completed")


def test_a_supervisor_imports_no_handlers_code(start_worker):
    code = (
        "import sys, queue_core.worker; "
        "print([name for name in sys.modules if name.startswith('tests')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
