"""In a child: runs of handlers that may share it, each in a thread."""

import contextvars
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from queue_core.registry import Registry
from queue_core.sharing import MOST_SHARING
from queue_core.worker.execute import execute
from queue_core.worker.guard import boottime
from queue_core.worker.memory import explained
from queue_core.worker.messages import JobMessage, Report

if TYPE_CHECKING:
    from queue_core.worker.child import Line


def serve(line: "Line", registry: Registry, first: JobMessage, memory: int | None) -> None:
    """Run the jobs that the supervisor gives until there are to be no more.

    It gives as many at once as there are slots: a thread is made when none is idle.
    """
    context = contextvars.copy_context()
    with ThreadPoolExecutor(MOST_SHARING, thread_name_prefix="countersign-run") as threads:
        job: JobMessage | None = first
        while job:
            threads.submit(context.copy().run, _run, line, registry, job, memory)
            job = line.next_job()


def _run(line: "Line", registry: Registry, job: JobMessage, memory: int | None) -> None:
    began = boottime()
    ending = execute(job, registry)
    line.leave_if_forked()
    line.forget(job)
    ending = explained(ending, memory)
    line.say(Report(job.id, ending, began, boottime() - began))
