"""The database itself: bringing its schema up to date, and proving it sound."""

import click

from console.cli import connections
from console.cli.failures import NO_DATABASE, REFUSED
from console.cli.output import as_dict, say, say_json, warn
from queue_core import check as soundness
from queue_core import migrate as migrations


@click.command()
@click.option("--sql", is_flag=True, help="Print the statements for psql and change nothing.")
def migrate(*, sql: bool) -> None:
    """Bring the schema up to date, as its owner (QUEUE_OWNER_URL)."""
    if sql:
        say(migrations.as_sql())
        return
    with connections.owning() as conn:
        applied = migrations.migrate(conn)
    for name in applied:
        say(f"applied {name}")
    if not applied:
        say("nothing to apply: the schema is up to date")


@click.command()
@click.option("--full", is_flag=True, help="Look at all of history, not only at the newest jobs.")
@click.option("--json", "wants_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def check(ctx: click.Context, *, full: bool, wants_json: bool) -> None:
    """Prove that the schema is sound and that every job stands in exactly one place."""
    with connections.anyhow() as conn:
        problems = soundness.check(conn, full=full)
        warnings = soundness.warnings(conn)
        foreign = soundness.is_foreign(conn)
    if wants_json:
        say_json({"ok": not problems, "problems": [as_dict(problem) for problem in problems]})
    else:
        _tell(problems)
    for warning in warnings:
        warn(f"warning: {warning}")
    if problems:
        ctx.exit(NO_DATABASE if foreign else REFUSED)


def _tell(problems: list[soundness.Problem]) -> None:
    for problem in problems:
        say(f"{problem.code}: {problem.what}")
        say(f"    {problem.mend}")
    if not problems:
        say("sound")
