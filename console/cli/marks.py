"""Acts that move no job, from the command line: looking after one, a note, its arguments."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import click

import queue_core
from console.cli import connections
from console.cli.acts import saw, told
from console.cli.failures import REFUSED, Mistake
from console.cli.output import say, say_text, warn
from console.cli.signature import noted, signed, via
from console.masking import masked
from queue_core.acts import ActOutcome
from queue_core.states import STATES, State

Verb = Callable[..., ActOutcome]


def on_job(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the job that it acts on, what signs the act, and what was seen of it."""
    for option in (
        click.option("--seen-attempt", type=click.IntRange(0), help="Its attempt by then."),
        click.option("--seen-state", type=click.Choice(STATES), help="Only if it is still so."),
        signed,
        click.argument("job_id", type=click.UUID, metavar="ID"),
    ):
        command = option(command)
    return command


@click.command()
@on_job
@noted
@click.pass_context
def assign(ctx: click.Context, **options: Any) -> None:  # noqa: ANN401 - checked by Signature
    """Look after a job in review, or a failed one: whoever signs stands beside it."""
    outcome, line = _sign(queue_core.assign, **options)
    say(line)
    _leave_where_refused(ctx, outcome)


@click.command()
@on_job
@click.option("--note", required=True, help="What was found, or what comes next.")
@click.pass_context
def note(ctx: click.Context, *, note: str, **options: Any) -> None:  # noqa: ANN401
    """Put a note beside a job in review, or a failed one, for whoever comes next."""
    if not note.strip():
        raise Mistake("--note says nothing: write what was found, or what comes next")
    outcome, line = _sign(queue_core.note, note=note, **options)
    say(line)
    _leave_where_refused(ctx, outcome)


@click.command()
@on_job
@noted
@click.pass_context
def reveal(ctx: click.Context, **options: Any) -> None:  # noqa: ANN401
    """Print a job's arguments as JSON, once it is signed that they were; secrets are masked.

    They go to standard output alone; the act's number goes to standard error.
    """
    outcome, line = _sign(queue_core.reveal, **options)
    (warn if outcome.applied else say)(line)
    _leave_where_refused(ctx, outcome)
    with connections.reading() as conn:
        text = queue_core.revealed_arguments(conn, outcome.job_id, outcome.act_id or 0)
    shown = masked(text) if text else None
    if shown is None:
        warn("they cannot be read as JSON here, so nothing could be masked: they are not shown")
        ctx.exit(REFUSED)
    say_text(shown)


def _sign(
    verb: Verb,
    *,
    job_id: UUID,
    seen_state: State | None,
    seen_attempt: int | None,
    **signature: Any,  # noqa: ANN401 - who and why, checked by Signature
) -> tuple[ActOutcome, str]:
    """Act on the job in one commit, or change nothing; return a line on what came of it, too."""
    seen = saw([job_id], seen_state, seen_attempt)
    with connections.signing(signature["by"]) as conn:
        outcome = verb(conn, job_id, seen=seen, via=via(), **signature)
        return outcome, f"{outcome.job_id}  {told(conn, outcome)}"


def _leave_where_refused(ctx: click.Context, outcome: ActOutcome) -> None:
    if not outcome.applied:
        ctx.exit(REFUSED)
