"""README.md is kept true: its code runs, its commands exist, its settings are all there are."""

import re
import shlex
from pathlib import Path

import click
import pytest

from console.cli import queue
from queue_core import enqueue, settings
from queue_core.queries.places import locate

README = (Path(__file__).resolve().parents[1] / "README.md").read_text()
CODE = re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
COMMANDS = sorted(set(re.findall(r"flask queue ([^`\n#]+)", README)))
SETTING = re.compile(r"\b(?:QUEUE_[A-Z_]+|DATABASE_URL)\b")


def command_of(words):
    """Follow words down the commands; return the command and the words left for it."""
    command, left = queue, list(words)
    while isinstance(command, click.Group):
        command = command.commands[left.pop(0)]
    return command, left


def test_it_opens_with_the_two_commands():
    commands = [line.split()[0] for line in README.splitlines() if line.startswith("    ")]
    assert commands[:2] == ["bin/start", "bin/test"]


def test_its_job_can_be_declared_and_enqueued_as_it_says(conn):
    declared = {}
    exec(CODE[0], declared)
    asked = enqueue(conn, declared["welcome"], {"address": "ada@example.org"})
    assert locate(conn, [asked.id])[asked.id].state == "ready"


@pytest.mark.parametrize("number", range(len(CODE)))
def test_its_code_is_python(number):
    compile(CODE[number], "README.md", "exec")


@pytest.mark.parametrize("line", COMMANDS)
def test_its_commands_exist_with_these_options(line):
    command, left = command_of(shlex.split(line))
    known = {name for option in command.params for name in option.opts}
    assert {word for word in left if word.startswith("--")} <= known
    required = [option for option in command.params if option.required]
    given = [option for option in required if set(option.opts) & set(left)]
    assert len(given) == len([option for option in required if isinstance(option, click.Option)])


def test_its_settings_are_those_that_are_read():
    read = set(SETTING.findall(Path(settings.__file__).read_text()))
    table = README.partition("## Settings")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `([A-Z_]+)`", table, re.MULTILINE)) == read
