"""`bin/environment`: what makes the environment, tried with a Python that only pretends to."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FAKE = """#!/bin/sh
# A Python whose venv holds itself, and whose pip writes down that it was asked.
here=$(dirname -- "$0")
case "$1 $2" in
"-m venv")
    mkdir -p "$3/bin"
    cp -- "$0" "$3/bin/python"
    : >"$3/bin/pip-is-there"
    [ -z "${KILLED_MAKING_IT:-}" ] || kill -KILL $PPID $$
    : >"$3/bin/pip-is-whole"
    ;;
"-m pip")
    [ -f "$here/pip-is-whole" ] || exit 1
    # In a shell of its own: dash can miss a Ctrl-C between two commands.
    (echo begun >>"$LOG" && [ -z "${GO_ON:-}" ] || exec cat "$GO_ON")
    echo installed >>"$LOG"
    ;;
"-c "*fcntl*) exec "$REAL" "$@" ;;
"-c import pip") [ -f "$here/pip-is-there" ] ;;
esac
"""


INSTALLED = ["begun", "installed"]


class Project:
    """A project of a test's own whose environment can be made."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.log = folder / "a project", folder / "log"
        (self.folder / "bin").mkdir(parents=True)
        for name in ("bin/environment", "pyproject.toml", "constraints.txt"):
            shutil.copy(ROOT / name, self.folder / name)
        self.python = folder / "a python"
        self.python.write_text(FAKE)
        self.python.chmod(0o755)
        self.log.touch()

    def begin(self, **settings: str) -> subprocess.Popen[str]:
        environ = {"PATH": "/usr/bin:/bin", "PYTHON": str(self.python), "LOG": str(self.log)}
        return subprocess.Popen(
            ["/bin/sh", "-euc", 'root=$PWD; . "$root/bin/environment"; make_environment local'],
            cwd=self.folder,
            env={**environ, "REAL": sys.executable, **settings},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,
        )

    def make(self, **settings: str) -> tuple[int, list[str]]:
        """Make the environment, and return how that ended and how pip was asked."""
        making = self.begin(**settings)
        making.communicate(timeout=60)
        return making.returncode, self.asked()

    def asked(self) -> list[str]:
        return self.log.read_text().split()


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path)


@pytest.fixture
def make(project):
    """Return what makes an environment in a project of its own; it answers how pip was asked."""
    return project.make


@pytest.fixture
def gate(tmp_path):
    """Give a pipe that a pip waits at until somebody writes to it."""
    os.mkfifo(tmp_path / "gate")
    return tmp_path / "gate"


def until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.02)


def test_an_environment_is_made_once(make):
    assert make() == (0, INSTALLED)
    assert make() == (0, INSTALLED)


def test_an_environment_whose_making_was_cut_off_is_made_anew(make):
    assert make(KILLED_MAKING_IT="yes") == (-9, [])
    assert make() == (0, INSTALLED)


def test_a_python_that_is_not_there_is_one_line(make):
    assert make(PYTHON="/no/such python") == (1, [])


def test_of_two_that_make_it_at_once_one_waits_for_the_other(project, gate):
    first = project.begin(GO_ON=str(gate))
    until(lambda: project.asked() == ["begun"])
    second = project.begin()
    assert second.stderr
    assert "waiting for it" in second.stderr.readline()
    gate.write_text("")
    assert (first.wait(60), second.wait(60)) == (0, 0)
    for each in (first, second):
        each.communicate()
    assert project.asked() == INSTALLED


def test_a_lock_goes_with_a_killed_holder(project, gate):
    held = project.begin(GO_ON=str(gate))
    until(lambda: project.asked() == ["begun"])
    os.killpg(held.pid, signal.SIGKILL)
    held.communicate()
    assert project.make() == (0, ["begun", *INSTALLED])


def test_ctrl_c_while_it_is_made_is_one_line(ctrl_c, project, gate):
    making = project.begin(GO_ON=str(gate))
    until(lambda: project.asked() == ["begun"])
    os.killpg(making.pid, signal.SIGINT)
    out, err = making.communicate(timeout=60)
    assert making.returncode == 130
    assert out == ""
    assert [line for line in err.splitlines() if line][-1].endswith("the next one begins it again.")
    assert len([line for line in err.splitlines() if line]) == 2  # that it installs, and this
    assert project.make() == (0, ["begun", *INSTALLED])


def test_ctrl_c_while_waiting_for_another_is_one_line(ctrl_c, project, gate):
    first = project.begin(GO_ON=str(gate))
    until(lambda: project.asked() == ["begun"])
    second = project.begin()
    assert second.stderr
    assert "waiting for it" in second.stderr.readline()
    os.killpg(second.pid, signal.SIGINT)
    _, err = second.communicate(timeout=60)
    assert second.returncode == 130
    assert "Traceback" not in err
    gate.write_text("")
    first.communicate(timeout=60)
    assert project.asked() == INSTALLED
