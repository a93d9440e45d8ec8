"""The small parts of the worker: options, neighbours, signals, logs, and whom a beat may judge."""

import json
import logging
import os
import select
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime
from uuid import uuid4

import psycopg
import pytest

from queue_core.errors import DatabaseAwayError, OptionError
from queue_core.fleet import Held
from queue_core.outcomes import Completed, Failed
from queue_core.transitions.claim import Claimable, Claimed
from queue_core.worker import WorkerOptions, books, heartbeat, logs, memory, processes
from queue_core.worker.bell import Bell
from queue_core.worker.books import Begun
from queue_core.worker.guarding import Watch, environment
from queue_core.worker.heartbeat import Beat, Heartbeat, Stops
from queue_core.worker.link import BUSY, Link, is_bad_value
from queue_core.worker.messages import Report
from queue_core.worker.offers import Offers
from queue_core.worker.processes import can_judge, is_gone, process_start
from queue_core.worker.signals import Signals
from queue_core.worker.starts import Starts
from queue_core.worker.verdicts import crashed
from tests.queue_core.worker.conftest import wait_for


@pytest.mark.parametrize(
    "options",
    [
        {"jobs": ""}, {"jobs": "a b"}, {"jobs": "a:"}, {"jobs": "a:b:c"}, {"jobs": "-m"},
        {"processes": 0}, {"processes": True}, {"grace": -1}, {"grace": float("nan")},
        {"stale_after": 0}, {"name": ""}, {"queues": {"": None}}, {"queues": {"a": 0}},
        {"memory_limit": 63}, {"memory_limit": True},
    ],
    ids=str,
)  # fmt: skip
def test_options_that_cannot_work_are_refused(options):
    with pytest.raises(OptionError):
        WorkerOptions(**{"url": "", "jobs": "app"} | options)


def test_a_worker_has_a_slot_for_every_processor_and_its_url_is_not_shown():
    options = WorkerOptions(url="password=secret", jobs="app.jobs:jobs")
    assert options.processes == os.cpu_count()
    assert "secret" not in repr(options)


def test_a_beat_is_a_twelfth_of_the_stale_time_and_never_under_20_ms():
    assert heartbeat.beat_seconds(60) == 5
    assert heartbeat.beat_seconds(0.06) == 0.02


def test_a_process_is_gone_when_it_is_dead_even_if_nobody_has_reaped_it():
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    start = process_start(process.pid)
    assert not is_gone(process.pid, start)
    process.kill()
    wait_for(lambda: is_gone(process.pid, start))
    assert process.stdin
    process.stdin.close()
    process.wait()
    assert is_gone(process.pid, start)
    assert not is_gone(1, process_start(1))
    assert is_gone(os.getpid(), None)  # an earlier bearer of our number


def test_a_process_is_gone_when_another_has_its_number_and_not_where_nobody_knows():
    """One tick apart is apart: the kernel gives a number again only after all others."""
    parent = os.getppid()
    start = process_start(parent)
    assert start
    ticks, clock = start.split(" ", 1)
    assert not is_gone(parent, start)
    assert is_gone(parent, f"{int(ticks) - 1} {clock}")
    assert not is_gone(parent, None)
    assert not is_gone(parent, f"{int(ticks) - 1} another clock")


def test_where_proc_shows_the_processes_of_others_nobody_is_judged(monkeypatch, tmp_path):
    options = WorkerOptions("host=nowhere", "module")
    assert can_judge(processes.identity(options, 1))
    (tmp_path / "self").symlink_to("1")
    monkeypatch.setattr(processes, "_PROCESSES", tmp_path)
    us = processes.identity(options, 1)
    assert (us.pid_namespace, us.process_start, can_judge(us)) == ("", None, False)
    assert not is_gone(os.getppid(), "1 clock")


