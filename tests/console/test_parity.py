"""The command line can do what Python can: each option of a public verb is one there, too."""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import fields

import click
import pytest

import queue_core
from console.cli import queue
from queue_core import NewJob, operators
from queue_core.worker import WorkerOptions

BY_ITSELF = {"conn", "via"}
"""What the command line knows without being told."""
SETTINGS = {"url", "owner_url", "stale_after", "keep", "notify", "log"}
"""What the environment says, for every command."""
SPELLED = {
    "seen": {"seen_state", "seen_attempt"},
    "job": {"name", "args", "jobs"},
}
COMMANDS = {
    "enqueue_signed": ("enqueue",),
    "pause_queue": ("queues", "pause"),
    "resume_queue": ("queues", "resume"),
    "clear_queue": ("queues", "clear"),
    "pause_schedule": ("schedules", "pause"),
    "resume_schedule": ("schedules", "resume"),
    "run_schedule_now": ("schedules", "run-now"),
    "reset_password": ("operators", "reset"),
    "change_role": ("operators", "role"),
}
"""Those whose command is not called as they are."""


def signed(module: object) -> Iterator[tuple[str, Callable[..., object]]]:
    """Yield the public functions that do something for a person."""
    for name in getattr(module, "__all__", dir(module)):
        verb = getattr(module, name)
        if name.startswith("_") or not inspect.isfunction(verb):
            continue
        if "by" in inspect.signature(verb).parameters:
            yield name, verb


VERBS = {
    **{COMMANDS.get(name, (name,)): verb for name, verb in signed(queue_core)},
    **{COMMANDS.get(name, ("operators", name)): verb for name, verb in signed(operators)},
}


def options(*path: str) -> set[str]:
    """Return what a command takes, by the names that its function knows."""
    command: click.Command = queue
    for name in path:
        assert isinstance(command, click.Group)
        command = command.commands[name]
    return {parameter.name or "" for parameter in command.params}


@pytest.mark.parametrize(("path", "verb"), VERBS.items(), ids=map(" ".join, VERBS))
def test_case_10_every_option_of_a_verb_is_one_of_its_command(path, verb) -> None:
    asked = set(inspect.signature(verb).parameters) - BY_ITSELF
    spelled = {each for name in asked for each in SPELLED.get(name, {name})}
    assert spelled <= options(*path)


def test_case_10_every_option_of_a_job_is_one_of_enqueue() -> None:
    assert {field.name for field in fields(NewJob)} <= options("enqueue")


def test_case_10_every_option_of_a_worker_is_one_of_work_or_a_setting() -> None:
    assert {field.name for field in fields(WorkerOptions)} - SETTINGS <= options("work")


def test_case_10_every_act_has_been_looked_for() -> None:
    verbs = {("cancel",), ("retry",), ("release",), ("confirm",), ("close",)}
    verbs |= {("assign",), ("note",), ("reveal",), ("operators", "add")}
    assert verbs <= set(VERBS)
