"""Memory: what a child may have of it, and whether the kernel has killed for want of it."""

import os
import resource
import sys
from dataclasses import replace
from pathlib import Path
from typing import Final

from queue_core.outcomes import Ending, Failed
from queue_core.worker.messages import Stain

MEBIBYTE: Final = 1_048_576
OUT_OF_MEMORY: Final = 71
"""The exit code of a child that has no memory left for what it has to do itself."""
_NEARLY: Final = 3 / 4
_STATM: Final = Path("/proc/self/statm")
_DATA: Final = 5
_COUNTS: Final = (Path("/sys/fs/cgroup/memory.events"), Path("/proc/vmstat"))


def limit_memory(mebibytes: int) -> None:
    """Let this process, and each that it starts, allocate so much and no more.

    Counted is what it may write to alone (RLIMIT_DATA): what Python and libraries allocate, the
    stacks of threads, not files and programs that are only mapped.
    """
    most = mebibytes * MEBIBYTE
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def explained(ending: Ending, mebibytes: int | None) -> Ending:
    """Return how a run ended, with the limit that it met if it is one of memory."""
    if mebibytes is None or not _is_of_memory(ending):
        return ending
    return replace(ending, error=f"MemoryError: the limit is {mebibytes} MiB")


def stain_of_memory(ending: Ending, mebibytes: int | None) -> Stain | None:
    """Say whether memory is short after a run: it met a limit, or left over 3/4 of ours in use."""
    if _is_of_memory(ending) or (mebibytes is not None and _is_short(mebibytes)):
        return "memory"
    return None


def _is_of_memory(ending: Ending) -> bool:
    return isinstance(ending, Failed) and ending.error_type == "MemoryError"


def _is_short(mebibytes: int) -> bool:
    if sys.platform != "linux":
        return False
    pages = int(_STATM.read_text(encoding="ascii").split()[_DATA])
    return pages * os.sysconf("SC_PAGE_SIZE") > mebibytes * MEBIBYTE * _NEARLY


def killed_for_memory() -> int:
    """Return how often the kernel has killed a process for want of memory, as far as it tells."""
    for path in _COUNTS:
        try:
            lines = path.read_text(encoding="ascii").splitlines()
        except OSError:
            continue
        for line in lines:
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0
