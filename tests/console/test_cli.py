import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from subprocess import PIPE
from typing import IO
from uuid import UUID, uuid4

import click.testing
import pytest
from psycopg import conninfo

import queue_core
from console.cli import queue, signature
from queue_core import check, fleet, operators, sessions
from queue_core.errors import ContendedError, EmbeddedError
from queue_core.migrate import make_partitions
from queue_core.outcomes import Failed, RunReport
from queue_core.queries.acts import acts_of
from queue_core.queries.facts import JobFacts
from queue_core.queries.jobs import JobRow
from queue_core.queries.places import locate
from queue_core.seals import seal
from queue_core.transitions.claim import Claimable, claim
from queue_core.transitions.dispute import dispute
from queue_core.transitions.fail import fail
from queue_core.transitions.recover import recover

CANARY = "canary-7c1e-do-not-repeat"
PASSWORD = "correct horse battery"
FLASK = Path(sys.executable).with_name("flask")
MODULE = """
from queue_core import Registry

jobs = Registry()
not_a_registry = 1


@jobs.job("cli.mail")
def mail(run, address: str, copies: int = 1) -> None:
    "Send a letter."
"""


@pytest.fixture(scope="session")
def declaring(tmp_path_factory):
    """Make a folder with a module that declares `cli.mail`."""
    folder = tmp_path_factory.mktemp("declared")
    (folder / "cli_test_jobs.py").write_text(MODULE)
    (folder / "cli_test_broken.py").write_text("raise SystemExit('not today')")
    return folder


def add_operators(conn) -> None:
    signed = {"by": "setup:root", "reason": "set up", "via": "code"}
    operators.add(conn, "ops:alice", "admin", PASSWORD, **signed)
    signed["by"] = "ops:alice"
    operators.add(conn, "ops:bob", "operator", PASSWORD, **signed)
    operators.add(conn, "ops:vera", "viewer", PASSWORD, **signed)


def run(*words: str, given: str | bytes | None = None) -> click.testing.Result:
    result = click.testing.CliRunner().invoke(queue, words, input=given)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert CANARY not in result.output
    return result


@pytest.fixture
def cli(conn, declaring, monkeypatch):
    """Give a function that runs `flask queue …` in the test's transaction, with operators."""

    @contextmanager
    def connect(*_: object, **__: object) -> Iterator[object]:
        with conn.transaction():
            yield conn

    monkeypatch.setenv("DATABASE_URL", "dbname=of-the-test")
    monkeypatch.setattr("queue_core.database.connect", connect)
    monkeypatch.chdir(declaring)
    add_operators(conn)
    return run


@pytest.fixture
def real_cli(database, declaring, monkeypatch):
    """Give a function that runs `flask queue …` on a database of the test's own."""
    monkeypatch.setenv("DATABASE_URL", database.url)
    monkeypatch.setenv("QUEUE_OWNER_URL", database.owner_url)
    monkeypatch.chdir(declaring)
    add_operators(database.connect())
    return run


SIGNED = ("--by", "ops:bob", "--reason", "on-call")
MAIL = ("enqueue", "cli.mail", "--args", "-", "--jobs", "cli_test_jobs", *SIGNED)
ARGS = json.dumps({"address": CANARY})


def enqueued(cli, *options: str) -> UUID:
    result = cli(*MAIL, *options, given=ARGS)
    assert result.exit_code == 0, result.output
    return UUID(result.stdout.strip())


def failed(conn, error: str = "no such address") -> None:
    """Run what is ready, and fail it."""
    worker = fleet.register(conn, fleet.Identity("pay-3", 4121, "b", "n", "0.1.0", [], 4))
    for run in claim(conn, worker=worker, names=[Claimable("cli.mail")], count=100):
        ending = Failed(error, error_type="SMTPError", traceback="Traceback:\n  send()")
        fail(conn, worker, [RunReport(run.id, run.attempt, ending, 1.0, 4122)])


def acts(conn) -> list[tuple]:
    found = conn.execute(
        "SELECT by, act, reason, note, via FROM countersign.acts "
        "WHERE subject_kind <> 'operator' ORDER BY id"
    ).fetchall()
    return [tuple(row.values()) for row in found]


def state(conn, job: UUID) -> str:
    return locate(conn, [job])[job].state


# enqueue ------------------------------------------------------------------------------------------


def test_a_job_is_enqueued_with_its_act_and_its_id_is_printed(cli, conn):

    job = enqueued(cli, "--queue", "post", "--priority", "7", "--note", "as promised")

    row = conn.execute("SELECT * FROM countersign.jobs").fetchone()
    assert (row["id"], row["queue"], row["priority"]) == (job, "post", 7)
    assert row["args"] == {"address": CANARY}
    via = signature.via()
    assert acts(conn) == [("ops:bob", "enqueued", "on-call", "as promised", via)]
    assert re.fullmatch(r"cli:[^@]+@.+", via)


def test_a_jobs_options_reach_it(cli, conn):
    enqueued(cli, "--delay", "3600", "--attempts", "3", "--time-limit", "2.5")

    row = conn.execute("SELECT attempts, time_limit FROM countersign.jobs").fetchone()
    assert row == {"attempts": 3, "time_limit": 2.5}
    assert json.loads(cli("counts", "--json").stdout)["waiting"] == 1


def test_a_job_may_be_given_its_time_with_a_zone(cli, conn):
    job = enqueued(cli, "--run-at", "2999-12-31T09:00:00+01:00")

    (row,) = conn.execute("SELECT id, run_at FROM countersign.waiting").fetchall()
    assert row == {"id": job, "run_at": datetime(2999, 12, 31, 8, tzinfo=UTC)}


@pytest.mark.parametrize("time", ["2999-12-31T08:00:00", "tomorrow", "", "0001-01-01T00:00:00Z"])
def test_a_time_without_a_zone_or_that_is_none_is_a_mistake(cli, conn, time):
    result = cli(*MAIL, "--run-at", time, given=ARGS)

    assert result.exit_code == 2
    assert acts(conn) == []


