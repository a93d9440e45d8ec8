"""The Procfile's lines as processes: read, begun, ended, and never left behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from console import procfile

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 10
STUBBORN = """python3 -c 'import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open("deaf", "w").close()
time.sleep(600)'"""
BEGIN_AND_WAIT = """
import os, pathlib, sys, time
from console import procfile
parts = procfile.begin({"a": "sleep 600"}, folder=pathlib.Path("."), environ=os.environ)
print(parts[0].process.pid, flush=True)
time.sleep(600)
"""


def until(condition):
    """Wait until `condition()` holds, at most ten seconds."""
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.02)


def alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


@pytest.fixture
def begin(tmp_path):
    """Begin commands in an empty folder, and leave none of them behind."""
    begun = []

    def _begin(**commands):
        begun.extend(procfile.begin(commands, folder=tmp_path, environ=os.environ))
        return begun

    yield _begin
    procfile.end(begun, seconds=0)


def test_a_procfile_is_names_and_commands_in_order():
    text = "web: serve --port 1\n\nworker: work 'a: b'\n"
    assert list(procfile.read(text).items()) == [
        ("web", "serve --port 1"),
        ("worker", "work 'a: b'"),
    ]


def test_the_projects_procfile_has_a_web_and_a_worker():
    assert list(procfile.read((ROOT / "Procfile").read_text())) == ["web", "worker"]


def test_a_command_is_read_as_a_shell_reads_it_and_runs_in_the_folder(begin, tmp_path):
    parts = begin(a="env printf '%s' \"$HOME\" > it")
    assert procfile.wait_for_an_end(parts).name == "a"
    assert (tmp_path / "it").read_text() == os.environ["HOME"]


def test_the_first_to_end_is_named_with_its_exit_code(begin):
    parts = begin(a="sleep 600", b="false")
    ended = procfile.wait_for_an_end(parts)
    assert (ended.name, ended.ending) == ("b", "ended by itself with exit code 1")


def test_a_part_that_was_killed_says_by_which_signal(begin):
    [part] = begin(a="sleep 600")
    part.process.send_signal(signal.SIGKILL)
    assert procfile.wait_for_an_end([part]).ending == "was ended by signal 9"


def test_ending_asks_and_kills_nobody_who_ends(begin):
    parts = begin(a="sleep 600", b="sleep 600")
    assert procfile.end(parts, seconds=SECONDS) == []
    assert [part.process.returncode for part in parts] == [-signal.SIGTERM] * 2


def test_a_part_that_will_not_end_is_killed_and_named(begin, tmp_path):
    parts = begin(a=STUBBORN, b="sleep 600")
    until((tmp_path / "deaf").exists)
    assert [part.name for part in procfile.end(parts, seconds=0.5)] == ["a"]
    assert all(part.ended for part in parts)


def test_what_a_part_started_is_killed_with_it(begin, tmp_path):
    parts = begin(a="sh -c 'trap \"\" TERM; sleep 600 & echo $! > child; wait; wait'")
    until(lambda: (tmp_path / "child").exists() and (tmp_path / "child").read_text().strip())
    procfile.end(parts, seconds=0.5)
    until(lambda: not alive(int((tmp_path / "child").read_text())))


def test_ctrl_c_at_the_terminal_does_not_reach_a_part(begin):
    [part] = begin(a="sleep 600")
    assert os.getpgid(part.process.pid) == part.process.pid != os.getpgrp()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a death signal")
def test_parts_end_when_whoever_began_them_is_killed(tmp_path):
    beginner = subprocess.Popen(
        [sys.executable, "-c", BEGIN_AND_WAIT],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    with beginner:
        assert beginner.stdout
        pid = int(beginner.stdout.readline())
        assert alive(pid)
        beginner.kill()
    until(lambda: not alive(pid))


def test_if_one_cannot_be_begun_none_is_left(tmp_path, monkeypatch):
    begun = []

    def spawn(command, folder, environ, real=procfile._spawn):
        if begun:
            raise OSError("no more processes")
        begun.append(real(command, folder, environ))
        return begun[0]

    monkeypatch.setattr(procfile, "_spawn", spawn)
    with pytest.raises(OSError, match="no more"):
        procfile.begin({"a": "sleep 600", "b": "true"}, folder=tmp_path, environ=os.environ)
    assert begun[0].returncode is not None
