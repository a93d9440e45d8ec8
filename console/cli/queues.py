"""Queues: how each stands; pausing, resuming and clearing one is signed like any act."""

from uuid import UUID, uuid4

import click

import queue_core
from console.cli import connections
from console.cli.output import as_dict, say, say_json, say_table
from console.cli.signature import noted, signed, via
from queue_core.acts import MOST_JOBS
from queue_core.queries.queues import CAP, QueueRow


@click.group()
def queues() -> None:
    """List queues, pause and resume them, and clear one of what is queued in it."""


@queues.command("list")
@click.option("--json", "wants_json", is_flag=True, help="Print one JSON object.")
def list_(*, wants_json: bool) -> None:
    """List every queue that holds live jobs or is paused, at most 200."""
    with connections.reading() as conn:
        found = queue_core.list_queues(conn)
    if wants_json:
        say_json({"queues": [as_dict(row) for row in found], "cap": CAP})
    elif found:
        head = ("queue", "ready", "waiting", "blocked", "running", "oldest, s", "paused since")
        say_table([head, *map(_line, found)])
    else:
        say("no queues")


@queues.command()
@click.argument("name")
@signed
@noted
def pause(*, name: str, by: str, reason: str, note: str | None) -> None:
    """Let workers take nothing from a queue; what runs goes on."""
    with connections.signing(by) as conn:
        act_id = queue_core.pause_queue(conn, name, by=by, reason=reason, note=note, via=via())
    say(f"paused {name} (act {act_id})")


@queues.command()
@click.argument("name")
@signed
@noted
def resume(*, name: str, by: str, reason: str, note: str | None) -> None:
    """Let workers take jobs from a paused queue again."""
    with connections.signing(by) as conn:
        act_id = queue_core.resume_queue(conn, name, by=by, reason=reason, note=note, via=via())
    say(f"resumed {name} (act {act_id})")


@queues.command()
@click.argument("name")
@signed
@noted
@click.option("--bulk-id", type=click.UUID, help="What the acts share; else a new one.")
@click.option("--limit", type=click.IntRange(1, MOST_JOBS), default=MOST_JOBS, show_default=True)
def clear(
    *, name: str, by: str, reason: str, note: str | None, bulk_id: UUID | None, limit: int
) -> None:
    """Cancel all that is queued in a queue, --limit jobs a commit; what runs goes on."""
    bulk_id = bulk_id or uuid4()
    cancelled, more = 0, True
    try:
        with connections.acting() as conn:
            while more:
                with connections.one_commit(conn, by):
                    found = queue_core.clear_queue(
                        conn,
                        name,
                        by=by,
                        reason=reason,
                        note=note,
                        via=via(),
                        bulk_id=bulk_id,
                        limit=limit,
                    )
                cancelled, more = cancelled + found, found == limit
    finally:
        if cancelled or not more:
            say(f"cancelled {cancelled} jobs of {name} (bulk {bulk_id})")


def _line(row: QueueRow) -> tuple[object, ...]:
    numbers = (row.ready, row.waiting, row.blocked, row.running)
    counted = [f"{CAP}+" if number > CAP else number for number in numbers]
    return row.name, *counted, row.oldest_ready_seconds, row.paused_at