@pytest.mark.parametrize(
    "given",
    [
        "",
        "[1]",
        "{",
        '{"address": 1, "copies": "many"}',
        '{"nobody": 1}',
        '{"address": "a\\u0000b"}',
        '{"address": "\\ud800"}',
        '{"address": "x", "copies": NaN}',
        '{"address": "x", "copies": ' + "9" * 5_000 + "}",
        '{"address": ' + "[" * 7_000 + "]" * 7_000 + "}",
        '{"address": "' + "x" * 300_000 + '"}',
        "x" * 5_000_000,
        b"\xff\xfe",
    ],
)
def test_arguments_that_cannot_be_kept_are_a_mistake_and_nothing_is_written(cli, conn, given):
    result = cli(*MAIL, given=given)

    assert result.exit_code == 2
    assert len(result.stderr) < 500
    assert acts(conn) == []


def test_a_mistake_in_the_arguments_names_the_field_and_not_the_value(cli):
    result = cli(*MAIL, given=json.dumps({"address": [CANARY], "copies": 1}))

    assert result.exit_code == 2
    assert "address: must be text" in result.stderr


@pytest.mark.parametrize("option", ["--args", "--password"])
def test_secrets_on_the_command_line_are_refused_and_not_repeated(cli, option):
    words = ("operators", "reset", "ops:bob") if option == "--password" else MAIL[:2]
    result = cli(*words, "--jobs" if option == "--args" else "--by", "x", *SIGNED, option, CANARY)

    assert result.exit_code == 2
    assert "takes only -" in result.stderr


@pytest.mark.parametrize(
    ("jobs", "words"),
    [
        ("no_such_module", "No module named"),
        ("cli_test_broken", "not today"),
        ("cli_test_jobs:nothing", "no registry"),
        ("cli_test_jobs:not_a_registry", "no registry"),
        ("..", "cannot be imported"),
        ("", "cannot be imported"),
        ("a\0b", "cannot be imported"),
        ("\ud800", "cannot be imported"),
    ],
)
def test_a_declaration_that_cannot_be_had_is_a_mistake(cli, jobs, words):
    result = cli("enqueue", "cli.mail", f"--jobs={jobs}", *SIGNED)

    assert result.exit_code == 2
    assert words in result.stderr


def test_a_name_that_nobody_declares_is_a_mistake_with_the_nearest_ones(cli):
    result = cli("enqueue", "cli.mial", "--jobs=cli_test_jobs:jobs", *SIGNED)

    assert result.exit_code == 2
    assert "did you mean 'cli.mail'" in result.stderr


# check --attention --------------------------------------------------------------------------------


def test_nobody_is_called_while_nobody_is_needed(cli):
    enqueued(cli)

    result = cli("check", "--attention")

    assert (result.exit_code, result.output) == (0, "")
    assert json.loads(cli("check", "--attention", "--json").stdout) == {"ok": True, "needs": []}


def test_a_person_is_called_in_one_line(cli, conn):
    job = enqueued(cli)
    conn.execute("INSERT INTO countersign.review (id, why, attempt) VALUES (%s, 'lost', 1)", (job,))
    conn.execute("DELETE FROM countersign.ready")
    conn.execute(
        "INSERT INTO countersign.ready (id, queue, name, rank, run_at) VALUES"
        " (countersign.new_id(), E'two\\nlines', 'x', 0, now() - interval '10 min')"
    )

    result = cli("check", "--attention")
    needs = json.loads(cli("check", "--attention", "--json").stdout)["needs"]

    assert result.exit_code == 1
    (line,) = result.stdout.splitlines()
    assert line.startswith("a person is needed: no worker is alive, and a job of 'two")
    assert line.endswith("; 1 job in review, the oldest for 0 min")
    assert [need["code"] for need in needs] == ["worker.none", "review.waiting"]


@pytest.mark.parametrize("option", ["--full", f"--head=1:{'0' * 64}"])
def test_whether_a_person_is_needed_is_a_question_of_its_own(cli, option):
    result = cli("check", "--attention", option)

    assert result.exit_code == 2
    assert "stands alone" in result.stderr


# queues -------------------------------------------------------------------------------------------


def test_a_queue_is_paused_and_resumed_each_with_its_act(cli, conn):
    paused = cli("queues", "pause", "cli", *SIGNED, "--note", "printer on fire")
    listed = cli("queues", "list").stdout
    resumed = cli("queues", "resume", "cli", *SIGNED)

    assert (paused.exit_code, resumed.exit_code) == (0, 0)
    assert paused.stdout.startswith("paused cli (act ")
    assert listed.splitlines()[1].split()[0] == "cli"
    assert acts(conn) == [
        ("ops:bob", "paused", "on-call", "printer on fire", signature.via()),
        ("ops:bob", "resumed", "on-call", None, signature.via()),
    ]
    assert cli("queues", "list").stdout == "no queues\n"


@pytest.mark.parametrize(("verb", "words"), [("pause", "paused already"), ("resume", "not paused")])
def test_a_queue_that_is_so_already_is_a_refusal(cli, conn, verb, words):
    if verb == "pause":
        cli("queues", "pause", "cli", *SIGNED)
    before = acts(conn)

    result = cli("queues", verb, "cli", *SIGNED)

    assert result.exit_code == 1
    assert words in result.stderr
    assert acts(conn) == before


def test_queues_are_listed_for_people_and_for_programs(cli):
    enqueued(cli)
    cli("queues", "pause", "default", *SIGNED)

    (row,) = json.loads(cli("queues", "list", "--json").stdout)["queues"]
    line = cli("queues", "list").stdout.splitlines()[1].split()

    assert (row["name"], row["ready"], row["running"]) == ("default", 1, 0)
    assert row["paused_at"].endswith("Z")
    assert line[:5] == ["default", "1", "0", "0", "0"]


def test_a_number_past_the_cap_says_so(cli, monkeypatch):
    enqueued(cli)
    monkeypatch.setattr("console.cli.queues.CAP", 0)

    assert cli("queues", "list").stdout.splitlines()[1].split()[1] == "0+"


def test_clearing_takes_a_commit_for_each_batch_and_tells_the_sum(real_cli, database):
    for _ in range(5):
        enqueued(real_cli)
    bulk = uuid4()

    result = real_cli("queues", "clear", "default", *SIGNED, "--limit=2", f"--bulk-id={bulk}")

    assert result.exit_code == 0
    assert result.stdout == f"cancelled 5 jobs of default (bulk {bulk})\n"
    kept = (
        database.connect()
        .execute("SELECT xid::text, bulk_id FROM countersign.acts WHERE act = 'cancelled'")
        .fetchall()
    )
    assert {row["bulk_id"] for row in kept} == {bulk}
    assert len(kept) == 5
    assert len({row["xid"] for row in kept}) == 3


