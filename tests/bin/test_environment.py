"""`bin/environment`: what makes the environment, tried with a Python that only pretends to."""

import shutil
import subprocess
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
"-m pip") [ -f "$here/pip-is-whole" ] && echo installed >>"$LOG" ;;
"-c import pip") [ -f "$here/pip-is-there" ] ;;
esac
"""


@pytest.fixture
def make(tmp_path):
    """Return what makes an environment in a project of its own; it answers how pip was asked."""
    project, log = tmp_path / "a project", tmp_path / "log"
    (project / "bin").mkdir(parents=True)
    for name in ("bin/environment", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, project / name)
    python = tmp_path / "a python"
    python.write_text(FAKE)
    python.chmod(0o755)
    log.touch()

    def _make(**settings):
        done = subprocess.run(
            ["/bin/sh", "-euc", 'root=$PWD; . "$root/bin/environment"; make_environment local'],
            cwd=project,
            env={"PATH": "/usr/bin:/bin", "PYTHON": str(python), "LOG": str(log), **settings},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return done.returncode, log.read_text().split()

    return _make


def test_an_environment_is_made_once(make):
    assert make() == (0, ["installed"])
    assert make() == (0, ["installed"])


def test_an_environment_whose_making_was_cut_off_is_made_anew(make):
    assert make(KILLED_MAKING_IT="yes") == (-9, [])
    assert make() == (0, ["installed"])


def test_a_python_that_is_not_there_is_one_line(make):
    assert make(PYTHON="/no/such python") == (1, [])
