"""The database itself: bringing its schema up to date, proving it sound, and its seals."""

import click

from console.cli import connections
from console.cli.failures import NO_DATABASE, REFUSED, Mistake
from console.cli.output import as_dict, say, say_json, say_table, shown, warn
from queue_core import check as soundness
from queue_core import migrate as migrations
from queue_core.queries import seals as seal_queries
from queue_core.queries.attention import attention


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
@click.option(
    "--head",
    "kept",
    multiple=True,
    metavar="NUMBER:HASH",
    help="A seal as `flask queue seals` printed it: that it is still there. As often as wanted.",
)
@click.option("--attention", "wants_needs", is_flag=True, help="Ask only if a person is needed.")
@click.option("--json", "wants_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def check(
    ctx: click.Context, *, full: bool, kept: tuple[str, ...], wants_needs: bool, wants_json: bool
) -> None:
    """Prove that schema and ledger are sound and that every job stands in exactly one place.

    With --attention, for cron: one line and exit code 1 if a person is needed, else silence.
    """
    if wants_needs:
        if full or kept:
            raise Mistake("--attention stands alone: it proves nothing")
        _attend(ctx, wants_json=wants_json)
        return
    heads = [seal_queries.read_head(text) for text in kept]
    with connections.anyhow() as conn:
        problems = soundness.check(conn, full=full, heads=heads)
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


def _attend(ctx: click.Context, *, wants_json: bool) -> None:
    with connections.reading() as conn:
        needs = attention(conn)
    if wants_json:
        say_json({"ok": not needs, "needs": [as_dict(need) for need in needs]})
    elif needs:
        say(shown(f"a person is needed: {'; '.join(need.what for need in needs)}"))
    if needs:
        ctx.exit(REFUSED)


def _tell(problems: list[soundness.Problem]) -> None:
    for problem in problems:
        say(f"{problem.code}: {problem.what}")
        say(f"    {problem.mend}")
    if not problems:
        say("sound")


@click.command()
@click.option("--limit", type=click.IntRange(1, 10_000), default=10, show_default=True)
@click.option("--json", "wants_json", is_flag=True, help="Print one JSON object.")
def seals(*, limit: int, wants_json: bool) -> None:
    """Print the head of the ledger's chain, to be kept outside the database, and its seals."""
    with connections.reading() as conn:
        found = seal_queries.newest(conn, limit)
    head = str(found[0].head) if found else None
    if wants_json:
        say_json({"head": head, "seals": [as_dict(seal) for seal in found]})
        return
    if head is None:
        say("no act has been sealed yet")
        return
    say(head)
    say("")
    heading = ("number", "at", "acts", "rebase")
    said = [(seal.number, seal.at, seal.count, "rebase" if seal.rebase else "") for seal in found]
    say_table([heading, *said])