def test_an_empty_queue_is_cleared_of_nothing(cli, conn):
    result = cli("queues", "clear", "cli", *SIGNED)

    assert result.exit_code == 0
    assert result.stdout.startswith("cancelled 0 jobs of cli ")
    assert acts(conn) == []


def test_what_was_cleared_before_it_went_wrong_is_told(real_cli, monkeypatch):
    for _ in range(3):
        enqueued(real_cli)
    clear, left = queue_core.clear_queue, [2]

    def twice(*given, **options):
        if not left:
            raise ContendedError
        left.pop()
        return clear(*given, **options)

    monkeypatch.setattr("queue_core.clear_queue", twice)
    result = real_cli("queues", "clear", "default", *SIGNED, "--limit=1")

    assert result.exit_code == 1
    assert result.stdout.startswith("cancelled 1 jobs of default ")


@pytest.mark.parametrize("verb", ["pause", "resume", "clear"])
@pytest.mark.parametrize(
    ("by", "code", "words"),
    [
        ("ops:nobody", 1, "enabled operator"),
        ("ops:vera", 1, "role operator"),
        ("a\nb", 2, "`by` must be"),
    ],
)
def test_only_an_operator_who_may_act_changes_a_queue(cli, conn, verb, by, code, words):
    result = cli("queues", verb, "cli", f"--by={by}", "--reason=on-call")

    assert result.exit_code == code
    assert words in result.stderr
    assert result.stdout == ""
    assert acts(conn) == []


# cancel, retry, release, confirm, close -----------------------------------------------------------


def test_jobs_are_cancelled_and_retried_each_with_its_act(cli, conn):
    jobs = [enqueued(cli), enqueued(cli)]
    ids = [str(job) for job in jobs]

    assert cli("cancel", *ids, *SIGNED).exit_code == 0
    assert [state(conn, job) for job in jobs] == ["cancelled"] * 2
    result = cli("retry", *ids, *SIGNED, "--note", "after all")

    assert result.exit_code == 0
    assert [state(conn, job) for job in jobs] == ["ready"] * 2
    assert [act[1] for act in acts(conn)] == ["enqueued"] * 2 + ["cancelled"] * 2 + ["retried"] * 2
    assert acts(conn)[-1] == ("ops:bob", "retried", "on-call", "after all", signature.via())
    assert [line.split()[0] for line in result.stdout.splitlines()] == ids


def test_a_job_that_is_not_as_it_was_seen_is_left_alone(cli, conn):
    job = str(enqueued(cli))

    moved_on = cli("cancel", job, *SIGNED, "--seen-state=running", "--seen-attempt=1")
    half = cli("cancel", job, *SIGNED, "--seen-state=ready")
    as_seen = cli("cancel", job, *SIGNED, "--seen-state=waiting", "--seen-attempt=0")

    assert (moved_on.exit_code, half.exit_code, as_seen.exit_code) == (1, 2, 0)
    assert "not cancelled: moved on: it is ready, attempt 0" in moved_on.stdout
    assert "go together" in half.stderr
    assert [act[1] for act in acts(conn)] == ["enqueued", "cancelled"]


def test_the_acts_of_one_bulk_share_its_id(cli, conn):
    jobs, bulk = [str(enqueued(cli)), str(enqueued(cli))], uuid4()

    assert cli("cancel", *jobs, *SIGNED, "--bulk-id", str(bulk)).exit_code == 0

    query = "SELECT bulk_id FROM countersign.acts WHERE act = 'cancelled'"
    assert [row["bulk_id"] for row in conn.execute(query)] == [bulk] * 2


def test_a_job_in_review_is_released(cli, conn):
    job = enqueued(cli)
    conn.execute("DELETE FROM countersign.ready")
    conn.execute("INSERT INTO countersign.review (id, why, attempt) VALUES (%s, 'lost', 1)", (job,))

    assert cli("release", str(job), *SIGNED).exit_code == 0
    assert state(conn, job) == "ready"


@pytest.mark.parametrize(
    ("verb", "act", "leads"),
    [("confirm", "confirmed", "completed"), ("close", "closed", "cancelled")],
)
def test_a_job_in_review_leaves_it_for_good(cli, conn, verb, act, leads):
    job = enqueued(cli)
    conn.execute("DELETE FROM countersign.ready")
    conn.execute("INSERT INTO countersign.review (id, why, attempt) VALUES (%s, 'lost', 1)", (job,))

    assert cli(verb, str(job), *SIGNED).exit_code == 0
    assert state(conn, job) == leads
    assert acts(conn)[-1][:2] == ("ops:bob", act)


def test_a_confirmed_job_is_shown_with_who_confirmed_it(cli, conn):
    job = enqueued(cli)
    conn.execute("DELETE FROM countersign.ready")
    conn.execute("INSERT INTO countersign.review (id, why, attempt) VALUES (%s, 'lost', 1)", (job,))
    cli("confirm", str(job), *SIGNED)

    facts = json.loads(cli("show", str(job), "--json").stdout)["job"]

    assert "completed (confirmed by ops:bob)" in cli("show", str(job)).stdout
    assert (facts["state"], facts["confirmed_by"]) == ("completed", "ops:bob")


def test_an_act_that_does_not_apply_says_why_and_ends_with_1(cli, conn):
    job = enqueued(cli)
    before = acts(conn)

    wrong_state = cli("retry", str(job), *SIGNED)
    not_found = cli("cancel", str(uuid4()), *SIGNED)

    assert (wrong_state.exit_code, not_found.exit_code) == (1, 1)
    assert "it is ready" in wrong_state.stdout
    assert "there is no such job" in not_found.stdout
    assert acts(conn) == before


def test_a_second_request_to_stop_names_the_first(cli, conn):
    job = enqueued(cli)
    worker = fleet.register(conn, fleet.Identity("pay-3", 4121, "b", "n", "0.1.0", [], 4))
    claim(conn, worker=worker, names=[Claimable("cli.mail")], count=1)

    first, second = cli("cancel", str(job), *SIGNED), cli("cancel", str(job), *SIGNED)

    assert (first.exit_code, second.exit_code) == (0, 1)
    assert re.search(r"asked already by ops:bob at \d{4}-.*Z: it is running", second.stdout)


