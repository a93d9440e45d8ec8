"""Counts that handlers keep in a file in memory: how many runs began, when the first and each did.

The standard library alone, since every Python peer imports it. A slot for each process: a count
and the moment of its first run, on the clock that all processes of a machine share; after the
slots one moment for each job number, where `PEER_TIMED` is set.
"""

import mmap
import os
import struct
import time
from pathlib import Path
from typing import Final

FILE: Final = "PEER_MARKS"
TIMED: Final = "PEER_TIMED"
SLOTS: Final = 8_192
"""Processes of one measurement have pids that lie closer together than that."""
SLOT: Final = struct.Struct("<Qd")
MOMENT: Final = struct.Struct("<d")
MOMENTS: Final = 8_192
SIZE: Final = SLOTS * SLOT.size + MOMENTS * MOMENT.size


def _mapped(path: str | Path) -> mmap.mmap:
    with Path(path).open("r+b") as file:
        return mmap.mmap(file.fileno(), SIZE)


class Marker:
    """One process's slot, opened at its first run: a worker may fork before."""

    def __init__(self) -> None:
        self._memory: mmap.mmap | None = None
        self._count = 0
        self._first = 0.0
        self._timed = bool(os.environ.get(TIMED))

    def run(self, number: int) -> None:
        """Count a run that begins now."""
        if self._memory is None:
            self._memory, self._first = _mapped(os.environ[FILE]), time.monotonic()
        self._count += 1
        place = os.getpid() % SLOTS * SLOT.size
        SLOT.pack_into(self._memory, place, self._count, self._first)
        if self._timed:
            place = SLOTS * SLOT.size + number * MOMENT.size
            MOMENT.pack_into(self._memory, place, time.monotonic())


class Marks:
    """All slots, as who measures reads them."""

    def __init__(self, path: Path) -> None:
        path.write_bytes(bytes(SIZE))
        self.path = path
        self._memory = _mapped(path)

    def clear(self) -> None:
        """Forget all, once nobody writes any more."""
        self._memory[:] = bytes(SIZE)

    def counted(self) -> int:
        """Return how many runs began."""
        return sum(count for count, _ in self._slots())

    def first(self) -> float:
        """Return when the first of them did."""
        return min(first for count, first in self._slots() if count)

    def moment(self, number: int) -> float:
        """Return when the run of this job began: 0 if it did not."""
        place = SLOTS * SLOT.size + number * MOMENT.size
        return float(MOMENT.unpack_from(self._memory, place)[0])

    def _slots(self) -> list[tuple[int, float]]:
        return list(SLOT.iter_unpack(self._memory[: SLOTS * SLOT.size]))
