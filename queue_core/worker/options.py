"""What a worker is told when it starts."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from queue_core.errors import OptionError
from queue_core.jobs import check_name, check_seconds, check_whole
from queue_core.retention import Keep
from queue_core.settings import DEFAULT_STALE_SECONDS
from queue_core.sharing import MOST_SHARING

DEFAULT_GRACE_SECONDS: Final = 25.0
MOST_PROCESSES: Final = 1_000
LEAST_MEMORY: Final = 64
MOST_MEMORY: Final = 1_048_576
"""MiB."""
DEFAULT_ASYNC_SLOTS: Final = 100
DEFAULT_THREAD_SLOTS: Final = 10


def _processors() -> int:
    return os.cpu_count() or 1


def _any_queue() -> dict[str, int | None]:
    return {}


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """Where a worker finds its database and its jobs, and how it runs them.

    `jobs` is `MODULE[:REGISTRY]`, imported by the children alone. `queues` maps the
    queues to take from to their caps (None: up to all slots); empty means all queues.
    `processes` is the number of slots of plain handlers, each a process; async handlers have
    `async_slots` in one process, those with `threads=True` have `thread_slots` in another.
    `grace` is how many seconds runs get to end after SIGTERM, `memory_limit` how many MiB a
    child may allocate (None: no limit), and `stale_after` after how many silent seconds a
    worker is lost. `owner_url` is the way of the schema's owner, for retention alone (None:
    `url`), and `keep` for how long it keeps what ended. Without `notify` nobody wakes it, and
    it finds jobs by polling alone, as behind a pooler. Raises OptionError.
    """

    url: str = field(repr=False)
    jobs: str
    queues: Mapping[str, int | None] = field(default_factory=_any_queue)
    processes: int = field(default_factory=_processors)
    async_slots: int = DEFAULT_ASYNC_SLOTS
    thread_slots: int = DEFAULT_THREAD_SLOTS
    grace: float = DEFAULT_GRACE_SECONDS
    memory_limit: int | None = None
    name: str | None = None
    stale_after: float = DEFAULT_STALE_SECONDS
    log: Literal["text", "json"] = "text"
    owner_url: str | None = field(default=None, repr=False)
    keep: Keep = field(default_factory=Keep)
    notify: bool = True

    def __post_init__(self) -> None:
        """Refuse what cannot work, before anything is started."""
        if not all(part.isidentifier() for part in self.jobs.replace(":", ".", 1).split(".")):
            raise OptionError("the jobs are named MODULE or MODULE:REGISTRY, such as app.jobs:jobs")
        for queue, cap in self.queues.items():
            check_name(queue, "a queue's name")
            if cap is not None:
                check_whole(cap, f"the slots of queue {queue!r}", 1, MOST_PROCESSES)
        check_whole(self.processes, "processes", 1, MOST_PROCESSES)
        check_whole(self.async_slots, "async_slots", 1, MOST_SHARING)
        check_whole(self.thread_slots, "thread_slots", 1, MOST_SHARING)
        check_seconds(self.grace, "grace", zero=True)
        check_seconds(self.stale_after, "stale_after")
        if self.memory_limit is not None:
            check_whole(self.memory_limit, "the memory limit", LEAST_MEMORY, MOST_MEMORY)
        if self.name is not None:
            check_name(self.name, "the worker's name")