def test_a_request_to_stop_may_say_when_the_run_is_killed(cli, conn):
    job = enqueued(cli)
    worker = fleet.register(conn, fleet.Identity("pay-3", 4121, "b", "n", "0.1.0", [], 4))
    claim(conn, worker=worker, names=[Claimable("cli.mail")], count=1)

    wrong = [cli("cancel", str(job), *SIGNED, "--kill-after", each) for each in ("0", "x", "86401")]
    assert [each.exit_code for each in wrong] == [2] * 3
    assert cli("cancel", str(job), *SIGNED, "--kill-after", "30").exit_code == 0

    assert fleet.asked_to_stop(conn, worker) == [fleet.Asked(job, 1, 30)]
    assert "cancel_requested, kill after 30 s" in cli("show", str(job)).stdout


def test_a_second_request_may_add_when_the_run_is_killed(cli, conn):
    job = enqueued(cli)
    worker = fleet.register(conn, fleet.Identity("pay-3", 4121, "b", "n", "0.1.0", [], 4))
    claim(conn, worker=worker, names=[Claimable("cli.mail")], count=1)
    kill = [*SIGNED, "--kill-after", "30"]

    codes = [cli("cancel", str(job), *each).exit_code for each in (SIGNED, kill, kill)]

    assert codes == [0, 0, 1]
    assert fleet.asked_to_stop(conn, worker) == [fleet.Asked(job, 1, 30)]


def test_a_job_whose_body_is_gone_is_shown_and_not_run_again(real_cli, database):
    conn = database.connect()
    job = enqueued(real_cli)
    conn.execute("DELETE FROM countersign.ready")
    conn.execute("INSERT INTO countersign.review (id, why, attempt) VALUES (%s, 'lost', 1)", (job,))
    database.owner().execute("DELETE FROM countersign.jobs")

    shown, refused = real_cli("show", str(job)), real_cli("release", str(job), *SIGNED)

    assert "needs_review" in shown.stdout
    assert str(job) in real_cli("jobs", "--state", "needs_review").stdout
    assert refused.exit_code == 1
    assert "is gone, so it cannot run again" in refused.stdout


def test_of_several_jobs_those_that_the_act_applies_to_are_changed(cli, conn):
    job = enqueued(cli)

    result = cli("cancel", str(uuid4()), str(job), *SIGNED)

    assert result.exit_code == 1
    assert state(conn, job) == "cancelled"
    assert [" not " in line for line in result.stdout.splitlines()] == [True, False]


@pytest.mark.parametrize("verb", ["cancel", "retry", "release", "confirm", "close", "enqueue"])
@pytest.mark.parametrize(
    ("by", "code", "words"),
    [
        ("ops:nobody", 1, "enabled operator"),
        ("ops:vera", 1, "role operator"),
        ("setup:root", 1, "enabled operator"),
        ("a\nb", 2, "`by` must be"),
    ],
)
def test_only_an_operator_who_may_act_signs(cli, conn, verb, by, code, words):
    job = enqueued(cli)
    rest = ("cli.mail", "--jobs=cli_test_jobs") if verb == "enqueue" else (str(job),)

    result = cli(verb, *rest, f"--by={by}", "--reason=on-call")

    assert result.exit_code == code
    assert words in result.stderr
    assert len(acts(conn)) == 1


@pytest.mark.parametrize("verb", ["cancel", "retry", "release", "confirm", "close"])
@pytest.mark.parametrize("missing", ["--by", "--reason"])
def test_there_is_no_act_without_who_and_why(cli, verb, missing):
    signed = {"--by": "ops:bob", "--reason": "on-call"}
    del signed[missing]
    (left,) = signed.items()

    result = cli(verb, str(uuid4()), *left)

    assert result.exit_code == 2
    assert missing in result.stderr


def test_at_a_terminal_who_and_why_are_asked_for(cli, conn, monkeypatch):
    job = enqueued(cli)
    monkeypatch.setattr(signature, "at_terminal", lambda: True)

    result = cli("cancel", str(job), given="ops:bob\non-call\n")

    assert result.exit_code == 0
    assert acts(conn)[-1][:3] == ("ops:bob", "cancelled", "on-call")


def test_an_act_whose_ledger_entry_fails_changes_nothing(real_cli, database):
    job = enqueued(real_cli)
    database.owner().execute(
        "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'no act today'; END $$; "
        "CREATE TRIGGER zz BEFORE INSERT ON countersign.acts FOR EACH ROW EXECUTE FUNCTION fail()"
    )

    result = real_cli("cancel", str(job), *SIGNED)

    assert result.exit_code == 3
    assert state(database.connect(), job) == "ready"


# counts, jobs, show -------------------------------------------------------------------------------


def test_what_somebody_else_holds_is_not_waited_for_and_nothing_is_written(real_cli, database):
    """The holder lets go only after both commands have ended."""
    job = enqueued(real_cli)
    commands = [("cancel", str(job), *SIGNED), ("queues", "clear", "default", *SIGNED)]
    with database.owner(autocommit=False) as holder, ThreadPoolExecutor(1) as pool:
        holder.execute("SELECT FROM countersign.ready WHERE id = %s FOR UPDATE", [job])
        try:
            results = [pool.submit(real_cli, *words).result(30) for words in commands]
        finally:
            holder.rollback()
    for result in results:
        assert result.exit_code == 1
        assert "nothing was written, so try again" in result.output
    conn = database.connect()
    assert locate(conn, [job])[job].state == "ready"
    assert [each.act for each in acts_of(conn, job)] == ["enqueued"]


def test_counts_are_one_object_with_every_state(cli):
    enqueued(cli)

    found = json.loads(cli("counts", "--json").stdout)

    assert list(found) == [
        *("at", "ready", "waiting", "blocked", "running", "completed", "failed", "cancelled"),
        *("needs_review", "oldest_ready_seconds"),
    ]
    assert found["ready"] == 1
    assert isinstance(found["oldest_ready_seconds"], float)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", found["at"])
    assert "needs review" in cli("counts").stdout


