"""Running a worker in the foreground."""

import sys
from dataclasses import replace

import click

from console.cli.connections import service_url
from queue_core.settings import from_environment
from queue_core.worker import WorkerOptions, run_worker
from queue_core.worker.options import DEFAULT_GRACE_SECONDS


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
@click.option("--processes", type=int, help="Runs at once (default: one for each processor).")
@click.option(
    "--grace",
    type=float,
    default=DEFAULT_GRACE_SECONDS,
    show_default=True,
    help="Seconds that runs get to end after SIGTERM.",
)
@click.option("--name", help="What the console calls this worker.")
def work(
    *,
    jobs: str,
    queues: tuple[tuple[str, int | None], ...],
    processes: int | None,
    grace: float,
    name: str | None,
) -> None:
    """Run jobs until told to stop.

    SIGTERM or Ctrl-C lets runs end within --grace; a second one hands them back at once.
    """
    settings = from_environment()
    chosen = {} if processes is None else {"processes": processes}
    options = WorkerOptions(
        url="",  # only once all else is known to be usable: it may start a server
        jobs=jobs,
        queues=dict(queues),
        grace=grace,
        name=name,
        stale_after=settings.stale_after,
        log=settings.log,
        **chosen,
    )
    sys.exit(run_worker(replace(options, url=service_url(settings))))