@pytest.mark.parametrize("file", ["_BOOT_ID", "_PID_NAMESPACE"])
def test_who_does_not_know_its_own_boot_or_namespace_judges_nobody(monkeypatch, tmp_path, file):
    monkeypatch.setattr(processes, file, tmp_path / "none")
    assert not can_judge(processes.identity(WorkerOptions("host=nowhere", "module"), 1))


def test_children_get_no_secrets(monkeypatch):
    monkeypatch.setenv("QUEUE_SECRET_KEY", "secret")
    monkeypatch.setenv("QUEUE_OWNER_URL", "secret")
    seen = environment("host=here")
    assert seen["DATABASE_URL"] == "host=here"
    assert "secret" not in seen.values()


@pytest.mark.parametrize(
    ("numbers", "stops"),
    [
        ([signal.SIGTERM], 1),
        ([signal.SIGTERM, signal.SIGTERM], 2),
        ([signal.SIGINT, signal.SIGTERM], 1),
        ([signal.SIGINT, signal.SIGTERM, signal.SIGTERM], 2),
        ([signal.SIGHUP], 1),
        ([signal.SIGHUP, signal.SIGHUP], 1),
        ([signal.SIGHUP, signal.SIGTERM, signal.SIGTERM], 2),
        ([signal.SIGCHLD], 0),
    ],
)
def test_requests_to_stop_are_counted(hangup, numbers, stops):
    before = {number: signal.getsignal(number) for number in set(numbers)}
    signals = Signals()
    signals.catch()
    try:
        for number in numbers:
            signal.raise_signal(number)
        assert signals.bell.ears.recv(100)
        assert signals.stops == stops
    finally:
        signals.release()
        for number, handler in {signal.SIGTERM: 0, signal.SIGINT: signal.default_int_handler,
                                signal.SIGHUP: 0, signal.SIGCHLD: 0}.items():  # fmt: skip
            signal.signal(number, before.get(number, handler))


def test_under_nohup_a_terminal_that_goes_away_is_no_request():
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT,
                                                              signal.SIGCHLD)}  # fmt: skip
    hangup = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signals = Signals()
    signals.catch()
    try:
        signal.raise_signal(signal.SIGHUP)
        assert signals.stops == 0
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signals.release()
        for number, handler in {**before, signal.SIGHUP: hangup}.items():
            signal.signal(number, handler)


def line(form: str, event: str, **fields: object) -> str:
    record = logging.LogRecord("countersign.worker", logging.INFO, "", 0, event, None, None)
    record.fields = fields
    return logs.Formatter(form).format(record)  # pyright: ignore[reportArgumentType]


def test_a_line_stays_one_line_whatever_a_name_holds():
    said = line("text", "run ended", name='a b"\n=x', job="7", none="")
    assert said.endswith('run ended name="a b\\"\\n=x" job=7 none=""')
    assert "\n" not in said


def test_a_line_of_json_is_one_object():
    said = json.loads(line("json", "run ended", job=uuid4(), seconds=0.5, name="a\n"))
    assert (said["event"], said["name"], said["seconds"]) == ("run ended", "a\n", 0.5)
    assert said["at"].endswith("Z")


def test_an_error_of_the_driver_is_named_and_not_quoted():
    error = psycopg.errors.UniqueViolation("Key (address)=(canary) exists")
    assert logs.cause(error) == "UniqueViolation (SQLSTATE 23505)"
    assert logs.cause(ValueError("canary")) == "ValueError"
    assert logs.cause(DatabaseAwayError("cannot reach it")) == "DatabaseAwayError: cannot reach it"


@pytest.mark.parametrize(
    ("error", "bad"),
    [
        (psycopg.errors.InvalidTextRepresentation(), True),
        (psycopg.errors.CheckViolation(), True),
        (psycopg.errors.StatementTooComplex(), True),
        (psycopg.DataError("text cannot contain NUL"), True),
        (UnicodeEncodeError("utf-8", "\ud800", 0, 1, ""), True),
        (psycopg.errors.DiskFull(), False),
        (psycopg.errors.InsufficientPrivilege(), False),
        (psycopg.OperationalError("server closed the connection"), False),
        (ValueError(), False),
    ],
    ids=lambda case: type(case).__name__ if isinstance(case, Exception) else str(case),
)
def test_a_bad_value_is_told_from_a_bad_day(error, bad):
    assert is_bad_value(error) is bad


