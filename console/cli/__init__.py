"""The command line, `flask queue …`: it works without FLASK_APP and without an app."""

import click

from console.cli import acts, jobs, marks, operators, queues, schedules, schema, work
from console.cli.failures import Commands, leave_in_order_when_told

__all__ = ["queue"]


@click.group("queue", cls=Commands)
def queue() -> None:
    """Run the job queue, look at it, and act on its jobs.

    The database is DATABASE_URL or, without it, the embedded Postgres in QUEUE_DATA.
    """
    leave_in_order_when_told()


for command in (
    work.work,
    schema.migrate,
    schema.check,
    schema.seals,
    jobs.counts,
    jobs.jobs,
    jobs.show,
    acts.enqueue,
    acts.cancel,
    acts.retry,
    acts.release,
    acts.confirm,
    acts.close,
    marks.assign,
    marks.note,
    marks.reveal,
    queues.queues,
    operators.operators,
    schedules.schedules,
):
    queue.add_command(command)
