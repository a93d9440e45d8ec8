"""The supervisor's side of the guard: it is told what it needs to know, and replaced if it dies."""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from queue_core.worker import logs

SECRETS: Final = frozenset({"QUEUE_OWNER_URL", "QUEUE_SECRET_KEY"})
"""What no process of a handler's may see."""
_FILE: Final = Path(__file__).with_name("guard.py")
_PATIENCE: Final = 1.0
_LEAVE_SECONDS: Final = 2.0


class Watch:
    """A guard process and what it has been told. Started by the main thread, told by any."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = {k: v for k, v in environment.items() if k != "DATABASE_URL"}
        self._lock = threading.Lock()
        self._children: set[int] = set()
        self._deadline: float | None = None
        self._line: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start a guard and tell it everything."""
        ours, theirs = socket.socketpair()
        ours.settimeout(_PATIENCE)
        self._process = subprocess.Popen(
            [sys.executable, "-I", str(_FILE), str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            env=self._environment,
            pass_fds=[theirs.fileno()],
            process_group=0,
        )
        theirs.close()
        with self._lock:
            self._line = ours
            known = [f"+{pid}" for pid in self._children]
            if self._deadline is not None:
                known.append(f"={self._deadline!r}")
            self._say(*known)

    def add(self, pid: int) -> None:
        """Tell of a child that was made."""
        with self._lock:
            self._children.add(pid)
            self._say(f"+{pid}")

    def drop(self, pid: int) -> None:
        """Tell of a child that is gone, before its number can be anybody else's."""
        with self._lock:
            self._children.discard(pid)
            self._say(f"-{pid}")

    def extend(self, deadline: float) -> None:
        """Tell until when (`boottime()`) the supervisor may now be silent."""
        with self._lock:
            self._deadline = deadline
            self._say(f"={deadline!r}")

    def restart_if_dead(self) -> None:
        """Replace a guard that died, telling the new one everything."""
        if self._process is not None and self._process.poll() is not None:
            logs.warning("the guard died and is replaced", exit=self._process.returncode)
            self._hang_up()
            self.start()

    def close(self) -> None:
        """Let the guard go, once no child is left."""
        self._hang_up()
        if self._process is not None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_LEAVE_SECONDS)

    def _hang_up(self) -> None:
        with self._lock:
            if self._line is not None:
                self._line.close()
            self._line = None

    def _say(self, *words: str) -> None:
        if self._line is None or not words:
            return
        try:
            self._line.sendall("".join(f"{word}\n" for word in words).encode())
        except OSError:
            # It died, or stands still: no guard either way. Its death is seen and mended.
            self._line.close()
            self._line = None
            if self._process is not None:
                with suppress(ProcessLookupError):
                    os.kill(self._process.pid, signal.SIGKILL)


def environment(url: str) -> dict[str, str]:
    """Return the environment of children: ours without secrets, with the database that we use."""
    kept = {name: value for name, value in os.environ.items() if name not in SECRETS}
    return kept | {"DATABASE_URL": url}
