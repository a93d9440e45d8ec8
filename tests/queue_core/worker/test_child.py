"""A child by itself: what it says, and when it ends."""

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from queue_core.errors import DeclarationError
from queue_core.outcomes import Completed
from queue_core.transitions.claim import Claimed
from queue_core.worker.children import Child
from queue_core.worker.guarding import environment
from queue_core.worker.loading import UnusableError, load
from queue_core.worker.messages import (
    END,
    RECALL,
    Dropped,
    Hello,
    Message,
    NoHello,
    Report,
    ask_frame,
    job_frame,
    stop_frame,
)
from tests.queue_core.worker import sample
from tests.queue_core.worker.conftest import JOBS, is_alive, wait_for


@pytest.fixture
def start_child(tmp_path) -> Iterator[Callable[..., Child]]:
    started: list[Child] = []

    def start(jobs: str = JOBS) -> Child:
        started.append(Child(jobs, environment("host=nowhere")))
        return started[-1]

    yield start
    for child in started:
        child.kill()
        child.reap()


def heard(child: Child) -> Message:
    """Return what a child says next, without the times of a run."""
    said = wait_for(child.hear)[0]
    return replace(said, began=None, seconds=0.0) if isinstance(said, Report) else said


def give(child: Child, name: str, args: str = "{}") -> uuid.UUID:
    job = uuid.uuid4()
    now = datetime.now(UTC)
    child.say(job_frame(Claimed(job, 1, name, "default", args, None, 1, "attempts", now)))
    return job


def test_a_child_first_says_what_it_handles(start_child):
    hello = heard(start_child())
    assert isinstance(hello, Hello)
    offers = {offer.name: offer for offer in hello.offers}
    assert (offers["sample.raise"].attempts, offers["sample.review"].on_lost) == (3, "review")


def test_a_child_runs_one_job_after_the_other(start_child):
    child = start_child()
    heard(child)
    for value in ("1", '"two"'):
        job = give(child, "sample.echo", f'{{"value": {value}}}')
        assert heard(child) == Report(job, Completed(value))


def test_a_child_leaves_when_it_is_told_to(start_child):
    child = start_child()
    heard(child)
    child.say(END)
    wait_for(child.is_dead)
    assert child.reap() == 0


def test_a_child_ends_with_its_line_whatever_its_handler_does(start_child, tmp_path):
    child = start_child()
    heard(child)
    path = tmp_path / "begun"
    give(child, "sample.stubborn", f'{{"path": "{path}"}}')
    wait_for(path.exists)
    child.line.close()
    wait_for(child.is_dead, 2)


def test_a_child_that_is_told_to_stop_tidies_up_and_reports_nothing(start_child, tmp_path):
    child = start_child()
    heard(child)
    begun, tidied = tmp_path / "begun", tmp_path / "tidied"
    job = give(child, "sample.sleep", f'{{"seconds": 60, "path": "{begun}", "tidied": "{tidied}"}}')
    wait_for(begun.exists)
    child.say(stop_frame(job))
    wait_for(child.is_dead, 3)
    assert tidied.exists()
    assert child.hear() == []


def test_a_child_gives_back_what_it_has_not_begun_and_goes_on(start_child, tmp_path):
    child = start_child()
    heard(child)
    begun = tmp_path / "begun"
    going = give(child, "sample.sleep", f'{{"seconds": 0.5, "path": "{begun}"}}')
    waiting = [give(child, "sample.echo") for _ in range(3)]
    wait_for(begun.exists)
    child.say(RECALL)
    assert heard(child) == Dropped(tuple(waiting))
    after = give(child, "sample.echo", '{"value": 1}')
    said: list[Message] = []
    wait_for(lambda: said.extend(child.hear()) or len(said) == 2)
    assert [(each.id, each.ending) for each in said if isinstance(each, Report)] == [
        (going, Completed('"slept"')),
        (after, Completed("1")),
    ]


def test_a_child_stops_only_the_run_it_was_told_to_stop(start_child, tmp_path):
    child = start_child()
    heard(child)
    over = give(child, "sample.echo")
    heard(child)
    begun = tmp_path / "begun"
    going = give(child, "sample.sleep", f'{{"seconds": 0.5, "path": "{begun}"}}')
    wait_for(begun.exists)
    child.say(stop_frame(over))
    assert heard(child) == Report(going, Completed('"slept"'))


def test_a_run_that_was_told_to_stop_before_it_begins_never_begins(start_child, tmp_path):
    child = start_child()
    heard(child)
    begun, never = tmp_path / "begun", tmp_path / "never"
    going = give(child, "sample.sleep", f'{{"seconds": 0.5, "path": "{begun}"}}')
    waiting = give(child, "sample.sleep", f'{{"seconds": 0, "path": "{never}"}}')
    wait_for(begun.exists)
    child.say(stop_frame(waiting))
    assert heard(child) == Report(going, Completed('"slept"'))
    wait_for(child.is_dead)
    assert not never.exists()


