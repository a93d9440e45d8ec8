"""In a child: runs of async handlers, many at once, in the event loop of its main thread."""

import asyncio
import contextvars
import os
import selectors
import threading
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from queue_core.registry import Registry
from queue_core.worker import logs
from queue_core.worker.execute import execute_async
from queue_core.worker.guard import boottime
from queue_core.worker.memory import explained
from queue_core.worker.messages import JobMessage, Report

if TYPE_CHECKING:
    from uuid import UUID

    from queue_core.worker.child import Line

OBEYED: Final = ("cancelled", "stopped")
"""For these a run is cancelled; that its worker shuts down it may only look at."""


def serve(line: "Line", registry: Registry, first: JobMessage, memory: int | None) -> None:
    """Run the jobs that the supervisor gives until there are to be no more."""
    _Loop(line, registry, memory).serve(first)


def _complain(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Say what kind of error nobody took: its text could hold an argument."""
    error: object = context.get("exception")
    logs.warning("an error was left behind in the event loop", cause=type(error).__name__)


class _Loop:
    """An event loop and the runs that go on in it."""

    def __init__(self, line: "Line", registry: Registry, memory: int | None) -> None:
        self._line = line
        self._memory = memory
        self._registry = registry
        self._tasks: dict[UUID, asyncio.Task[None]] = {}
        self._context = contextvars.copy_context()
        self._over = False
        self._selector = selectors.DefaultSelector()
        self._loop = asyncio.SelectorEventLoop(self._selector)
        os.register_at_fork(after_in_child=self._break)
        self._loop.set_exception_handler(_complain)

    def serve(self, first: JobMessage) -> None:
        """Run `first` and all that follow."""
        asyncio.set_event_loop(self._loop)
        feeder = threading.Thread(target=self._feed, args=[first], name="countersign-feeder")
        feeder.daemon = True
        feeder.start()
        while not (self._over or self._loop.is_closed()):
            try:
                self._loop.run_forever()
            except BaseException:  # noqa: BLE001 - SystemExit of a task that a handler left behind
                self._line.leave_if_forked()

    def _feed(self, job: JobMessage | None) -> None:
        """Take the jobs to the loop, as they come."""
        while job:
            self._loop.call_soon_threadsafe(self._start, job)
            job = self._line.next_job()
        self._over = True
        self._loop.call_soon_threadsafe(self._loop.stop)

    def _start(self, job: JobMessage) -> None:
        context = self._context.copy()
        self._tasks[job.id] = self._loop.create_task(self._run(job), context=context)
        job.request.heard = lambda: self._loop.call_soon_threadsafe(self._obey, job)
        # After its first step: a task that is cancelled before that never begins, nor reports.
        self._loop.call_soon(self._obey, job)

    def _break(self) -> None:
        """Have a fork that comes out of a handler end in the loop, before it runs anybody else.

        What is ready, or becomes so in this turn of the loop, finds no place there.
        """
        self._selector.close()
        vars(self._loop)["_ready"] = deque[object](maxlen=0)

    async def _run(self, job: JobMessage) -> None:
        began = boottime()
        ending = await execute_async(job, self._registry)
        self._line.leave_if_forked()
        self._line.forget(job)
        del self._tasks[job.id]
        ending = explained(ending, self._memory)
        self._line.say(Report(job.id, ending, began, boottime() - began))

    def _obey(self, job: JobMessage) -> None:
        """Cancel a run that is to stop, at the `await` where it waits."""
        task = self._tasks.get(job.id)
        if task and job.request.why in OBEYED:
            task.cancel()
