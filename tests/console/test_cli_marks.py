"""`flask queue assign|note|reveal`: signed, moving nothing; arguments to standard output alone."""

import json
import logging
from uuid import uuid4

import click.testing
import pytest

import queue_core
from console.cli import marks, queue
from queue_core import fleet
from queue_core.outcomes import RunReport, Unreadable
from queue_core.transitions.claim import Claimable, claim
from queue_core.transitions.set_aside import set_aside
from tests.console import test_cli
from tests.console.test_cli import CANARY, MAIL, SIGNED, acts, enqueued, failed, state

cli, declaring = test_cli.cli, test_cli.declaring
real_cli = test_cli.real_cli
VERBS = {"assign": "assigned", "note": "noted", "reveal": "revealed"}
NOTE = ("--note", "The provider has it.")


def shown(*words: str) -> click.testing.Result:
    """Run a command that may print what is private."""
    result = click.testing.CliRunner().invoke(queue, words)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def in_review(conn) -> None:
    worker = fleet.register(conn, fleet.Identity("pay-3", 4121, "b", "n", "0.1.0", [], 4))
    for run in claim(conn, worker=worker, names=[Claimable("cli.mail")], count=100):
        set_aside(conn, worker, [RunReport(run.id, run.attempt, Unreadable("not JSON"))])


@pytest.mark.parametrize("ending", [failed, in_review])
@pytest.mark.parametrize("verb", ["assign", "note"])
def test_a_job_that_waits_is_taken_or_noted(cli, conn, verb, ending):
    job = enqueued(cli)
    ending(conn)
    before = state(conn, job)
    result = cli(verb, str(job), *SIGNED, *NOTE)
    assert result.exit_code == 0, result.output
    assert f"{VERBS[verb]} (act " in result.stdout
    assert acts(conn)[-1][:4] == ("ops:bob", VERBS[verb], "on-call", "The provider has it.")
    assert acts(conn)[-1][4].startswith("cli:")
    assert state(conn, job) == before


def test_arguments_go_to_standard_output_alone_and_leave_the_act(cli, conn, caplog):
    job = enqueued(cli)
    with caplog.at_level(logging.DEBUG):
        result = shown("reveal", str(job), *SIGNED)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout) == {"address": CANARY}
    assert CANARY not in result.stderr
    assert CANARY not in caplog.text
    (*_, act) = acts(conn)
    assert act[:3] == ("ops:bob", "revealed", "on-call")
    assert "revealed (act " in result.stderr
    assert state(conn, job) == "ready"


def test_what_looks_secret_stays_masked_and_nothing_reaches_the_terminal(cli, conn):
    given = {"address": "a\u202eb\x1b[31m\u0085é", "copies": 1}
    result = test_cli.run(*MAIL, given=json.dumps(given))
    job = result.stdout.strip()
    result = shown("reveal", job, *SIGNED)
    assert json.loads(result.stdout) == given
    assert all(c.isprintable() or c == "\n" for c in result.stdout)
    assert "é" in result.stdout


def test_a_secret_is_masked_here_too(real_cli, database):
    job = enqueued(real_cli)
    args = json.dumps({"db_password": "hunter2", "url": "https://bob:hunter2@example.org"})
    change = "UPDATE countersign.jobs SET args = %s::jsonb WHERE id = %s"
    database.owner().execute(change, [args, job])
    result = shown("reveal", str(job), *SIGNED)
    assert "hunter2" not in result.output
    assert json.loads(result.stdout)["db_password"] == "(masked)"


def test_arguments_that_cannot_be_read_are_not_shown_though_the_act_stands(real_cli, database):
    job = enqueued(real_cli)
    database.owner().execute(
        "UPDATE countersign.jobs SET args = '[\"hunter2\"]' WHERE id = %s", [job]
    )
    result = shown("reveal", str(job), *SIGNED)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert "cannot be read as JSON" in result.stderr
    assert acts(database.connect())[-1][1] == "revealed"


def test_arguments_are_not_read_before_the_act_is_committed(real_cli, database, monkeypatch):
    job, real, committed = enqueued(real_cli), queue_core.revealed_arguments, []

    def look(conn, job_id, act_id):
        query = "SELECT act FROM countersign.acts WHERE id = %s"
        committed.append(database.connect().execute(query, [act_id]).fetchone())
        return real(conn, job_id, act_id)

    monkeypatch.setattr(marks.queue_core, "revealed_arguments", look)
    assert shown("reveal", str(job), *SIGNED).exit_code == 0
    assert committed == [{"act": "revealed"}]


@pytest.mark.parametrize("verb", VERBS)
def test_a_job_that_is_not_as_it_was_seen_is_left_alone(cli, conn, verb):
    job = enqueued(cli)
    failed(conn)
    seen = ("--seen-state", "failed", "--seen-attempt", "2")
    result = cli(verb, str(job), *SIGNED, *NOTE, *seen)
    assert result.exit_code == 1
    assert f"not {VERBS[verb]}: moved on: it is failed, attempt 1" in result.stdout
    assert len(acts(conn)) == 1
    assert cli(verb, str(job), *SIGNED, *NOTE, *seen[:2]).exit_code == 2


@pytest.mark.parametrize("verb", ["assign", "note"])
def test_what_does_not_wait_for_a_person_is_refused(cli, conn, verb):
    job = enqueued(cli)
    result = cli(verb, str(job), *SIGNED, *NOTE)
    assert result.exit_code == 1
    assert "wrong state: it is ready" in result.stdout
    assert len(acts(conn)) == 1


@pytest.mark.parametrize("verb", VERBS)
def test_a_job_that_never_was_is_refused(cli, conn, verb):
    result = cli(verb, str(uuid4()), *SIGNED, *NOTE)
    assert result.exit_code == 1
    assert "there is no such job" in result.stdout
    assert acts(conn) == []


@pytest.mark.parametrize("note", [(), ("--note", ""), ("--note", " \n "), ("--note", "x" * 2_001)])
def test_a_note_has_to_say_something(cli, conn, note):
    job = enqueued(cli)
    failed(conn)
    result = cli("note", str(job), *SIGNED, *note)
    assert result.exit_code == 2
    assert "note" in result.stderr
    assert len(acts(conn)) == 1


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("by", ["ops:nobody", "ops:vera", "setup:root"])
def test_only_an_operator_who_may_act_signs(cli, conn, verb, by):
    job = enqueued(cli)
    failed(conn)
    result = cli(verb, str(job), "--by", by, "--reason", "x", *NOTE)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert len(acts(conn)) == 1


@pytest.mark.parametrize("verb", VERBS)
def test_the_help_says_what_it_does_and_what_signs_it(cli, verb):
    text = cli(verb, "--help").stdout
    assert "--by" in text
    assert "--reason" in text
    assert "--note" in text
    assert len(text.splitlines()[2].strip()) > 20
