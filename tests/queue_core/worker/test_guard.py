"""The guard: it kills when its supervisor is silent for too long, or gone, and only then."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from queue_core.worker import guard
from queue_core.worker.guard import Guard, boottime
from tests.queue_core.worker.conftest import is_alive, wait_for


class Guarded:
    """A guard, the line to it, and children for it to guard."""

    def __init__(self) -> None:
        self.line, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-I", guard.__file__, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
            )
        self.children: list[subprocess.Popen[bytes]] = []

    def child(self) -> subprocess.Popen[bytes]:
        """Return a process in a group of its own, which has a child itself."""
        made = subprocess.Popen(["sh", "-c", "sleep 60 & wait"], process_group=0)
        self.children.append(made)
        self.say(f"+{made.pid}")
        return made

    def say(self, *words: str) -> None:
        self.line.sendall("".join(f"{word}\n" for word in words).encode())


@pytest.fixture
def guarded() -> Iterator[Guarded]:
    made = Guarded()
    yield made
    made.line.close()
    made.process.kill()
    made.process.wait()
    for child in made.children:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()


def members(group: int) -> list[int]:
    """Return the live processes of a group."""
    found: list[int] = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group and fields[0] not in "ZX":
            found.append(int(entry.name))
    return found


def test_children_are_killed_with_all_they_started_once_the_deadline_has_passed(guarded):
    child = guarded.child()
    wait_for(lambda: len(members(child.pid)) == 2)
    guarded.say(f"={boottime() + 0.3!r}")
    assert child.wait(3) == -signal.SIGKILL
    wait_for(lambda: not members(child.pid))
    assert guarded.process.wait(3) == 0


def test_a_deadline_that_is_put_off_in_time_kills_nobody(guarded):
    child = guarded.child()
    for _ in range(4):
        guarded.say(f"={boottime() + 0.4!r}")
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(0.2)
    assert guarded.process.poll() is None


def test_children_are_killed_when_the_supervisor_is_gone(guarded):
    child = guarded.child()
    guarded.line.close()
    assert child.wait(3) == -signal.SIGKILL
    assert guarded.process.wait(3) == 0


def test_a_child_that_is_gone_is_left_in_peace_whoever_has_its_number_now(guarded):
    child = guarded.child()
    guarded.say(f"-{child.pid}")
    guarded.line.close()
    assert guarded.process.wait(3) == 0
    assert is_alive(child.pid)


def test_the_guard_outlives_the_signals_that_end_its_supervisor(guarded):
    child = guarded.child()
    wait_for(lambda: _ignores(guarded.process.pid, signal.SIGHUP))  # the last it takes care of
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        guarded.process.send_signal(number)
    guarded.say(f"={boottime() + 0.2!r}")
    assert child.wait(3) == -signal.SIGKILL
    assert guarded.process.wait(3) == 0


def _ignores(pid: int, number: int) -> bool:
    status = Path(f"/proc/{pid}/status").read_text()
    (ignored,) = [line.split()[1] for line in status.splitlines() if line.startswith("SigIgn")]
    return bool(int(ignored, 16) >> (number - 1) & 1)


def test_what_arrives_in_pieces_is_understood():
    watcher = Guard()
    for piece in (b"+1", b"2\n+1", b"3\n-12\n=", b"7.5\n"):
        watcher.hear(piece)
    assert (watcher.children, watcher.deadline) == ({13}, 7.5)


def test_what_was_said_in_time_counts_even_if_it_is_heard_late(monkeypatch):
    """A guard that was itself kept waiting must not kill for a beat that lies unread."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)  # word by word
    killed: list[int] = []
    monkeypatch.setattr(os, "killpg", lambda pid, _: killed.append(pid))
    with ours, theirs:
        ours.sendall(b"+12345\n=1.0\n")  # long ago
        ours.sendall(b"-12345\n")
        ours.shutdown(socket.SHUT_WR)
        guard.watch(theirs)
    assert killed == []
