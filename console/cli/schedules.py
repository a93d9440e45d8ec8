"""Schedules: what is enqueued every interval; pausing, resuming and running one now is signed."""

import click

import queue_core
from console.cli import connections
from console.cli.output import as_dict, say, say_json, say_table, shown
from console.cli.signature import noted, signed, via
from queue_core.queries import schedules as queries


@click.group()
def schedules() -> None:
    """List schedules, pause and resume them, run one now."""


@schedules.command("list")
@click.option("--json", "wants_json", is_flag=True, help="Print one JSON object.")
def list_(*, wants_json: bool) -> None:
    """List every schedule with its last job, and code that disagrees with what is in force."""
    with connections.reading() as conn:
        rows = queries.list_schedules(conn)
        versions = queries.list_versions(conn)
    if wants_json:
        found = [as_dict(row) | {"state": _state(row)} for row in rows]
        say_json({"schedules": found, "versions": [as_dict(each) for each in versions]})
        return
    if not rows:
        say("no schedules")
        return
    head = ("name", "state", "every (s)", "job", "due at", "last job", "its state", "its error")
    say_table([head, *map(_cells, rows)])
    for row in rows:
        if row.last_skip:
            skipped = f"a due time had no job of its own at {shown(row.last_skip_at)}"
            say(f"{shown(row.name)}: {skipped}: {row.last_skip}")
    for each in versions:
        if not each.in_force:
            other = f"every {each.every:g} s, job {shown(each.job)} in queue {shown(each.queue)}"
            say(f"{shown(each.schedule)}: other live code has it as {other}")


@schedules.command()
@click.argument("name")
@signed
@noted
def pause(*, name: str, by: str, reason: str, note: str | None) -> None:
    """Let a schedule enqueue nothing until it is resumed."""
    with connections.signing(by) as conn:
        act_id = queue_core.pause_schedule(conn, name, by=by, reason=reason, note=note, via=via())
    say(f"paused {shown(name)} (act {act_id})")


@schedules.command()
@click.argument("name")
@signed
@noted
def resume(*, name: str, by: str, reason: str, note: str | None) -> None:
    """Let a paused schedule go on with its next due time; those it was paused over are passed."""
    with connections.signing(by) as conn:
        act_id = queue_core.resume_schedule(conn, name, by=by, reason=reason, note=note, via=via())
    say(f"resumed {shown(name)} (act {act_id})")


@schedules.command()
@click.argument("name")
@signed
@noted
def run_now(*, name: str, by: str, reason: str, note: str | None) -> None:
    """Enqueue a schedule's job now, and print its id; refused while its last job goes on."""
    with connections.signing(by) as conn:
        made = queue_core.run_schedule_now(conn, name, by=by, reason=reason, note=note, via=via())
    say(str(made.id))


def _cells(row: queries.ScheduleRow) -> tuple[object, ...]:
    error = (row.last_error or "").partition("\n")[0][:80]
    every = f"{row.every:g}"
    job, state = row.last_job, row.last_state
    return (row.name, _state(row), every, row.job, row.due_at, job, state, error)


def _state(row: queries.ScheduleRow) -> str:
    if row.archived_at:
        return "archived"
    return "paused" if row.paused_at else "active"
