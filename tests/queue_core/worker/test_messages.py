"""What is said is what is understood, and a child is not believed everything."""

import json
import uuid
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from queue_core.handlers import Declared
from queue_core.jobs import LONGEST_SECONDS
from queue_core.outcomes import Completed, Deferred, Failed, Stopped, Unreadable
from queue_core.rules import Schedule
from queue_core.transitions.claim import Claimable, Claimed
from queue_core.worker.frames import LARGEST_FROM_CHILD, FrameError, Frames
from queue_core.worker.messages import (
    Dropped,
    Hello,
    JobMessage,
    NoHello,
    Report,
    ask_frame,
    child_frame,
    job_frame,
    read_ask,
    read_child,
    read_job,
)

NIGHTLY = Schedule("nightly", 86_400.0, datetime(2026, 1, 1, 2, tzinfo=UTC), "mail.send", "q",
                   '{"a": "\ud800"}', -1, None, 2.5)  # fmt: skip
JOB = uuid.UUID("01a22922-e662-736c-bd03-da1fe2849e6c")
REPORTED = {"kind": "Report", "id": str(JOB), "began": None, "took": 0.0}


def through(message):
    (frame,) = Frames(LARGEST_FROM_CHILD).feed(child_frame(message))
    return read_child(frame)


@pytest.mark.parametrize(
    "message",
    [
        Hello((Claimable("a", 3, "review", 2.5), Claimable("b"))),
        Hello((Claimable("a", shares="loop"), Claimable("b", shares="threads"))),
        Hello((Claimable("a"),), (NIGHTLY, replace(NIGHTLY, first_at=None, attempts=2))),
        Hello((Claimable("a"),), handlers=(Declared("a", "q", 3, 2.5, "review", True, 4, "x"),)),
        NoHello("no module", "Traceback …"),
        Report(JOB, Completed()),
        Report(JOB, Completed('{"a": 1}'), 1_234.5, 0.25),
        Report(JOB, Completed(), 1_234.5, 0.25, "threads"),
        Dropped((JOB, uuid.UUID(int=7))),
        Dropped(()),
        Report(JOB, Failed("ValueError: x", error_type="ValueError", error_place="m:f")),
        Report(JOB, Failed("no", retryable=False, retry_after=4.0, traceback="T")),
        Report(JOB, Deferred(30.0), 1.0, 2.0),
        Report(JOB, Stopped("Stopped: 3 of 10")),
        Report(JOB, Unreadable("the arguments are not a JSON object")),
    ],
)
def test_what_a_child_says_is_understood(message):
    assert through(message) == message


def test_a_job_arrives_as_it_was_claimed():
    now = datetime.now(UTC)
    claimed = Claimed(JOB, 2, "mail.send", "default", '{"a": "\ud800"}', None, 3, "attempts", now)
    (frame,) = Frames(LARGEST_FROM_CHILD).feed(job_frame(claimed))
    assert read_job(frame) == JobMessage(JOB, "mail.send", 2, '{"a": "\ud800"}')


def test_a_child_cannot_say_that_it_crashed_or_was_stopped_at_its_limit():
    said = through(Report(JOB, Failed("x", outcome="crashed", signal=9)))
    assert said == Report(JOB, Failed("x"))
    assert through(Report(JOB, Stopped("x", killed=True))) == Report(JOB, Stopped("x"))


def test_texts_are_cut_to_what_can_be_stored():
    said = through(Report(JOB, Failed("é" * 2_000, traceback="x" * 100_000)))
    assert isinstance(said, Report)
    assert isinstance(said.ending, Failed)
    assert len(said.ending.error.encode()) == 1_024
    assert len((said.ending.traceback or "").encode()) <= 16_384


@pytest.mark.parametrize("seconds", [float("nan"), -3.0, float("inf")])
def test_a_wait_that_cannot_be_is_bounded(seconds):
    said = through(Report(JOB, Failed("x", retry_after=seconds)))
    assert isinstance(said, Report)
    assert isinstance(said.ending, Failed)
    assert 0 <= (said.ending.retry_after or 0.0) <= LONGEST_SECONDS


@pytest.mark.parametrize(
    "frame",
    [
        {},
        {"kind": "Hello"},
        {"kind": "Hello", "offers": [{"name": "a"}]},
        {"kind": "Hello", "offers": [3]},
        {"kind": "Hello", "offers": [{"name": "a", "attempts": 0, "on_lost": "attempts",
                                      "time_limit": None}]},
        {"kind": "Hello", "offers": [{"name": "a", "attempts": 1, "on_lost": "drop",
                                      "time_limit": None}]},
        {"kind": "NoHello", "why": 4},
        REPORTED | {"ending": "Completed", "result": None, "id": "x"},
        REPORTED | {"ending": "Completed", "result": 3},
        REPORTED | {"ending": "Completed", "result": "x" * 65_537},
        REPORTED | {"ending": "Failed", "error": "x", "retryable": True},
        REPORTED | {"ending": "Failed", "error": "x", "retryable": 1},
        REPORTED | {"ending": "Deferred", "seconds": float("nan")},
        REPORTED | {"ending": "Returned"},
        REPORTED | {"ending": "Completed", "result": None, "began": "now"},
        REPORTED | {"ending": "Completed", "result": None, "took": float("nan")},
        REPORTED | {"ending": "Completed", "result": None, "took": -1.0},
        REPORTED | {"ending": "Completed", "result": None, "stain": "ink"},
        REPORTED | {"ending": "Completed", "result": None, "stain": ["memory"]},
        {"kind": "Dropped", "ids": [3]},
        {"kind": "Dropped", "ids": "x"},
        {"kind": "STOP"},
    ],
    ids=lambda frame: json.dumps(frame)[:60],
)  # fmt: skip
def test_anything_else_is_no_message(frame):
    with pytest.raises(FrameError):
        read_child(frame)


def test_a_frame_that_is_no_job_is_refused():
    with pytest.raises(FrameError):
        read_job({"kind": "job", "id": str(JOB)})


@pytest.mark.parametrize("why", ["cancelled", "shutdown"])
def test_a_run_is_asked_to_stop_by_job_and_attempt(why):
    (frame,) = Frames(LARGEST_FROM_CHILD).feed(ask_frame(JOB, 3, why))
    assert read_ask(frame) == (JOB, 3, why)


@pytest.mark.parametrize("wrong", [{"why": "bored"}, {"attempt": "1"}, {"id": 3}])
def test_a_frame_that_asks_no_run_is_refused(wrong):
    with pytest.raises(FrameError):
        read_ask({"kind": "ask", "id": str(JOB), "attempt": 1, "why": "cancelled"} | wrong)
