"""The staff: workers that are started, killed at random moments, and replaced."""

import os
import re
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Any, Final

from tests.chaos.handlers import WITNESS
from tests.conftest import CANARY
from tests.queue_core.worker.conftest import PATIENCE, Worker, launch, wait_for

JOBS: Final = "tests.chaos.handlers"
CONSTANTS: Final[Mapping[str, float]] = MappingProxyType(
    {
        "queue_core.backoff.FIRST_WAIT_SECONDS": 0.2,
        "queue_core.backoff.LONGEST_WAIT_SECONDS": 1.0,
        "starts.LONGEST_PAUSE": 1.0,
    }
)
"""Waits that would only make a run of chaos longer."""

START_SECONDS: Final = 240.0
"""A worker and its children, on a machine that starts others all the time."""


class Staff:
    """The workers of one database. Whatever is started here is ended by `dismiss` or `close`."""

    def __init__(self, url: str, witness: str, folder: Path, **options: Any) -> None:
        """Take on nobody yet. `options` are those of `launch`, for all; `witness`, of `Books`."""
        self._url, self._witness, self._folder, self._options = url, witness, folder, options
        self._ways: dict[int, tuple[str, dict[str, Any]]] = {}
        self.present: list[Worker] = []
        self.gone: list[Worker] = []

    def hire(self, url: str = "", **options: Any) -> Worker:
        """Start a worker and return at once; with `url` it reaches the database another way."""
        chosen = {"jobs": JOBS, "stale_after": 20.0} | self._options | options
        constants = {**CONSTANTS, **chosen.pop("constants", {})}
        environment = {WITNESS: self._witness, **chosen.pop("environment", {})}
        worker = launch(
            url or self._url, self._folder, constants=constants, environment=environment, **chosen
        )
        self._ways[worker.pid] = url, options
        self.present.append(worker)
        return worker

    def await_ready(self) -> None:
        """Wait until all have registered."""
        for worker in self.present:
            worker.id()

    def kill_one(self, dice: Random, *, supervisor: bool = False) -> bool:
        """Kill a child at some moment, or a supervisor, which is replaced.

        Waits until there is a child; False where its worker ended by itself instead.
        """
        worker = dice.choice(self.present)
        wait_for(lambda: worker.children() or worker.process.poll() is not None, START_SECONDS)
        time.sleep(dice.expovariate(8))
        children = sorted(worker.children())
        if worker.process.poll() is not None or not children:
            return False
        with suppress(ProcessLookupError):
            os.kill(worker.pid if supervisor else dice.choice(children), signal.SIGKILL)
        if supervisor:
            worker.process.wait()
            self._replace(worker)
        return True

    def replace_ended(self) -> list[int]:
        """Start a worker for each that has ended by itself; returns the exit codes of those."""
        ended = [worker for worker in self.present if worker.process.poll() is not None]
        for worker in ended:
            self._replace(worker)
        return [worker.process.returncode for worker in ended]

    def _replace(self, worker: Worker) -> None:
        self.present.remove(worker)
        self.gone.append(worker)
        url, options = self._ways[worker.pid]
        self.hire(url, **options)

    def dismiss(self, seconds: float = PATIENCE) -> list[int]:
        """Tell everybody to stop, and return the exit codes."""
        for worker in self.present:
            worker.send(signal.SIGTERM)
        return [worker.ended(seconds) for worker in self.present]

    def close(self) -> None:
        """End whoever is left; fail where one told what it must not, or fell over its own code."""
        everybody = [*self.present, *self.gone]
        for worker in everybody:
            worker.kill_all()
        for worker in everybody:
            assert CANARY not in worker.text()
            assert not re.search("^Traceback", worker.text(), re.MULTILINE), worker.text()

    def lines(self, words: str) -> list[str]:
        """Return the lines with these words that anybody has logged."""
        return [line for worker in (*self.present, *self.gone) for line in worker.lines(words)]

    def await_line(self, words: str, seconds: float = PATIENCE) -> None:
        """Wait until somebody logs a line with these words."""
        wait_for(lambda: self.lines(words), seconds)