def test_jobs_are_listed_with_what_needs_a_person_first(cli, conn):
    enqueued(cli)
    failed(conn, "no such\a\x9b2J address\nsecond line")
    ready = enqueued(cli)

    listed = cli("jobs").stdout.splitlines()
    found = json.loads(cli("jobs", "--json").stdout)

    assert [line.split()[1] for line in listed] == ["state", "ready", "failed"]
    assert listed[2].isprintable()
    assert "second line" not in listed[2]
    assert [row["state"] for row in found["jobs"]] == ["ready", "failed"]
    assert found["jobs"][0]["id"] == str(ready)
    assert found["more"] is False
    assert set(found["jobs"][0]) == set(JobRow.__dataclass_fields__)


def test_jobs_are_listed_by_state_queue_and_name(cli):
    enqueued(cli, "--queue=post")
    enqueued(cli)

    def number(*words: str) -> int:
        return len(json.loads(cli("jobs", "--json", *words).stdout)["jobs"])

    assert number("--queue=post") == 1
    assert number("--queue=none") == 0
    assert number("--name=cli.mail") == 2
    assert number("--name=cli.nail") == 0
    assert number("--state=ready") == 2
    assert number("--state=failed") == 0
    assert cli("jobs", "--state=failed").stdout == "no jobs\n"


def test_a_list_says_that_it_goes_on(cli, monkeypatch):
    monkeypatch.setattr("queue_core.queries.jobs.MOST", 2)
    for _ in range(5):
        enqueued(cli)

    found = json.loads(cli("jobs", "--limit=4", "--json").stdout)
    assert (len(found["jobs"]), found["more"]) == (4, True)
    assert "these are the first 4" in cli("jobs", "--limit=4").stdout
    found = json.loads(cli("jobs", "--limit=5", "--json").stdout)
    assert (len({row["id"] for row in found["jobs"]}), found["more"]) == (5, False)


def test_one_job_is_shown_with_its_runs_and_acts_but_not_its_arguments(cli, conn):
    job = enqueued(cli)
    failed(conn)
    cli("retry", str(job), *SIGNED)

    found = json.loads(cli("show", str(job), "--json").stdout)
    text = cli("show", str(job)).stdout

    assert set(found["job"]) == set(JobFacts.__dataclass_fields__)
    assert found["job"]["state"] == "ready"
    assert [run["error"] for run in found["runs"]] == ["no such address"]
    assert [act["act"] for act in found["acts"]] == ["enqueued", "retried"]
    for words in ("cli.mail", "run 1: failed", "SMTPError", "Traceback:", "retried", "ops:bob"):
        assert words in text


def test_a_late_report_is_shown_beside_the_run_that_was_given_up(cli, conn):
    job = enqueued(cli)
    worker = fleet.register(conn, fleet.Identity("pay-3", 4121, "b", "n", "0.1.0", [], 4))
    claim(conn, worker=worker, names=[Claimable("cli.mail")], count=1)
    fleet.give_up(conn, worker)
    recover(conn)
    dispute(conn, worker, [RunReport(job, 1, Failed("too late", error_type="SMTPError"), 1.0)])

    told = json.loads(cli("show", str(job), "--json").stdout)
    shown = cli("show", str(job)).stdout

    assert {run["outcome"] for run in told["runs"]} == {"lost", "late_failed"}
    assert (told["job"]["state"], told["job"]["uncertain"]) == ("needs_review", True)
    assert "run 1: lost" in shown
    assert "run 1: late_failed" in shown
    assert "too late" in shown


def test_a_failure_that_may_have_run_in_part_is_marked_in_lists_and_facts(cli, conn):
    sure, lost = enqueued(cli), enqueued(cli)
    worker = fleet.register(conn, fleet.Identity("pay-3", 4121, "b", "n", "0.1.0", [], 4))
    claim(conn, worker=worker, names=[Claimable("cli.mail")], count=2)
    fail(conn, worker, [RunReport(sure, 1, Failed("no"), 1.0)])
    fleet.give_up(conn, worker)
    recover(conn)

    rows = json.loads(cli("jobs", "--state", "failed", "--json").stdout)["jobs"]
    lines = cli("jobs", "--state", "failed").stdout.splitlines()

    assert {row["id"]: row["uncertain"] for row in rows} == {str(sure): False, str(lost): True}
    assert [str(lost) in line for line in lines if "failed, uncertain" in line] == [True]
    assert json.loads(cli("show", str(lost), "--json").stdout)["job"]["uncertain"] is True


def test_a_job_that_nobody_knows_cannot_be_shown(cli):
    result = cli("show", str(uuid4()))

    assert result.exit_code == 1
    assert "no such job" in result.stderr


# check and migrate --------------------------------------------------------------------------------


def test_a_sound_database_checks_out_with_0(cli, conn):
    make_partitions(conn)
    plain = cli("check", "--full")

    assert (plain.exit_code, plain.stdout, plain.stderr) == (0, "sound\n", "")
    assert json.loads(cli("check", "--json").stdout) == {"ok": True, "problems": []}


def test_the_head_of_the_seals_is_printed_and_looked_for_again(real_cli, database):
    assert real_cli("seals").stdout == "no act has been sealed yet\n"
    assert json.loads(real_cli("seals", "--json").stdout) == {"head": None, "seals": []}
    seal(database.connect())  # the two operators of the fixture
    enqueued(real_cli)
    seal(database.connect())

    head, _, heading, *listed = real_cli("seals").stdout.splitlines()
    found = json.loads(real_cli("seals", "--json", "--limit=1").stdout)

    assert heading.split() == ["number", "at", "acts", "rebase"]
    assert [line.split()[0] for line in listed] == ["2", "1"]
    assert found["head"] == head
    assert found["head"] == f"2:{found['seals'][0]['sha256']}"
    assert real_cli("check", "--head", head).exit_code == 0
    gone = real_cli("check", "--head", head, "--head", f"7:{'0a' * 32}")
    assert gone.exit_code == 1
    assert "ledger.seal_removed: seal 7" in gone.stdout


def test_what_is_no_head_is_a_mistake(real_cli):
    result = real_cli("check", "--head", "7")

    assert result.exit_code == 2
    assert "64 hexadecimal digits" in result.stderr


def test_problems_are_told_with_how_to_mend_them_and_end_with_1(real_cli, database):
    database.owner().execute("ALTER TABLE countersign.acts DISABLE TRIGGER acts_stamp")

    plain, found = real_cli("check"), real_cli("check", "--json")

    assert (plain.exit_code, found.exit_code) == (1, 1)
    problem = json.loads(found.stdout)["problems"][0]
    assert json.loads(found.stdout)["ok"] is False
    assert set(problem) == {"code", "what", "mend"}
    assert problem["code"] == "ledger.trigger_disabled"
    assert problem["what"] in plain.stdout
    assert problem["mend"] in plain.stdout


