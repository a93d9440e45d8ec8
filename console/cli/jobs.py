"""Looking at jobs: how many, which, and one with all that is known of it; never its arguments."""

from collections.abc import Iterator
from itertools import islice
from uuid import UUID

import click

from console.cli import connections
from console.cli.failures import Refusal
from console.cli.output import as_dict, say, say_json, say_table, shown
from queue_core.database import AnyConnection
from queue_core.jobs import check_name
from queue_core.queries import acts as act_queries
from queue_core.queries import counts as count_queries
from queue_core.queries import facts as fact_queries
from queue_core.queries import jobs as job_queries
from queue_core.queries import runs as run_queries
from queue_core.states import ENDED, STATES, State

MOST_LISTED = 10_000


@click.command()
@click.option("--json", "wants_json", is_flag=True, help="Print one JSON object.")
def counts(*, wants_json: bool) -> None:
    """Count the jobs in every state, exactly."""
    with connections.reading() as conn:
        found = as_dict(count_queries.counts(conn))
    if wants_json:
        say_json(found)
    else:
        say_table((name.replace("_", " "), number) for name, number in found.items())


@click.command()
@click.option("--state", type=click.Choice(STATES), help="Only jobs in this state.")
@click.option("--queue", help="Only jobs of this queue.")
@click.option("--name", help="Only jobs of this name.")
@click.option("--limit", type=click.IntRange(1, MOST_LISTED), default=50, show_default=True)
@click.option("--json", "wants_json", is_flag=True, help="Print one JSON object.")
def jobs(
    *, state: State | None, queue: str | None, name: str | None, limit: int, wants_json: bool
) -> None:
    """List jobs: those that need a person first, then in the order of their life."""
    for given, what in ((queue, "a queue's name"), (name, "a job's name")):
        if given is not None:
            check_name(given, what)
    with connections.reading() as conn:
        found = _listed(conn, (state,) if state else STATES, queue, name)
        rows = list(islice(found, limit))
        more = next(found, None) is not None
    if wants_json:
        say_json({"jobs": [as_dict(row) for row in rows], "more": more})
        return
    _tell(rows)
    if more:
        say(f"… and more: these are the first {limit}")


@click.command()
@click.argument("job_id", metavar="ID", type=click.UUID)
@click.option("--json", "wants_json", is_flag=True, help="Print one JSON object.")
def show(job_id: UUID, *, wants_json: bool) -> None:
    """Show one job: its facts, its runs that did not complete, and what people did to it."""
    with connections.reading() as conn:
        job = fact_queries.job(conn, job_id)
        runs = run_queries.runs_of(conn, job_id)
        acts = act_queries.acts_of(conn, job_id)
    if job is None and not acts:
        raise Refusal("there is no such job")
    if wants_json:
        facts = as_dict(job) if job else None
        say_json(
            {"job": facts, "runs": [as_dict(run) for run in runs], "acts": [*map(as_dict, acts)]}
        )
        return
    say_table(_facts(job).items() if job else [("job", "deleted by retention")])
    _tell_runs(runs)
    _tell_acts(acts)


def _facts(job: fact_queries.JobFacts) -> dict[str, object]:
    facts = as_dict(job)
    if job.confirmed_by:
        facts["state"] = f"{job.state} (confirmed by {job.confirmed_by})"
    return facts


def _listed(
    conn: AnyConnection, states: tuple[State, ...], queue: str | None, name: str | None
) -> Iterator[job_queries.JobRow]:
    for state in states:
        page = job_queries.list_jobs(conn, state, queue=queue, name=name, limit=job_queries.MOST)
        yield from page.rows
        while page.next:
            page = job_queries.list_jobs(
                conn, state, queue=queue, name=name, cursor=page.next, limit=job_queries.MOST
            )
            yield from page.rows


def _tell(rows: list[job_queries.JobRow]) -> None:
    if not rows:
        say("no jobs")
        return
    head = ("id", "state", "attempt", "name", "queue", "at", "error")
    say_table(
        [
            head,
            *(
                (row.id, _state(row), _attempt(row), row.name, row.queue, row.at, _first(row.error))
                for row in rows
            ),
        ]
    )


def _state(row: job_queries.JobRow) -> str:
    """Say of an ended job that it may have run in part; those in review all may."""
    return f"{row.state}, uncertain" if row.uncertain and row.state in ENDED else row.state


def _attempt(row: job_queries.JobRow) -> str:
    return f"{row.attempt}/{row.attempts_allowed}" if row.attempts_allowed else str(row.attempt)


def _first(error: str | None) -> str:
    """Return the first line of an error: a list has one line for a job."""
    return (error or "").partition("\n")[0][:80]


def _tell_runs(runs: list[run_queries.RunRow]) -> None:
    for run in runs:
        say(f"\nrun {run.attempt}: {run.outcome}")
        facts = as_dict(run)
        traceback = facts.pop("traceback")
        say_table((f"  {name}", value) for name, value in facts.items() if value is not None)
        for line in str(traceback or "").splitlines():
            say(f"    {shown(line)}")


def _tell_acts(acts: list[act_queries.ActRow]) -> None:
    if acts:
        say("\nacts")
        say_table(
            (f"  {shown(act.at)}", _told(act), act.by, act.reason, act.note, act.via)
            for act in acts
        )


def _told(act: act_queries.ActRow) -> str:
    return act.act if act.kill_after is None else f"{act.act}, kill after {act.kill_after} s"
