"""Cases from the field: data that breaks things, wherever else it may come in."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import click.testing
import pytest

from console.cli import queue
from queue_core import (
    CountersignError,
    NewJob,
    Registry,
    Run,
    cancel,
    enqueue,
    operators,
    pause_queue,
    resume_queue,
)
from queue_core.errors import DeclarationError, SettingsError
from queue_core.outcomes import Completed, Failed, RunReport, Unreadable
from queue_core.queries.facts import job as facts
from queue_core.queries.runs import runs_of
from queue_core.settings import from_environment
from queue_core.transitions.claim import Claimable, claim
from queue_core.transitions.complete import complete
from queue_core.transitions.fail import fail
from queue_core.worker.execute import execute
from queue_core.worker.messages import JobMessage
from queue_core.worker.options import WorkerOptions
from tests.conftest import CANARY
from tests.moves import state

SIGNED: dict[str, Any] = {"by": "ops:alice", "reason": "seen_in_test"}
REPLACED = "\ufffd"
"""Stands where something could not be stored."""
HALF = REPLACED * 3
"""Half a surrogate pair would be three bytes."""


@pytest.fixture
def run_of(conn, registry, make_worker) -> Callable[..., Any]:
    """Give a function that runs a new job in a handler, and stores how that ended."""

    def run(handler: Callable[[Run], object]) -> UUID:
        registry.job("mail.send")(handler)
        job, worker = enqueue(conn, "mail.send").id, make_worker(conn)
        (claimed,) = claim(conn, worker=worker, names=[Claimable("mail.send")], count=1)
        ending = execute(JobMessage(job, claimed.name, 1, claimed.args or ""), registry)
        store = complete if isinstance(ending, Completed) else fail
        assert len(store(conn, worker, [RunReport(job, 1, ending)])) == 1
        return job

    return run


# What a run says


@pytest.mark.parametrize(
    ("result", "kept"),
    [
        ("a\0b", f"a{REPLACED}b"),
        ({"k\0": ["\0", {"deep": "\0"}]}, {f"k{REPLACED}": [REPLACED, {"deep": REPLACED}]}),
        ("\ud800", HALF),
        (["\udfff x", "\ud83d\ude00"], [f"{HALF} x", "😀"]),
        ("\\u0000 and \\ud800 as words", "\\u0000 and \\ud800 as words"),
    ],
    ids=["NUL", "NUL below", "half a pair", "a pair", "words"],
)
def test_case_27_nul_in_a_result_is_replaced_and_the_job_completes(
    conn, run_of, result: object, kept: object
) -> None:
    job = run_of(lambda run: result)  # noqa: ARG005 - a handler is given its run
    (row,) = conn.execute(
        "SELECT ended.state, ended.result FROM countersign.ended WHERE ended.id = %s", [job]
    ).fetchall()
    assert row == {"state": "completed", "result": kept}


class OddError(Exception):
    """An exception whose parts are told apart by name."""


def raising(error: BaseException, cause: BaseException | None = None) -> Callable[[Run], object]:
    def handler(run: Run) -> object:
        del run
        raise error from cause

    return handler


def noted(note: str) -> Exception:
    error = OddError("plain")
    error.add_note(note)
    return error


def answering(text: object) -> Exception:
    """Return an exception whose text is whatever is given, also what is no text."""
    return type("SpokenError", (Exception,), {"__str__": lambda _: text})()


UNSAVEABLE: dict[str, tuple[BaseException, BaseException | None]] = {
    "NUL in its cause": (OddError("plain"), ValueError("a\0b")),
    "half a pair in a note": (noted("\ud800"), None),
    "a right-to-left mark in its type's name": (type("A\u202eB", (Exception,), {})("x"), None),
    "NUL in a group": (ExceptionGroup("g\0", [ValueError("\0"), ValueError("\udfff")]), None),
    "bytes": (OddError(b"\x00\xff"), None),
    "a text that is none": (answering(7), None),
    "5 MB": (OddError("\0é" * 1_700_000), None),
    "the interpreter's end": (SystemExit("\0"), None),
}


@pytest.mark.parametrize("odd", UNSAVEABLE.values(), ids=UNSAVEABLE)
def test_case_28_an_error_fails_its_job_whatever_part_of_it_is_odd(
    conn, run_of, odd: tuple[BaseException, BaseException | None]
) -> None:
    job = run_of(raising(*odd))
    found, (run,) = facts(conn, job), runs_of(conn, job)
    assert found
    assert found.state == "failed"
    assert found.error
    assert run.traceback
    assert "raise error from cause" in run.traceback
    assert "\0" not in found.error + run.traceback


@pytest.mark.parametrize(
    "result",
    [math.nan, [math.inf], {"deep": {"er": -math.inf}}, {math.nan: 1}, {"x": 1e400}],
    ids=["NaN", "infinity in a list", "below", "as a key", "1e400"],
)
def test_case_29_a_result_that_json_has_no_word_for_fails_its_job_and_says_so(
    conn, run_of, result: object
) -> None:
    job = run_of(lambda run: result)  # noqa: ARG005 - a handler is given its run
    found = facts(conn, job)
    assert found
    assert (found.state, found.error) == ("failed", "result is not JSON")


# Bodies that only a producer with SQL of its own can make


BY_SQL = """
INSERT INTO countersign.jobs (id, name, queue, args, priority)
VALUES (countersign.new_id(), 'mail.send', 'default', %s::jsonb, 0)
RETURNING jobs.id, jobs.args::text AS args
"""
DEEP = '{"address": ' + "[" * 3_000 + "]" * 3_000 + "}"


@pytest.mark.parametrize("body", [DEEP, '{"address": 1e5000}', '{"address": -1e-5000}', "[]"])
def test_case_30_a_body_made_by_sql_is_read_or_set_aside_and_never_breaks_the_child(
    conn, registry, body: str
) -> None:
    (row,) = conn.execute(BY_SQL, [body]).fetchall()
    ending = execute(JobMessage(row["id"], "mail.send", 1, row["args"]), registry)
    assert isinstance(ending, Unreadable | Failed)
    assert "5000" not in ending.error
    assert "[[" not in ending.error


def test_case_30_a_float_made_by_sql_comes_as_the_whole_number_that_jsonb_keeps(
    conn, registry
) -> None:
    @registry.job("mail.send")
    def send(run: Run, address: int) -> int:
        return address

    (row,) = conn.execute(BY_SQL, ['{"address": 1e308}']).fetchall()
    ending = execute(JobMessage(row["id"], "mail.send", 1, row["args"]), registry)
    assert ending == Completed("1" + "0" * 308)


# Names, codes and texts


NUL_IN: dict[str, Callable[[Any, Registry], object]] = {
    "a job's name": lambda _, jobs: jobs.job("a\0b")(lambda run: run),
    "a job's queue": lambda _, jobs: jobs.job("a", queue="a\0b")(lambda run: run),
    "a schedule's name": lambda _, jobs: jobs.every("a\0b", hours=1, job=NewJob("mail.send")),
    "a queue to pause": lambda conn, _: pause_queue(conn, "a\0b", **SIGNED),
    "a queue to resume": lambda conn, _: resume_queue(conn, "a\0b", **SIGNED),
    "by": lambda conn, _: cancel(conn, [], **{**SIGNED, "by": "a\0b"}),
    "a reason": lambda conn, _: cancel(conn, [], **{**SIGNED, "reason": "a\0b"}),
    "a note": lambda conn, _: cancel(conn, [], **SIGNED, note="a\0b"),
    "via": lambda conn, _: cancel(conn, [], **SIGNED, via="a\0b"),
    "an operator's code": lambda conn, _: operators.add(
        conn, "a\0b", "viewer", "long enough, is it not", **SIGNED, via="code"
    ),
    "a worker's name": lambda *_: WorkerOptions(url="", jobs="app", name="a\0b"),
    "a worker's queue": lambda *_: WorkerOptions(url="", jobs="app", queues={"a\0b": None}),
    "a worker's jobs": lambda *_: WorkerOptions(url="", jobs="a\0b"),
}


@pytest.mark.parametrize("told", NUL_IN.values(), ids=NUL_IN)
def test_case_27_nul_in_whatever_has_a_name_is_refused_before_the_database(
    conn, registry, contents, told: Callable[[Any, Registry], object]
) -> None:
    before = contents(conn)
    with pytest.raises(CountersignError):
        told(conn, registry)
    assert contents(conn) == before


# Durations


NONE_AT_ALL = [math.nan, math.inf, -math.inf, -1.0, 1e300]


@pytest.mark.parametrize("length", NONE_AT_ALL)
@pytest.mark.parametrize("unit", ["seconds", "minutes", "hours", "days"])
def test_case_40_an_interval_that_is_none_is_refused(registry, unit: str, length: float) -> None:
    given: dict[str, Any] = {unit: length}
    with pytest.raises(DeclarationError):
        registry.every("nightly", **given, job=NewJob("mail.send"))


@pytest.mark.parametrize("length", ["nan", "inf", "-inf", "-1", "1e300", "NaN(7)"])
def test_case_40_a_time_that_is_none_is_refused_on_the_command_line_and_in_settings(
    monkeypatch, tmp_path: Path, length: str
) -> None:
    monkeypatch.setenv("DATABASE_URL", "dbname=never-asked")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "odd_jobs.py").write_text(
        "from queue_core import Registry\n\njobs = Registry()\n\n\n"
        '@jobs.job("odd.job")\ndef odd(run: object) -> None: ...\n'
    )
    signed = ("--by", "ops:alice", "--reason", "asked")
    for words in (
        ("work", "--jobs", "odd_jobs", "--grace", length),
        ("enqueue", "odd.job", "--jobs", "odd_jobs", "--delay", length, *signed),
        ("enqueue", "odd.job", "--jobs", "odd_jobs", "--time-limit", length, *signed),
    ):
        result = click.testing.CliRunner().invoke(queue, words)
        assert result.exit_code == 2, result.output
        assert CANARY not in result.output
    monkeypatch.setenv("QUEUE_STALE_AFTER", length)
    with pytest.raises(SettingsError, match="QUEUE_STALE_AFTER"):
        from_environment()


def test_case_40_a_moment_that_no_calendar_has_is_refused(conn, registry) -> None:
    job = enqueue(conn, "mail.send", delay=0.0).id
    assert state(conn, job) == "ready"
    for text in ("2026-02-30T00:00:00Z", "10000-01-01T00:00:00Z", "NaN", "infinity"):
        words = ("enqueue", "odd.job", "--run-at", text, "--by", "ops:alice", "--reason", "asked")
        assert click.testing.CliRunner().invoke(queue, words).exit_code == 2