def test_case_71_a_link_waits_longer_after_each_failure_and_knocks_no_sooner(tmp_path):
    link = Link(f"host={tmp_path} dbname=nowhere", BUSY)
    pauses: list[float] = []
    for _ in range(3):
        with pytest.raises(DatabaseAwayError):
            link.open()
        pauses.append(link.wait_seconds())
        with pytest.raises(DatabaseAwayError, match="is away"):
            link.open()
        wait_for(lambda: link.wait_seconds() == 0)
    assert 0 < pauses[0] <= 0.1
    assert pauses[2] > 0.15


@pytest.mark.parametrize(("said", "began"), [(None, 20), (15, 15), (3, 10), (1e9, 40)])
def test_a_child_is_believed_when_a_run_began_within_reason(monkeypatch, said, began):
    monkeypatch.setattr(books, "boottime", lambda: 40.0)
    now = datetime.now(UTC)
    claimed = Claimed(uuid4(), 1, "a", "default", "{}", None, 1, "attempts", now)
    run = books.RunInHand(claimed, 7, given=10.0, began=20.0)
    report = Report(claimed.id, Completed(), said)
    assert books.finished(run, report.ending, report).began == began


SAFE = Claimable("a", safe_to_repeat=True)


def test_any_child_may_be_given_what_is_offered():
    offers = Offers()
    offers.compare([(SAFE, Claimable("b")), (Claimable("b", 3), SAFE, Claimable("new"))])
    assert offers.names == [Claimable("b", 3), SAFE]
    assert (offers.is_safe("a"), offers.is_safe("b")) == (True, False)


def test_a_name_is_safe_to_repeat_if_no_childs_code_says_otherwise():
    offers = Offers()
    offers.compare([(Claimable("a"),), (SAFE,)])
    assert offers.names == [Claimable("a")]
    assert not offers.is_safe("a")
    offers.compare([])
    assert offers.names == []


def test_a_thousand_crashes_in_a_row_are_mostly_waited_for():
    starts = Starts()
    waited = 0.0
    for _ in range(1_000):
        starts.crashed()
        waited += max(0.0, starts.next_at - time.monotonic())
    assert waited > 1_900  # seconds: nine tenths of the time, if starting one takes 0.2
    starts.worked()
    before = starts.next_at
    starts.crashed()
    assert starts.next_at == before


def test_a_child_that_was_killed_for_memory_is_told_from_one_that_had_its_fill():
    assert crashed(-9).error == "crashed: signal 9"
    perhaps = crashed(-9, killed_for_memory=True)
    assert (perhaps.error, perhaps.signal) == ("crashed: signal 9, perhaps for want of memory", 9)
    assert crashed(-11, killed_for_memory=True).error == "crashed: signal 11"
    assert crashed(memory.OUT_OF_MEMORY).error == "crashed: out of memory"


def test_what_the_kernel_killed_for_memory_is_counted_where_it_tells(monkeypatch, tmp_path):
    events = tmp_path / "memory.events"
    events.write_text("low 0\noom 7\noom_kill 3\n")
    monkeypatch.setattr(memory, "_COUNTS", (tmp_path / "none", events))
    assert memory.killed_for_memory() == 3
    events.write_text("low 0\n")
    assert memory.killed_for_memory() == 0


@pytest.mark.parametrize(
    ("ending", "error"),
    [
        (Failed("MemoryError", error_type="MemoryError"), "MemoryError: the limit is 64 MiB"),
        (Failed("ValueError: a", error_type="ValueError"), "ValueError: a"),
    ],
)
def test_an_error_of_memory_names_the_limit_if_there_is_one(ending, error):
    assert memory.explained(ending, 64) == replace(ending, error=error)
    assert memory.explained(ending, None) is ending


