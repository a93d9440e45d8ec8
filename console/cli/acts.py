"""Acting on jobs from the command line: every act is signed by an enabled operator."""

from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

import click

import queue_core
from console.cli import connections, declared, given
from console.cli.failures import REFUSED
from console.cli.output import say, shown
from console.cli.signature import noted, signed, via
from queue_core.acts import ActOutcome
from queue_core.database import AnyConnection, transaction
from queue_core.operators import require_enabled
from queue_core.queries.acts import acts_of

Verb = Callable[..., Sequence[ActOutcome]]


@click.command()
@click.argument("name")
@click.option("--args", callback=given.by_standard_input, help="-: read a JSON object from stdin.")
@click.option("--jobs", required=True, metavar="MODULE[:REGISTRY]", help="What declares the job.")
@signed
@noted
@click.option("--queue", help="Another queue than the job's own.")
@click.option("--priority", type=int, default=0, help="-32768 to 32767; higher runs first.")
@click.option("--delay", type=float, help="Seconds from now until it may run.")
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
    with connections.acting() as conn, transaction(conn):
        require_enabled(conn, by, role="operator")
        made = queue_core.enqueue_signed(conn, job, by=by, reason=reason, note=note, via=via())
    say(str(made.id))


@click.command()
@click.argument("ids", nargs=-1, required=True, type=click.UUID, metavar="ID…")
@signed
@noted
@click.pass_context
def cancel(ctx: click.Context, ids: tuple[UUID, ...], **signature: Any) -> None:  # noqa: ANN401
    """End queued jobs, and ask running ones to stop."""
    _act(ctx, queue_core.cancel, ids, **signature)


@click.command()
@click.argument("ids", nargs=-1, required=True, type=click.UUID, metavar="ID…")
@signed
@noted
@click.pass_context
def retry(ctx: click.Context, ids: tuple[UUID, ...], **signature: Any) -> None:  # noqa: ANN401
    """Give failed or cancelled jobs one more attempt, due now."""
    _act(ctx, queue_core.retry, ids, **signature)


@click.command()
@click.argument("ids", nargs=-1, required=True, type=click.UUID, metavar="ID…")
@signed
@noted
@click.pass_context
def release(ctx: click.Context, ids: tuple[UUID, ...], **signature: Any) -> None:  # noqa: ANN401
    """Let jobs in review run again: their last run may have done its work in part."""
    _act(ctx, queue_core.release, ids, **signature)


def _act(
    ctx: click.Context, verb: Verb, ids: Sequence[UUID], *, by: str, reason: str, note: str | None
) -> None:
    """Act on the jobs that the act applies to, say what came of each, exit 1 if any was refused."""
    with connections.acting() as conn, transaction(conn):
        outcomes = _signed(conn, verb, ids, by=by, reason=reason, note=note)
        lines = [f"{outcome.job_id}  {_said(conn, outcome)}" for outcome in outcomes]
    for line in lines:
        say(line)
    if not all(outcome.applied for outcome in outcomes):
        ctx.exit(REFUSED)


def _signed(
    conn: AnyConnection, verb: Verb, ids: Sequence[UUID], *, by: str, reason: str, note: str | None
) -> Sequence[ActOutcome]:
    require_enabled(conn, by, role="operator")
    return verb(conn, ids, by=by, reason=reason, note=note, via=via())


def _said(conn: AnyConnection, outcome: ActOutcome) -> str:
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
