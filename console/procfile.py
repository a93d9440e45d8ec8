"""The lines of a Procfile as processes: begun together, ended together."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

POLL_SECONDS: Final = 0.1
PR_SET_PDEATHSIG: Final = 1
PARENT_GONE: Final = 70


@dataclass(frozen=True, slots=True)
class Part:
    """One line of the Procfile, running in a process group of its own."""

    name: str
    process: subprocess.Popen[bytes]

    @property
    def ended(self) -> bool:
        """Whether its process is over."""
        return self.process.poll() is not None

    @property
    def ending(self) -> str:
        """How it ended, for a person."""
        code = self.process.poll()
        if code is not None and code < 0:
            return f"was ended by signal {-code}"
        return f"ended by itself with exit code {code}"


def read(text: str) -> dict[str, str]:
    """Return the command of each name in a Procfile, in its order."""
    pairs = (line.partition(":") for line in text.splitlines())
    return {name.strip(): command.strip() for name, colon, command in pairs if colon}


def begin(commands: Mapping[str, str], *, folder: Path, environ: Mapping[str, str]) -> list[Part]:
    """Begin every command in `folder`, as `sh` reads it; call it from the main thread.

    Ctrl-C at the terminal does not reach them. On Linux they are asked to end (SIGTERM)
    when this process dies, however it dies; elsewhere only `end` ends them.
    """
    parts: list[Part] = []
    try:
        for name, command in commands.items():
            parts.append(Part(name, _spawn(command, folder, environ)))
    except BaseException:
        end(parts, seconds=0)
        raise
    return parts


def first_ended(parts: Iterable[Part]) -> Part | None:
    """Return a part that is over, or None while all of them run."""
    return next((part for part in parts if part.ended), None)


def wait_for_an_end(parts: Sequence[Part]) -> Part:
    """Wait until one of the parts is over, and return it."""
    while not (part := first_ended(parts)):
        time.sleep(POLL_SECONDS)
    return part


def ask_to_end(parts: Iterable[Part]) -> None:
    """Send SIGTERM to each part that still runs."""
    for part in parts:
        if not part.ended:
            part.process.terminate()


def end(parts: Sequence[Part], *, seconds: float) -> list[Part]:
    """Ask every part to end, kill what is left after `seconds`, and return what was killed."""
    ask_to_end(parts)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not all(part.ended for part in parts):
        time.sleep(POLL_SECONDS)
    late = [part for part in parts if not part.ended]
    for part in late:
        with suppress(ProcessLookupError):
            os.killpg(part.process.pid, signal.SIGKILL)
        part.process.wait()
    return late


def _spawn(command: str, folder: Path, environ: Mapping[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        ["/bin/sh", "-c", f"exec {command}"],
        cwd=folder,
        env=environ,
        stdin=subprocess.DEVNULL,
        process_group=0,
        preexec_fn=_end_with_parent(),  # noqa: PLW1509 - no thread runs yet; nothing else sets it
    )


def _end_with_parent() -> Callable[[], None] | None:
    """Return what makes a child end when this process does, where the system can do that."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    parent = os.getpid()

    def before_exec() -> None:
        prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
        if os.getppid() != parent:  # it died before the line above
            os._exit(PARENT_GONE)

    return before_exec