def test_a_name_whose_runs_share_is_not_claimed_ahead_and_asked_for_by_itself():
    offers = Offers()
    loop = Claimable("l", safe_to_repeat=True, shares="loop")
    offers.compare([(SAFE, loop)])
    assert (offers.of(None), offers.of("threads")) == ([SAFE], [])
    assert offers.of("loop") == [replace(loop, safe_to_repeat=False)]
    assert not offers.is_safe("l")


def test_a_name_is_offered_only_if_all_children_agree_what_its_runs_share():
    offers = Offers()
    loop = Claimable("l", shares="loop")
    offers.compare([(SAFE, loop), (SAFE, Claimable("l"))])
    assert offers.names == [SAFE]


def test_a_child_that_is_alone_takes_runs_whatever_they_could_share():
    offers = Offers(alone=True)
    offers.compare([(SAFE, Claimable("l", shares="loop"))])
    assert offers.of(None) == [SAFE, Claimable("l")]
    assert offers.shares("l") is None


class Clock:
    """A clock that stands still until it is moved, and a heart that beats by it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_000.0
        monkeypatch.setattr(heartbeat, "boottime", lambda: self.now)
        self.told: list[Beat | Stops] = []
        self.heart = Heartbeat(
            Link("", BUSY), uuid4(), self.told.append,
            stale_after=12.0, registered=self.now, watch=Watch({}), begun=Begun(),
        )  # fmt: skip

    def beat(self, after: float, answer: list[Held] | Exception | None = None, took: float = 0.0):
        self.now += after
        sent = self.now
        self.now += took
        if isinstance(answer, Exception):
            self.heart._miss(answer)
        else:
            self.heart._acknowledge(sent, [] if answer is None else answer)


@pytest.fixture
def clock(monkeypatch) -> Clock:
    return Clock(monkeypatch)


def test_a_heart_judges_others_after_a_whole_stale_time_of_answers(clock):
    for _ in range(11):
        clock.beat(1.0)
        assert not clock.heart.may_judge()
    clock.beat(1.0)
    assert clock.heart.may_judge()


@pytest.mark.parametrize("gap", ["miss", "silence"])
def test_a_gap_in_the_answers_makes_a_heart_listen_anew(clock, gap):
    for _ in range(13):
        clock.beat(1.0)
    if gap == "miss":
        clock.beat(1.0, OSError())
        assert not clock.heart.may_judge()
        clock.beat(1.0)
    else:
        clock.beat(4.0)
    assert not clock.heart.may_judge()
    for _ in range(12):
        clock.beat(1.0)
    assert clock.heart.may_judge()


def test_a_heart_without_answers_now_judges_nobody(clock):
    for _ in range(13):
        clock.beat(1.0)
    clock.now += 4.0
    assert not clock.heart.may_judge()


def test_the_deadline_counts_from_the_sending_of_the_last_answered_beat(clock):
    clock.beat(1.0, took=2.0)
    assert clock.heart.deadline == pytest.approx(1_001.0 + 8.0)


def test_an_answer_after_the_deadline_puts_nothing_off(clock):
    before = clock.heart.deadline
    clock.beat(1.0, took=8.0)
    assert clock.heart.deadline == before
    assert len(clock.told) == 1


def test_a_bell_that_rings_while_another_line_is_read_has_rung_all_the_same(monkeypatch):
    bell, (line, other) = Bell(), socket.socketpair()
    with line, other:
        other.send(b"\0")
        poll = select.poll

        class RungMeanwhile:
            def __init__(self) -> None:
                self._poll = poll()
                self.register = self._poll.register

            def poll(self, wait: float | None) -> list[tuple[int, int]]:
                found = self._poll.poll(wait)
                bell.ring()
                return found

        monkeypatch.setattr("queue_core.worker.bell.select.poll", RungMeanwhile)
        assert bell.wait(0, line.fileno())
        assert select.select([bell.ears], [], [], 0)[0]
        bell.close()
