"""Running a worker in the foreground."""

import sys
from dataclasses import replace

import click

from console.cli.connections import worker_urls
from queue_core import worker
from queue_core.errors import RunCutOffError
from queue_core.retention import Keep
from queue_core.settings import from_environment
from queue_core.worker import WorkerOptions, logs
from queue_core.worker.options import (
    DEFAULT_ASYNC_SLOTS,
    DEFAULT_GRACE_SECONDS,
    DEFAULT_THREAD_SLOTS,
)


class QueueSlots(click.ParamType):
    """NAME or NAME=SLOTS."""

    name = "queue"

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, int | None]:
        """Return the queue and its cap; without one the queue may take every slot."""
        name, equals, slots = value.rpartition("=")
        if not equals:
            return value, None
        if not (slots.isascii() and slots.isdigit() and len(slots) < 10):  # noqa: PLR2004
            self.fail("the slots of a queue are a whole number, as in mail=2", param, ctx)
        return name, int(slots)


@click.command()
@click.option("--jobs", required=True, metavar="MODULE[:REGISTRY]", help="What declares the jobs.")
@click.option(
    "--queue",
    "queues",
    multiple=True,
    type=QueueSlots(),
    metavar="NAME[=SLOTS]",
    help="Take from this queue only, with at most SLOTS runs at once. Repeatable.",
)
@click.option(
    "--processes",
    type=int,
    help="Runs at once, each in a process (default: one for each processor).",
)
@click.option(
    "--async-slots",
    type=int,
    default=DEFAULT_ASYNC_SLOTS,
    show_default=True,
    help="Runs of async handlers at once, all in one process.",
)
@click.option(
    "--thread-slots",
    type=int,
    default=DEFAULT_THREAD_SLOTS,
    show_default=True,
    help="Runs of handlers with threads=True at once, all in one process.",
)
@click.option(
    "--grace",
    type=float,
    default=DEFAULT_GRACE_SECONDS,
    show_default=True,
    help="Seconds that runs get to end after SIGTERM.",
)
@click.option(
    "--memory-limit",
    type=int,
    metavar="MIB",
    help="Memory that each process of a handler may allocate, in MiB (default: no limit).",
)
@click.option("--name", help="What the console calls this worker.")
@click.option("--one", is_flag=True, help="Run one job if there is one, and end.")
def work(  # noqa: PLR0913 - a parameter for each option
    *,
    jobs: str,
    queues: tuple[tuple[str, int | None], ...],
    processes: int | None,
    async_slots: int,
    thread_slots: int,
    grace: float,
    memory_limit: int | None,
    name: str | None,
    one: bool,
) -> None:
    """Run jobs until told to stop.

    SIGTERM or Ctrl-C lets runs end within --grace; a second one hands them back at once.
    With --one it says whether there was a job, and ends with 0 either way.
    """
    settings = from_environment()
    chosen = {} if processes is None else {"processes": processes}
    options = WorkerOptions(
        owner_url=None,
        url="",  # only once all else is known to be usable: it may start a server
        jobs=jobs,
        queues=dict(queues),
        async_slots=async_slots,
        thread_slots=thread_slots,
        grace=grace,
        memory_limit=memory_limit,
        name=name,
        stale_after=settings.stale_after,
        log=settings.log,
        keep=Keep(settings.keep_days, settings.keep_failed_days),
        notify=settings.notify,
        **chosen,
    )
    url, owner_url = worker_urls(settings)
    options = replace(options, url=url, owner_url=owner_url)
    if not one:
        sys.exit(worker.run_worker(options))
    logs.configure(options.log)
    try:
        click.echo("ran one job" if worker.run_one(options) else "no job was ready")
    except RunCutOffError as error:
        sys.exit(error.exit_code)