def test_full_looks_where_the_quick_form_does_not(real_cli, database, monkeypatch):
    monkeypatch.setattr(check.places, "NEWEST_IDS", 0)
    enqueued(real_cli)
    database.owner().execute("DELETE FROM countersign.ready")

    assert real_cli("check").exit_code == 0
    assert real_cli("check", "--full").exit_code == 1


@pytest.mark.parametrize("harm", ["DROP SCHEMA countersign CASCADE", "newer"])
def test_a_schema_that_is_absent_or_newer_ends_every_command_with_3(real_cli, database, harm):
    newer = "INSERT INTO countersign.migrations VALUES (9000, '9000_later.sql', 'x')"
    database.owner().execute(newer if harm == "newer" else harm)

    for words in (
        ("check",),
        ("counts",),
        ("jobs",),
        ("show", str(uuid4())),
        ("cancel", str(uuid4()), *SIGNED),
        ("operators", "list"),
        ("operators", "disable", "ops:bob", *SIGNED),
    ):
        assert real_cli(*words).exit_code == 3, words
    if harm == "newer":
        assert real_cli("migrate").exit_code == 3


def test_nobody_acts_on_an_unsound_ledger_but_everybody_may_look(real_cli, database):
    job = enqueued(real_cli)
    database.owner().execute("DROP TRIGGER acts_refuse_row ON countersign.acts")

    assert real_cli("cancel", str(job), *SIGNED).exit_code == 3
    assert (
        real_cli("operators", "disable", "ops:bob", "--by=ops:alice", "--reason=x").exit_code == 3
    )
    assert state(database.connect(), job) == "ready"
    assert real_cli("show", str(job)).exit_code == 0


def test_a_role_that_could_rewrite_the_ledger_is_warned(real_cli, database, monkeypatch):
    monkeypatch.setenv("DATABASE_URL", database.owner_url)

    result = real_cli("check", "--json")

    assert result.exit_code == 0
    assert json.loads(result.stdout)["ok"] is True
    assert "warning" in result.stderr
    assert "owns the ledger" in result.stderr


def test_migrating_twice_applies_everything_once(real_cli, database):
    database.owner().execute("DROP SCHEMA countersign CASCADE")

    first, second = real_cli("migrate"), real_cli("migrate")

    assert first.exit_code == second.exit_code == 0
    assert "applied 0001_foundation.sql" in first.stdout
    assert "nothing to apply" in second.stdout
    assert real_cli("check").exit_code == 0


def test_migrations_run_as_the_owner_and_nothing_else_does(real_cli, monkeypatch):
    monkeypatch.setenv("QUEUE_OWNER_URL", "host=/nowhere/at/all")

    assert real_cli("migrate").exit_code == 3
    assert real_cli("counts").exit_code == 0
    assert real_cli("enqueue", "cli.mail", "--jobs=cli_test_jobs", "--args=-", *SIGNED, given=ARGS)


def test_the_migrations_can_be_printed_without_a_database(real_cli, monkeypatch):
    monkeypatch.setenv("QUEUE_OWNER_URL", "host=/nowhere/at/all")
    monkeypatch.setenv("DATABASE_URL", "host=/nowhere/at/all")

    result = real_cli("migrate", "--sql")

    assert result.exit_code == 0
    assert "CREATE TABLE countersign.acts" in result.stdout


# operators ----------------------------------------------------------------------------------------


def test_an_operator_is_added_with_a_random_password_that_is_printed_once(cli, conn):
    result = cli("operators", "add", "ops:carol", "--role=viewer", "--by=ops:alice", "--reason=new")

    password = re.search(r"password: (\S+)", result.stdout)
    assert result.exit_code == 0
    assert password
    assert sessions.sign_in(conn, "ops:carol", password[1], address=None).role == "viewer"
    row = conn.execute(
        "SELECT by, act, subject_name, via FROM countersign.acts ORDER BY id DESC LIMIT 1"
    ).fetchone()
    assert tuple(row.values()) == ("ops:alice", "added", "ops:carol", signature.via())


@pytest.mark.parametrize("command", ["add", "reset"])
def test_a_password_comes_by_standard_input_and_is_not_printed(cli, conn, command):
    code = "ops:carol" if command == "add" else "ops:bob"
    role = ("--role=operator",) if command == "add" else ()
    signed = ("--by=ops:alice", "--reason=x")

    result = cli("operators", command, code, *role, *signed, "--password=-", given=f"{CANARY}\r\n")

    assert result.exit_code == 0
    assert sessions.sign_in(conn, code, CANARY, address=None)


@pytest.mark.parametrize("given", ["", "short\n", "x" * 201, "x" * 10_000, b"\xff" * 20])
def test_an_unfit_password_changes_nothing(cli, conn, given):
    signed = ("--by=ops:alice", "--reason=x")

    result = cli("operators", "reset", "ops:bob", *signed, "--password=-", given=given)

    assert result.exit_code in {1, 2}
    assert sessions.sign_in(conn, "ops:bob", PASSWORD, address=None)


def test_a_reset_ends_the_operators_sessions(cli, conn):
    session = sessions.sign_in(conn, "ops:bob", PASSWORD, address=None)

    assert cli("operators", "reset", "ops:bob", "--by=ops:alice", "--reason=x").exit_code == 0
    assert sessions.resume(conn, session.token) is None


def test_operators_are_disabled_and_listed(cli):
    assert cli("operators", "disable", "ops:bob", "--by=ops:alice", "--reason=left").exit_code == 0

    listed = cli("operators", "list").stdout
    found = json.loads(cli("operators", "list", "--json").stdout)["operators"]

    assert [row["code"] for row in found] == ["ops:alice", "ops:bob", "ops:vera"]
    assert [row["disabled_at"] is None for row in found] == [True, False, True]
    assert "password_hash" not in found[0]
    assert "ops:vera" in listed


