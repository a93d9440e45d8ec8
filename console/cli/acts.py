"""Acting on jobs from the command line: every act is signed by an enabled operator."""

from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

import click

import queue_core
from console.cli import connections, declared, given
from console.cli.failures import REFUSED, Mistake
from console.cli.output import say, shown
from console.cli.signature import noted, signed, via
from queue_core.acts import MOST_KILL_SECONDS, ActOutcome, Change, Seen
from queue_core.database import AnyConnection
from queue_core.queries.acts import acts_of
from queue_core.states import STATES, State


def on_jobs(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the jobs that it acts on, what signs the act, and what was seen of them."""
    for option in (
        click.option("--bulk-id", type=click.UUID, help="What the acts of one bulk share."),
        click.option("--seen-attempt", type=click.IntRange(0), help="Its attempt by then."),
        click.option("--seen-state", type=click.Choice(STATES), help="Only if it is still so."),
        noted,
        signed,
        click.argument("ids", nargs=-1, required=True, type=click.UUID, metavar="ID…"),
    ):
        command = option(command)
    return command


@click.command()
@click.argument("name")
@click.option("--args", callback=given.by_standard_input, help="-: read a JSON object from stdin.")
@click.option("--jobs", required=True, metavar="MODULE[:REGISTRY]", help="What declares the job.")
@signed
@noted
@click.option("--queue", help="Another queue than the job's own.")
@click.option("--priority", type=int, default=0, help="-32768 to 32767; higher runs first.")
@click.option("--delay", type=float, help="Seconds from now until it may run.")
@click.option("--run-at", type=given.Moment(), help="When it may run: 2026-12-31T08:00:00Z.")
@click.option("--attempts", type=int, help="How often it may be tried.")
@click.option("--time-limit", type=float, help="Seconds after which a run is stopped.")
def enqueue(
    name: str,
    *,
    args: str | None,
    jobs: str,
    by: str,
    reason: str,
    note: str | None,
    **options: Any,  # noqa: ANN401 - the options of a job, checked by NewJob
) -> None:
    """Ask for a job called NAME, and print its id."""
    arguments = given.arguments() if args else {}
    declared.declare(jobs)
    job = queue_core.NewJob(name, arguments, **options)
    with connections.signing(by) as conn:
        made = queue_core.enqueue_signed(conn, job, by=by, reason=reason, note=note, via=via())
    say(str(made.id))


@click.command()
@on_jobs
@click.option(
    "--kill-after",
    type=click.IntRange(1, MOST_KILL_SECONDS),
    metavar="SECONDS",
    help="Kill a run that goes on for so long after it was told; it may then have run in part.",
)
@click.pass_context
def cancel(ctx: click.Context, **options: Any) -> None:  # noqa: ANN401
    """End queued jobs, and ask running ones to stop."""
    _act(ctx, queue_core.cancel, **options)


@click.command()
@on_jobs
@click.pass_context
def retry(ctx: click.Context, **options: Any) -> None:  # noqa: ANN401
    """Give failed or cancelled jobs one more attempt, due now."""
    _act(ctx, queue_core.retry, **options)


@click.command()
@on_jobs
@click.pass_context
def release(ctx: click.Context, **options: Any) -> None:  # noqa: ANN401
    """Let jobs in review run again: their last run may have done its work in part."""
    _act(ctx, queue_core.release, **options)


@click.command()
@on_jobs
@click.pass_context
def confirm(ctx: click.Context, **options: Any) -> None:  # noqa: ANN401
    """Record jobs in review as completed: you have found out that they did run."""
    _act(ctx, queue_core.confirm, **options)


@click.command()
@on_jobs
@click.pass_context
def close(ctx: click.Context, **options: Any) -> None:  # noqa: ANN401
    """Cancel jobs in review: they are never to run, whatever their last run did."""
    _act(ctx, queue_core.close, **options)


def _act(
    ctx: click.Context,
    verb: Change,
    *,
    ids: Sequence[UUID],
    seen_state: State | None,
    seen_attempt: int | None,
    **signature: Any,  # noqa: ANN401 - who, why and beside what, checked by Signature
) -> None:
    """Act on the jobs that the act applies to, say what came of each, exit 1 if any was refused."""
    seen = saw(ids, seen_state, seen_attempt)
    with connections.signing(signature["by"]) as conn:
        outcomes = verb(conn, ids, seen=seen, via=via(), **signature)
        lines = [f"{outcome.job_id}  {told(conn, outcome)}" for outcome in outcomes]
    for line in lines:
        say(line)
    if not all(outcome.applied for outcome in outcomes):
        ctx.exit(REFUSED)


def saw(ids: Sequence[UUID], state: State | None, attempt: int | None) -> Seen | None:
    """Return what was seen of every job: state and attempt, or nothing at all."""
    if (state is None) != (attempt is None):
        raise Mistake("--seen-state and --seen-attempt go together: what was seen of each job")
    return None if state is None or attempt is None else dict.fromkeys(ids, (state, attempt))


def told(conn: AnyConnection, outcome: ActOutcome) -> str:
    """Say what came of an act on one job."""
    now = f"{outcome.state}, attempt {outcome.attempt}"
    if outcome.applied:
        return f"{outcome.act} (act {outcome.act_id}): now {now}"
    if outcome.state is None:
        return f"not {outcome.act}: there is no such job"
    return f"not {outcome.act}: {_why(conn, outcome)}: it is {now}"


def _why(conn: AnyConnection, outcome: ActOutcome) -> str:
    if outcome.why == "not_found":
        return "what was asked for is gone, so it cannot run again"
    if outcome.why == "already_asked":
        asked = [act for act in acts_of(conn, outcome.job_id) if act.act == "cancel_requested"]
        return (
            f"asked already by {asked[-1].by} at {shown(asked[-1].at)}"
            if asked
            else "asked already"
        )
    return str(outcome.why).replace("_", " ")
