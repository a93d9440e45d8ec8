"""Jobs: the list, one job, and the acts on it."""

from dataclasses import dataclass, field
from typing import Protocol
from uuid import UUID

from flask import Blueprint, abort, flash, redirect, render_template, request, url_for
from werkzeug.wrappers import Response

from console import refusals
from console.database import Connection, TookTooLongError, acting, part, reading
from console.dossier import dossier
from console.filters import JobFilter, job_filter
from console.forms.jobs import REASONS, ActForm
from console.forms.sign_in import Kept
from console.frame import frame
from console.pagination import Place, beside, place
from console.refusals import Notice
from console.security import here, safe_next
from queue_core.acts import ActOutcome
from queue_core.errors import ContendedError
from queue_core.queries import counts, jobs
from queue_core.queries.jobs import JobRow
from queue_core.states import State
from queue_core.transitions import cancel as cancelling
from queue_core.transitions import release as releasing
from queue_core.transitions import retry as retrying

pages = Blueprint("jobs", __name__, url_prefix="/jobs")

Answer = Response | tuple[str, int]


@dataclass(frozen=True, slots=True)
class Listing:
    """A page of a list; `too_slow` where reading it took more than its 3 seconds."""

    rows: list[JobRow] = field(default_factory=list[JobRow])
    beside: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    too_slow: bool = False


@pages.get("/")
def index() -> Answer:
    """List the jobs of one state, filtered, a page at a time."""
    wanted, at = job_filter(request.args), place(request.args)
    faults = wanted.faults()
    with reading() as conn:
        outside = frame(conn)
        tabs = {} if faults else _counted(conn, wanted)
        listing = Listing() if faults else _listed(conn, wanted, at)
    page = render_template(
        "jobs/index.html",
        frame=outside,
        wanted=wanted,
        faults=faults,
        counts=tabs,
        cap=counts.CAP,
        listing=listing,
        here=here(),
    )
    return page, 400 if faults else 503 if listing.too_slow else 200


@pages.get("/<uuid:job_id>")
def show(job_id: UUID) -> Answer:
    """Show one job: its state, its life, who did what to it, and what may be done now."""
    return _page(job_id)


class Change(Protocol):
    """A transition that a person signs."""

    def __call__(  # noqa: D102 - as the transitions say
        self,
        conn: Connection,
        ids: list[UUID],
        /,
        *,
        by: str,
        reason: str,
        note: str | None,
        seen: dict[UUID, tuple[str, int]],
        via: str,
    ) -> list[ActOutcome]: ...


@pages.post("/<uuid:job_id>/cancel")
def cancel(job_id: UUID) -> Answer:
    """Take a queued job out of its queue; ask a running one to stop."""
    return _act(job_id, "cancel", cancelling.cancel)


@pages.post("/<uuid:job_id>/retry")
def retry(job_id: UUID) -> Answer:
    """Give a failed or cancelled job one more attempt."""
    return _act(job_id, "retry", retrying.retry)


@pages.post("/<uuid:job_id>/release")
def release(job_id: UUID) -> Answer:
    """Let a job in review run again."""
    return _act(job_id, "release", releasing.release)


def resumed(kept: Kept) -> Answer:
    """Show the job whose act a lapsed session interrupted, with what had been typed."""
    form = ActForm(data=kept.typed())
    form.say_whose()
    return _page(kept.job(), form, kept.verb, refusals.RESUMED)


def stale(job_id: UUID, verb: str) -> Answer:
    """Show the job again to whoever sent a form with the token of an earlier session."""
    form = ActForm(request.form)
    form.say_whose()
    return _page(job_id, form, verb, refusals.STALE, 400)


def _act(job_id: UUID, verb: str, change: Change) -> Answer:
    """Sign and do it, or show the job again with the reason why not and all that was typed."""
    form = ActForm(request.form)
    if not form.validate():
        return _page(job_id, form, verb, refusals.WRONG_FIELDS, 400)
    try:
        with acting() as conn:
            (outcome,) = change(conn, [job_id], **form.signature(), seen=form.seen(job_id))
    except ContendedError:
        return _page(job_id, form, verb, refusals.CONTENDED, 409)
    if not outcome.applied:
        status = 404 if outcome.why == "not_found" else 409
        return _page(job_id, form, verb, refusals.refused(verb, outcome, form), status)
    flash(f"{outcome.act} {outcome.act_id} {job_id}", "act")
    return redirect(form.way_back() or url_for("jobs.show", job_id=job_id), 303)


def _page(
    job_id: UUID,
    form: ActForm | None = None,
    verb: str | None = None,
    notice: Notice | None = None,
    status: int = 200,
) -> Answer:
    """Show a job; what was typed in `form` for `verb` stays there, where that is still legal."""
    with reading() as conn:
        outside, found = frame(conn), dossier(conn, job_id)
    if found is None:
        abort(404)
    form = form or ActForm(data={"next": safe_next(request.args.get("next"))})
    page = render_template(
        "jobs/show.html",
        frame=outside,
        dossier=found,
        job=found.job,
        moved_on=refusals.has_moved_on(form, found),
        form=form.opened_for(found.job),
        typed_for=verb,
        notice=notice,
        reasons=REASONS,
    )
    return page, status


def _counted(conn: Connection, wanted: JobFilter) -> dict[State, int]:
    """Count for the tabs; where that takes too long they have no numbers, and the list stays."""
    try:
        with part(conn):
            return counts.capped_counts(conn, queue=wanted.queue, name=wanted.name)
    except TookTooLongError:
        return {}


def _listed(conn: Connection, wanted: JobFilter, at: Place) -> Listing:
    try:
        with part(conn):
            page = jobs.list_jobs(
                conn,
                wanted.state,
                queue=wanted.queue,
                name=wanted.name,
                cursor=at.cursor,
                direction=at.direction,
            )
    except TookTooLongError:
        return Listing(too_slow=True)
    return Listing(page.rows, beside(page))