@pytest.mark.parametrize(
    "words",
    [
        ("disable", "ops:alice", "--by=ops:alice", "--reason=x"),
        ("disable", "ops:nobody", "--by=ops:alice", "--reason=x"),
        ("reset", "ops:nobody", "--by=ops:alice", "--reason=x"),
        ("add", "ops:bob", "--role=viewer", "--by=ops:alice", "--reason=x"),
        ("add", "ops:new", "--role=viewer", "--by=ops:bob", "--reason=x"),
        ("add", "ops:new", "--role=viewer", "--by=setup:root", "--reason=x"),
    ],
)
def test_what_operators_may_not_do_ends_with_1_and_prints_no_password(cli, words):
    result = cli("operators", *words)

    assert result.exit_code == 1
    assert "password" not in result.stdout


def test_the_first_admin_needs_nobody_to_sign_and_the_second_does(real_cli, database):
    owner = database.owner()
    owner.execute("TRUNCATE countersign.operators CASCADE")

    first = real_cli("operators", "add", "ops:first", "--role=admin", "--reason=set_up")
    second = real_cli("operators", "add", "ops:second", "--role=admin", "--reason=more")

    assert (first.exit_code, second.exit_code) == (0, 2)
    assert "--by" in second.stderr
    row = owner.execute("SELECT by FROM countersign.acts ORDER BY id DESC LIMIT 1").fetchone()
    assert row["by"] == signature.set_up_code()


def test_nobody_sets_up_in_anothers_name(real_cli, database):
    owner = database.owner()
    owner.execute("TRUNCATE countersign.operators CASCADE")

    result = real_cli(
        "operators", "add", "ops:first", "--role=admin", "--reason=x", "--by=setup:eve"
    )

    assert (result.exit_code, result.stdout) == (1, "")
    assert owner.execute("SELECT count(*) AS n FROM countersign.operators").fetchone() == {"n": 0}


# What is typed ------------------------------------------------------------------------------------

HOSTILE = [
    "",
    " ",
    "<img src=x onerror=alert(1)>",
    "'; DROP TABLE countersign.jobs; --",
    "%s%%(x)s{0}",
    "a\0b",
    "\ud800",
    "\udcff",
    "a\u202eb",
    "1e5000",
    "9" * 5_000,
    "nan",
    "-1",
    "x" * 100_000,
]
FIELDS = [
    ("enqueue", "{}", "--jobs=cli_test_jobs", *SIGNED),
    *(
        ("enqueue", "cli.mail", "--jobs=cli_test_jobs", "--args=-", *SIGNED, f"--{option}={{}}")
        for option in (
            "queue",
            "priority",
            "delay",
            "attempts",
            "time-limit",
            "note",
            "by",
            "reason",
        )
    ),
    *(("cancel", *SIGNED, "--", "{}") for _ in range(1)),
    *(
        (verb, str(UUID(int=1)), *SIGNED, f"--{option}={{}}")
        for verb in ("cancel", "retry", "release", "confirm", "close")
        for option in ("by", "reason", "note")
    ),
    ("show", "--", "{}"),
    *(("jobs", f"--{option}={{}}") for option in ("state", "queue", "name", "limit")),
    *(("queues", verb, *SIGNED, "--", "{}") for verb in ("pause", "resume", "clear")),
    *(
        ("queues", verb, "cli", *SIGNED, f"--{option}={{}}")
        for verb in ("pause", "resume", "clear")
        for option in ("by", "reason", "note")
    ),
    *(("queues", "clear", "cli", *SIGNED, f"--{option}={{}}") for option in ("limit", "bulk-id")),
    ("operators", "add", "--role=viewer", "--by=ops:alice", "--reason=x", "--", "{}"),
    ("operators", "add", "ops:x", "--by=ops:alice", "--reason=x", "--role={}"),
    ("operators", "add", "ops:x", "--role=viewer", "--reason=x", "--by={}"),
    ("operators", "reset", "ops:bob", "--by=ops:alice", "--reason={}"),
    ("operators", "disable", "--by=ops:alice", "--reason=x", "--", "{}"),
    *(("work", "--jobs=a", f"--{option}={{}}") for option in ("processes", "grace", "queue")),
    ("{}",),
]


def typed_into(words: tuple[str, ...]) -> list[str]:
    """Return all that is typed where only this command asks, else a third of it, by turns."""
    place = next(word for word in words if "{}" in word)
    alike = [each for each in FIELDS if place in each and place != "{}"]
    return HOSTILE[alike.index(words) % 3 :: 3] if len(alike) > 4 else HOSTILE


@pytest.mark.no_cover  # what is walked through here has tests of its own
@pytest.mark.parametrize("words", FIELDS, ids=" ".join)
def test_nothing_that_is_typed_ends_in_a_traceback(cli, conn, words, monkeypatch):
    monkeypatch.setattr("queue_core.worker.run_worker", lambda _: 0)
    for hostile in typed_into(words):
        before = conn.execute("SELECT count(*) AS n FROM countersign.acts").fetchone()
        typed = [word.replace("{}", hostile) for word in words]
        result = cli(*typed, given='{"address": "x"}')
        after = conn.execute("SELECT count(*) AS n FROM countersign.acts").fetchone()

        assert result.exit_code in {0, 1, 2}
        assert "Traceback" not in result.output
        if result.exit_code:
            assert before == after
    assert check.check(conn, full=True) == []


@pytest.mark.parametrize("url", ["nonsense", "host=/nowhere/at/all", "postgresql://[", "port=x"])
def test_a_database_that_is_not_there_ends_with_3(real_cli, monkeypatch, url):
    monkeypatch.setenv("DATABASE_URL", url)

    for words in (("counts",), ("check",), ("cancel", str(uuid4()), *SIGNED)):
        assert real_cli(*words).exit_code == 3


def test_the_password_of_the_database_is_not_told(real_cli, monkeypatch):
    monkeypatch.setenv("DATABASE_URL", f"postgresql://me:{CANARY}@localhost:1/none")

    assert real_cli("counts").exit_code == 3


def test_an_embedded_server_that_cannot_start_ends_with_3(cli, monkeypatch):
    def start(_):
        raise EmbeddedError("the disk is full")

    monkeypatch.delenv("DATABASE_URL")
    monkeypatch.setattr("queue_core.embedded.start", start)

    result = cli("counts")
    assert result.exit_code == 3
    assert "the disk is full" in result.stderr


def test_a_setting_that_cannot_be_used_is_a_mistake(cli, monkeypatch):
    monkeypatch.setenv("QUEUE_STALE_AFTER", "soon")

    assert cli("counts").exit_code == 2


