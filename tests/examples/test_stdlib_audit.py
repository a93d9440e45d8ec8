import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import psycopg
import pytest

from examples.stdlib_audit import handlers, sources, storage
from examples.stdlib_audit.load import load
from queue_core import check, enqueue, fleet
from queue_core.outcomes import Completed, Deferred, Failed, RunReport
from queue_core.queries.counts import counts
from queue_core.transitions.claim import Claimable, claim
from queue_core.transitions.complete import complete
from queue_core.transitions.defer import defer
from queue_core.transitions.fail import fail
from queue_core.worker.execute import execute
from queue_core.worker.messages import JobMessage

ROOT = Path(__file__).parents[2]
FLASK = Path(sys.executable).with_name("flask")
SPECIAL = 4  # beside the files: two that kill themselves, one past its limit, one summary


def found(*folders: Path) -> int:
    """Count the source files as a person does who reads our README."""
    left_out = "( -name site-packages -o -name dist-packages -o -name __pycache__ ) -prune -o"
    printed = subprocess.run(
        ["find", *folders, *left_out.split(), "-name", "*.py", "-print"],
        check=True,
        capture_output=True,
    ).stdout
    return len(printed.splitlines())


def wc(paths: list[str]) -> int:
    """Count lines as `wc -l` does."""
    content = subprocess.run(["cat", *paths], check=True, capture_output=True).stdout
    return int(subprocess.run(["wc", "-l"], check=True, capture_output=True, input=content).stdout)


@pytest.fixture
def few_files(monkeypatch, tmp_path):
    """Let the audit be of a few folders of the library, and of the broken files."""
    library = sources.folders()[0]
    folder = tmp_path / "library"
    folder.mkdir()
    for name in ("json", "tomllib", "wsgiref"):
        for path in (library / name).glob("*.py"):
            (folder / f"{name}_{path.name}").write_bytes(path.read_bytes())
    below = folder / "site-packages"
    below.mkdir()
    (below / "installed.py").write_text("1\n")
    monkeypatch.setattr(sources, "folders", lambda: (folder, sources.BROKEN))
    return folder


def test_each_file_that_find_counts_gets_its_job(database):
    conn = database.owner()

    loaded = load(conn)

    files = found(*sources.folders())
    row = conn.execute(
        "SELECT count(*) AS jobs, count(DISTINCT args->>'path') AS paths FROM countersign.jobs "
        "WHERE name = 'audit.file'"
    ).fetchone()
    assert row == {"jobs": files, "paths": files}
    assert files > 500
    assert loaded == files + SPECIAL


def test_it_is_loaded_once(database, few_files):
    conn = database.owner()

    assert load(conn) == found(few_files, sources.BROKEN) + SPECIAL
    assert load(conn) == 0


def test_it_is_not_loaded_beside_other_jobs(database, registry, few_files):
    conn = database.owner()
    enqueue(conn, "mail.send")

    assert load(conn) == 0


def test_the_callers_transaction_decides_whether_it_is_loaded(database, few_files):
    conn = database.owner(autocommit=False)
    load(conn)
    conn.rollback()

    assert counts(conn).ready == 0


def test_the_files_are_those_of_the_library_and_five_that_are_broken(few_files):
    names = [path.name for path in sources.files()]

    assert "json_decoder.py" in names
    assert "installed.py" not in names
    assert len(list(sources.BROKEN.glob("*.py"))) == 5


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", sources.Facts(0, 0, 0, 0, 0, None, 0)),
        (b"x = 1", sources.Facts(0, 5, 0, 0, 0, None, 0)),
        (
            b"import a\nfrom b import c\nclass D:\n def e(self):\n  pass\nasync def f(): pass\n",
            sources.Facts(6, 75, 2, 1, 2, "e", 2),
        ),
    ],
)
def test_what_is_said_of_a_file_is_so(content, said):
    assert sources.facts(content, "x.py") == said


# The handlers, in this process ----------------------------------------------------------------


@dataclass
class Hand:
    """Runs the example's jobs here, one after the other, as a worker would."""

    conn: psycopg.Connection[dict[str, object]]
    worker: UUID

    def run_all(self, name: str) -> list[object]:
        claimable = [Claimable(name, 1, "attempts")]
        endings: list[object] = []
        for claimed in claim(self.conn, worker=self.worker, names=claimable, count=1_000):
            message = JobMessage(claimed.id, claimed.name, claimed.attempt, claimed.args or "")
            ending = execute(message, handlers.jobs)
            move = {Completed: complete, Failed: fail, Deferred: defer}[type(ending)]
            move(self.conn, self.worker, [RunReport(claimed.id, claimed.attempt, ending, 0.1)])
            endings.append(ending)
        return endings


@pytest.fixture
def hand(database, few_files, monkeypatch):
    """Load the few files and give a hand that runs their jobs."""
    monkeypatch.setenv("DATABASE_URL", database.url)
    load(database.owner())
    conn = database.connect()
    yield Hand(conn, fleet.register(conn, fleet.Identity("pay-3", 1, "b", "n", "0.1.0", [], 4)))
    while storage._kept:
        storage._kept.pop().close()


def summed(endings: list[object]) -> dict[str, int]:
    (ending,) = endings
    assert isinstance(ending, Completed)
    return json.loads(ending.result or "")


def completed_paths(conn) -> list[str]:
    rows = conn.execute(
        "SELECT jobs.args->>'path' AS path FROM countersign.jobs JOIN countersign.ended "
        "USING (id) WHERE jobs.name = 'audit.file' AND ended.state = 'completed'"
    ).fetchall()
    return [row["path"] for row in rows]


