"""`flask queue schedules`: what there is, and the three acts, signed like any other."""

import json
import re
from uuid import UUID

import pytest

from queue_core import NewJob, list_schedules, tick_schedules
from queue_core.queries.places import locate
from queue_core.rules import Schedule
from tests.conftest import CANARY
from tests.console import test_cli
from tests.console.test_cli import SIGNED
from tests.timetable import finish, pass_time

cli, declaring = test_cli.cli, test_cli.declaring
ACTS = ("pause", "resume", "run-now")


@pytest.fixture
def hourly(conn, registry) -> tuple[Schedule, ...]:
    """Give a schedule that has been ticked once."""
    registry.every("nightly", hours=1, job=NewJob("mail.send", {"address": CANARY}, queue="q"))
    tick_schedules(conn, registry.schedules)
    return registry.schedules


def acts(conn) -> list[tuple[str, ...]]:
    found = conn.execute(
        "SELECT act, subject_name, by, reason, note, via FROM countersign.acts"
        " WHERE subject_kind = 'schedule' ORDER BY id"
    )
    return [tuple(act.values()) for act in found.fetchall()]


def test_without_schedules_it_says_so(cli) -> None:
    assert cli("schedules", "list").stdout == "no schedules\n"
    assert json.loads(cli("schedules", "list", "--json").stdout) == {
        "schedules": [], "versions": []
    }  # fmt: skip


def test_schedules_are_listed_with_their_last_job_and_its_error(
    cli, conn, hourly, make_worker
) -> None:
    job = finish(conn, make_worker(conn), "failed")
    head, line = cli("schedules", "list").stdout.splitlines()
    assert re.split("  +", head) == [
        "name", "state", "every (s)", "job", "due at", "last job", "its state", "its error"
    ]  # fmt: skip
    cells = re.split("  +", line)
    assert cells[:4] == ["nightly", "active", "3600", "mail.send"]
    assert cells[5:] == [str(job), "failed", "ValueError: no such address"]


def test_a_passed_time_and_code_that_disagrees_are_told(cli, conn, hourly) -> None:
    pass_time(conn, hours=1)
    tick_schedules(conn, hourly)
    tick_schedules(conn, [Schedule("nightly", 60.5, None, "mail.send", "other", "{}")])
    told = cli("schedules", "list").stdout.splitlines()[2:]
    assert re.fullmatch(
        r"nightly: a due time had no job of its own at \S+Z: its last job was still queued", told[0]
    )
    assert told[1:] == ["nightly: other live code has it as every 3600 s, job mail.send in queue q"]


def test_schedules_are_one_json_object(cli, conn, hourly) -> None:
    cli("schedules", "pause", "nightly", *SIGNED)
    found = json.loads(cli("schedules", "list", "--json").stdout)
    (row,) = found["schedules"]
    assert row.keys() == {
        "name", "state", "every", "job", "queue", "due_at", "last_job", "last_state", "last_error",
        "last_skip", "last_skip_at", "seen_at", "paused_at", "archived_at", "created_at",
    }  # fmt: skip
    assert (row["state"], row["every"], row["last_state"]) == ("paused", 3_600.0, "ready")
    (version,) = found["versions"]
    assert (version["schedule"], version["in_force"]) == ("nightly", True)


def test_an_archived_schedule_is_shown_as_such(cli, conn, hourly) -> None:
    conn.execute("UPDATE countersign.schedules SET archived_at = now(), paused_at = now()")
    assert re.split("  +", cli("schedules", "list").stdout.splitlines()[1])[1] == "archived"


def test_a_schedule_is_paused_and_resumed_with_acts(cli, conn, hourly) -> None:
    paused = cli("schedules", "pause", "nightly", *SIGNED, "--note", "moving house")
    assert re.fullmatch(r"paused nightly \(act \d+\)\n", paused.stdout)
    assert list_schedules(conn)[0].paused_at
    resumed = cli("schedules", "resume", "nightly", *SIGNED)
    assert re.fullmatch(r"resumed nightly \(act \d+\)\n", resumed.stdout)
    assert list_schedules(conn)[0].paused_at is None
    (one, two) = acts(conn)
    assert one[:5] == ("paused", "nightly", "ops:bob", "on-call", "moving house")
    assert two[:5] == ("resumed", "nightly", "ops:bob", "on-call", None)
    assert one[5].startswith("cli:")


def test_running_a_schedule_now_prints_its_jobs_id(cli, conn, hourly, make_worker) -> None:
    finish(conn, make_worker(conn))
    job = UUID(cli("schedules", "run-now", "nightly", *SIGNED).stdout.strip())
    assert locate(conn, [job])[job].state == "ready"
    assert acts(conn)[0][:3] == ("run_now", "nightly", "ops:bob")


@pytest.mark.parametrize(
    ("act", "sentence"),
    [
        ("pause", "schedule 'nightly': not paused: it is paused already"),
        ("run-now", "schedule 'nightly': not run_now: its last job has not run yet"),
    ],
)
def test_what_does_not_apply_is_refused_with_its_reason(cli, conn, hourly, act, sentence) -> None:
    cli("schedules", "pause", "nightly", *SIGNED)
    refused = cli("schedules", act, "nightly", *SIGNED)
    assert refused.exit_code == 1
    assert refused.stderr == f"Error: {sentence}\n"


@pytest.mark.parametrize("act", ACTS)
def test_only_operators_act_on_schedules(cli, conn, hourly, act) -> None:
    for by in ("ops:vera", "ops:nobody"):
        refused = cli("schedules", act, "nightly", "--by", by, "--reason", "x")
        assert refused.exit_code == 1
        assert "ops:" not in refused.stderr
    assert acts(conn) == []


@pytest.mark.parametrize("act", ACTS)
def test_a_schedule_that_is_not_there_is_refused(cli, act) -> None:
    refused = cli("schedules", act, "weekly", *SIGNED)
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "there is no such schedule" in refused.stderr


@pytest.mark.parametrize("act", ACTS)
def test_who_and_why_are_needed(cli, act) -> None:
    assert cli("schedules", act, "nightly", "--by", "ops:bob").exit_code == 2
    assert cli("schedules", act, "nightly", "--by", "ops:bob", "--reason", "\n").exit_code == 2