def test_what_the_database_refuses_is_told_by_its_name_alone(real_cli, database):
    database.owner().execute("REVOKE SELECT ON countersign.tallies FROM countersign_runtime")

    result = real_cli("counts")

    assert result.exit_code == 3
    assert result.stderr == "Error: the database refused: InsufficientPrivilege\n"


@pytest.mark.parametrize(
    ("limit", "name"),
    [("statement_timeout", "QueryCanceled"), ("lock_timeout", "LockNotAvailable")],
)
def test_a_limit_of_the_database_is_no_outage(real_cli, database, monkeypatch, limit, name):
    url = conninfo.make_conninfo(database.url, options=f"-c {limit}=50ms")
    monkeypatch.setenv("DATABASE_URL", url)
    with database.owner(autocommit=False) as owner:
        owner.execute("LOCK TABLE countersign.tallies IN ACCESS EXCLUSIVE MODE")

        result = real_cli("counts")

    assert result.exit_code == 3
    assert result.stderr == f"Error: the database ended a statement: {name}\n"


# work ---------------------------------------------------------------------------------------------


def test_work_tells_the_worker_its_options_and_ends_with_its_code(real_cli, database, monkeypatch):
    given = []
    monkeypatch.setattr("queue_core.worker.run_worker", lambda options: given.append(options) or 4)
    monkeypatch.setenv("QUEUE_STALE_AFTER", "7")

    result = real_cli(
        *("work", "--jobs=app.jobs:jobs", "--queue=mail=2", "--queue=a=b=3", "--queue=reports"),
        *("--processes=5", "--grace=1.5", "--name=night"),
    )

    assert result.exit_code == 4
    (options,) = given
    assert options.url == database.url
    assert options.jobs == "app.jobs:jobs"
    assert options.queues == {"mail": 2, "a=b": 3, "reports": None}
    assert (options.processes, options.grace, options.name) == (5, 1.5, "night")
    assert (options.stale_after, options.log) == (7.0, "text")


@pytest.mark.parametrize(
    "words",
    [
        ("--queue=mail=two",),
        ("--queue=mail=0",),
        ("--queue==2",),
        ("--processes=0",),
        ("--grace=-1",),
        ("--name=",),
        ("--jobs=not a module",),
    ],
)
def test_a_worker_that_cannot_work_starts_nothing(real_cli, monkeypatch, words):
    monkeypatch.setattr("queue_core.worker.run_worker", lambda _: 0)
    monkeypatch.setattr("console.cli.work.worker_urls", pytest.fail)

    assert real_cli("work", "--jobs=app.jobs", *words).exit_code == 2


# The process --------------------------------------------------------------------------------------


def process(database, *words: str, stdout: int | IO[bytes] = PIPE) -> subprocess.Popen[bytes]:
    environ = {**os.environ, "DATABASE_URL": database.url}
    command = [FLASK, "queue", *words]
    return subprocess.Popen(command, cwd="/", env=environ, stdin=PIPE, stdout=stdout, stderr=PIPE)


def test_the_command_works_anywhere_without_an_app(database):
    running = process(database, "counts", "--json")
    printed, complaint = running.communicate(timeout=30)

    assert running.returncode == 0, complaint
    assert json.loads(printed)["ready"] == 0


def test_a_reader_that_goes_away_does_not_change_the_exit_code(database):
    reading, writing = os.pipe()
    os.close(reading)
    running = process(database, "migrate", "--sql", stdout=writing)
    os.close(writing)
    _, complaint = running.communicate(timeout=30)

    assert (running.returncode, complaint) == (0, b"")


def test_a_full_disk_is_told(database):
    with Path("/dev/full").open("wb") as full:
        running = process(database, "migrate", "--sql", stdout=full)
        _, complaint = running.communicate(timeout=30)

    assert running.returncode == 1
    assert complaint.startswith(b"Error: standard output cannot be written")


@pytest.mark.parametrize(
    ("closing", "code"), [("<&-", 2), (">&-", 1), ("2>&-", 1), ("<&- >&- 2>&-", 2)]
)
def test_closed_streams_end_in_no_traceback(database, declaring, closing, code):
    words = "enqueue cli.mail --jobs cli_test_jobs --args - --by ops:bob --reason x"
    running = subprocess.run(
        ["sh", "-c", f"{FLASK} queue {words} {closing}"],
        check=False,
        cwd=declaring,
        env={**os.environ, "DATABASE_URL": database.url},
        input=b"{}",
        capture_output=True,
        timeout=30,
    )

    assert running.returncode == code
    assert b"Traceback" not in running.stdout + running.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_command_that_is_told_to_end_leaves_in_order(hangup, number):
    program = (
        "import atexit, os, signal, time; from console.cli import failures; "
        "failures.leave_in_order_when_told(); atexit.register(print, 'left'); "
        f"os.kill(os.getpid(), {int(number)}); time.sleep(10)"
    )
    # Coverage takes SIGTERM for itself, and what is taken is left to whoever took it.
    environ = {name: text for name, text in os.environ.items() if not name.startswith("COV")}
    running = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, timeout=30, env=environ
    )

    assert (running.returncode, running.stdout) == (128 + number, b"left\n")


def test_an_embedded_database_is_brought_up_used_and_released():
    folder = Path(tempfile.mkdtemp(prefix="cs-cli-"))
    folder.chmod(0o755)  # as root the server drops its rights and must still get here
    environ = {**os.environ, "QUEUE_DATA": str(folder)}

    def run(*words: str) -> int:
        command = [FLASK, "queue", *words]
        return subprocess.run(
            command, check=False, cwd="/", env=environ, capture_output=True, timeout=60
        ).returncode

    try:
        assert run("counts") == 3
        assert run("migrate") == 0
        assert run("check") == 0
        assert no_server_in(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def no_server_in(folder: Path) -> bool:
    """Whether no process of a server holds its lock any more, within 10 s."""
    for _ in range(100):
        probe = subprocess.run(["flock", "-n", folder / "server.lock", "true"], check=False)
        if probe.returncode == 0:
            return True
        time.sleep(0.1)
    return False


def test_the_command_line_is_there_before_any_page():
    code = "import sys, console.cli; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    )
    assert {"console.cli.work"} <= {*loaded.stdout.split()}
    assert not {"console.app", "console.views", "flask_wtf"} & {*loaded.stdout.split()}