def test_the_five_broken_files_fail_for_real_and_leave_no_facts(hand):
    endings = hand.run_all("audit.file")

    errors = sorted(ending.error for ending in endings if isinstance(ending, Failed))
    assert len(errors) == 5
    words = ["TabError", "never closed", "null bytes", "unknown encoding", "can't decode byte"]
    assert all(any(word in error for error in errors) for word in words)
    rows = hand.conn.execute("SELECT path FROM stdlib_audit.files").fetchall()
    assert sorted(row["path"] for row in rows) == sorted(completed_paths(hand.conn))


def test_the_summary_puts_itself_off_while_a_file_is_queued_or_running(hand):
    assert [type(ending) for ending in hand.run_all("audit.summary")] == [Deferred]

    claim(hand.conn, worker=hand.worker, names=[Claimable("audit.file")], count=1_000)
    enqueue(hand.conn, "audit.summary")
    assert [type(ending) for ending in hand.run_all("audit.summary")] == [Deferred]


def test_the_summary_adds_up_the_files_whose_job_completed(hand):
    hand.run_all("audit.file")
    paths = completed_paths(hand.conn)

    assert summed(hand.run_all("audit.summary")) == {"files": len(paths), "lines": wc(paths)}


def test_a_file_whose_job_did_not_complete_is_not_added(hand, database):
    hand.run_all("audit.file")
    path = completed_paths(hand.conn)[0]
    database.owner().execute(
        "UPDATE countersign.ended SET state = 'failed' FROM stdlib_audit.files "
        "WHERE files.job_id = ended.id AND files.path = %s",
        (path,),
    )
    paths = completed_paths(hand.conn)

    assert path not in paths
    assert summed(hand.run_all("audit.summary")) == {"files": len(paths), "lines": wc(paths)}


def test_a_file_audited_again_has_one_row(hand):
    hand.run_all("audit.file")
    before = hand.conn.execute("SELECT count(*) AS n FROM stdlib_audit.files").fetchone()
    again = enqueue(hand.conn, "audit.file", {"path": completed_paths(hand.conn)[0]})

    assert [type(ending) for ending in hand.run_all("audit.file")] == [Completed]

    after = hand.conn.execute("SELECT count(*) AS n FROM stdlib_audit.files").fetchone()
    owned = hand.conn.execute(
        "SELECT count(*) AS n FROM stdlib_audit.files WHERE job_id = %s", (again.id,)
    ).fetchone()
    assert before == after
    assert owned["n"] == 1


def test_a_file_that_has_gone_fails_its_job(hand):
    enqueue(hand.conn, "audit.file", {"path": "/nowhere/at/all.py"}, priority=1_000)

    endings = hand.run_all("audit.file")
    assert getattr(endings[0], "error_type", None) == "FileNotFoundError"


def test_a_lost_connection_is_opened_again(hand):
    hand.run_all("audit.summary")
    storage._kept[0].close()
    enqueue(hand.conn, "audit.summary", priority=1)

    assert [type(ending) for ending in hand.run_all("audit.summary")] == [Deferred]


# The whole, in a worker of its own ------------------------------------------------------------


@pytest.mark.slow
def test_a_worker_does_it_all_and_ends_each_job_as_declared(database, few_files):
    owner = database.owner()
    load(owner)
    environ = {**os.environ, "DATABASE_URL": database.url}
    command = [FLASK, "queue", "work", "--jobs", "examples.stdlib_audit:jobs", "--processes", "2"]
    with subprocess.Popen(command, cwd=ROOT, env=environ, stderr=subprocess.DEVNULL) as worker:
        try:
            wait_for_the_summary(owner)
        finally:
            worker.send_signal(signal.SIGTERM)
    ends = {row["name"]: row for row in owner.execute(ENDS).fetchall()}
    paths = completed_paths(owner)

    assert worker.returncode == 0
    assert ends["audit.kill_own_process_for_review"]["state"] == "needs_review"
    assert ends["audit.kill_own_process_for_review"]["signal"] == 9
    assert ends["audit.kill_own_process"]["error"] == "crashed: signal 9"
    assert ends["audit.kill_own_process"]["uncertain"]
    assert ends["audit.duplicates"]["error"] == "timed out after 5s"
    assert ends["audit.summary"]["result"] == {"files": len(paths), "lines": wc(paths)}
    files = owner.execute(
        "SELECT count(*) AS n FROM countersign.jobs JOIN countersign.ended USING (id) "
        "WHERE name = 'audit.file' AND state IN ('completed', 'failed')"
    ).fetchone()
    assert files["n"] == found(few_files, sources.BROKEN)
    assert check.check(owner, full=True) == []


ENDS = """
SELECT jobs.name, job_states.state, ended.error, ended.uncertain, ended.result, review.signal
FROM countersign.jobs
JOIN countersign.job_states USING (id)
LEFT JOIN countersign.ended USING (id)
LEFT JOIN countersign.review USING (id)
WHERE jobs.name <> 'audit.file'
"""


def wait_for_the_summary(conn) -> None:
    give_up = time.monotonic() + 90
    while time.monotonic() < give_up:
        left = conn.execute(
            "SELECT FROM countersign.jobs JOIN countersign.job_states USING (id) "
            "WHERE job_states.state NOT IN ('completed', 'failed', 'needs_review')"
        ).fetchall()
        if not left:
            return
        time.sleep(0.1)
    pytest.fail("the jobs did not end within 90 s")