def test_a_run_sees_that_it_is_asked_to_stop_and_for_which_reason(start_child):
    child = start_child()
    heard(child)
    for why in ("cancelled", "shutdown"):
        job = give(child, "sample.heed")
        child.say(ask_frame(job, 1, why))
        assert heard(child) == Report(job, Completed(f'["{why}"]'))


def test_what_is_asked_of_another_run_is_not_asked_of_this_one(start_child, tmp_path):
    """Of another job, of another attempt, or of the same one before it was given back."""
    child = start_child()
    heard(child)
    over = give(child, "sample.echo")
    heard(child)
    begun = tmp_path / "begun"
    going = give(child, "sample.heed", f'{{"path": "{begun}"}}')
    wait_for(begun.exists)
    for job, attempt in ((over, 1), (going, 2), (uuid.uuid4(), 1)):
        child.say(ask_frame(job, attempt, "cancelled"))
    child.say(ask_frame(going, 1, "shutdown"))
    assert heard(child) == Report(going, Completed('["shutdown"]'))


def test_a_job_that_was_cancelled_stays_so_when_its_worker_shuts_down(start_child, tmp_path):
    child = start_child()
    heard(child)
    begun = tmp_path / "begun"
    job = give(child, "sample.heed", f'{{"path": "{begun}", "only": "cancelled"}}')
    wait_for(begun.exists)
    for why in ("shutdown", "cancelled", "shutdown"):
        child.say(ask_frame(job, 1, why))
    said = heard(child)
    assert isinstance(said, Report)
    assert said.ending in (Completed('["cancelled"]'), Completed('["shutdown","cancelled"]'))


def test_signals_from_others_do_not_disturb_a_run(start_child, tmp_path):
    child = start_child()
    heard(child)
    begun = tmp_path / "begun"
    job = give(child, "sample.sleep", f'{{"seconds": 0.5, "path": "{begun}"}}')
    wait_for(begun.exists)
    for number in (signal.SIGTERM, signal.SIGINT):
        os.kill(child.pid, number)
    assert heard(child) == Report(job, Completed('"slept"'))


def test_a_child_that_cannot_use_its_jobs_says_why(start_child):
    said = heard(start_child("tests.queue_core.worker.broken"))
    assert isinstance(said, NoHello)
    assert "RuntimeError: its configuration is missing" in said.why
    assert "broken.py" in said.traceback


@pytest.mark.parametrize(
    ("jobs", "why"),
    [
        ("empty", "has no registry of jobs"),
        ("two", "has several registries: name one of"),
        ("two:third", "has no registry called 'third'"),
        ("two:Registry", "has no registry called 'Registry'"),
        ("unfinished", "has no handlers"),
        ("generating", "is a generator"),
    ],
)
def test_jobs_that_cannot_be_used_are_refused_in_words(jobs, why):
    with pytest.raises((UnusableError, DeclarationError), match=why):
        load(f"tests.queue_core.worker.{jobs}")


def test_the_only_registry_of_a_module_is_found_and_one_of_two_can_be_named():
    assert load(JOBS) is sample.jobs
    assert load("tests.queue_core.worker.two:second").handled() == ["two.second"]


def test_a_child_without_its_supervisor_ends_at_once():
    """It may have ended before the child could ask to die with it."""
    done = subprocess.run(
        [sys.executable, "-m", "queue_core.worker.child", "0", "1", JOBS],
        stdin=subprocess.DEVNULL, capture_output=True, timeout=20, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


LEAVES_A_CHILD = """
import sys, time
from queue_core.worker.children import Child
from queue_core.worker.guarding import environment
from tests.queue_core.worker.test_child import give
child = Child("tests.queue_core.worker.sample", environment("host=nowhere"))
while not child.hear():
    time.sleep(0.02)
give(child, "sample.gil", '{"seconds": 20, "path": "%s"}' % sys.argv[1])
time.sleep(60)
"""


def test_the_kernel_kills_a_child_with_its_supervisor_though_it_cannot_hear(tmp_path):
    """A handler holds the GIL, so that no thread can read the line; nor is there a guard."""
    path = tmp_path / "begun"
    parent = subprocess.Popen([sys.executable, "-c", LEAVES_A_CHILD, str(path)])
    child = int(wait_for(lambda: path.exists() and path.read_text()))
    parent.kill()
    parent.wait()
    wait_for(lambda: not is_alive(child), 1)


def test_a_child_pays_for_nothing_that_only_its_supervisor_needs() -> None:
    code = "import sys, queue_core.worker.child; print(*sys.modules)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    modules = told.stdout.split()
    assert "queue_core.worker.child" in modules
    assert {"queue_core.worker.supervisor", "queue_core.worker.start"} & {*modules} == set()
