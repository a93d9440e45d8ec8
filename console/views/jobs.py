"""Jobs: the list, one job, and the acts on it."""

from dataclasses import dataclass, field
from functools import partial
from uuid import UUID

from flask import Blueprint, abort, flash, g, redirect, render_template, request, url_for
from werkzeug.wrappers import Response

from console import refusals, rights, twice
from console.database import Connection, acting, reading
from console.dossier import Dossier, dossier
from console.drafts import Draft
from console.filters import SIZES, job_filter
from console.forms.jobs import REASONS, ActForm
from console.frame import frame
from console.listing import Listing, choosable, counted, listed
from console.pagination import place
from console.refusals import Notice
from console.rows import Narrowing, Once
from console.security import safe_next
from console.twice import PressedTwiceError
from queue_core.acts import ActOutcome, Change
from queue_core.errors import ContendedError
from queue_core.queries.acts import acts_of
from queue_core.queries.fitting import FIELDS
from queue_core.queries.jobs import WINDOW
from queue_core.queries.unseen import unseen
from queue_core.states import MARKS
from queue_core.transitions import cancel as cancelling
from queue_core.transitions import close as closing
from queue_core.transitions import confirm as confirming
from queue_core.transitions import release as releasing
from queue_core.transitions import retry as retrying

pages = Blueprint("jobs", __name__, url_prefix="/jobs")

Answer = Response | tuple[str, int]


@pages.get("/")
def index() -> Answer:
    """List the jobs of one state, filtered, a page at a time; a whole id leads to its job."""
    wanted, at = job_filter(request.args), place(request.args)
    if wanted.of_errors and not rights.may(g.who, rights.SEE_ERRORS):
        abort(403, "Your role sees no errors, so it cannot look for them either.")
    if job_id := wanted.asked_id():
        return redirect(url_for("jobs.show", job_id=job_id), 303)
    faults = wanted.faults()
    with reading() as conn:
        outside = frame(conn)
        numbers = {} if faults else counted(conn, wanted)
        listing = Listing() if faults else listed(conn, wanted, at)
    page = render_template(
        "jobs/index.html",
        frame=outside,
        wanted=wanted,
        faults=faults,
        fields=FIELDS,
        sizes=SIZES,
        numbers=numbers,
        listing=listing,
        choosable=choosable,
        narrowing=Narrowing(wanted),
        once=Once(),
        window=WINDOW,
        at=at.query(),
        here=url_for("jobs.index", **wanted.query(**at.query())),
        ticked=request.args.get("tick") == "all",
    )
    return page, 400 if faults else 503 if listing.too_slow else 200


@pages.get("/<uuid:job_id>")
def show(job_id: UUID) -> Answer:
    """Show one job: its state, its life, who did what to it, and what may be done now."""
    return page(job_id)


@pages.post("/<uuid:job_id>/cancel")
def cancel(job_id: UUID) -> Answer:
    """Take a queued job out of its queue; ask a running one to stop."""
    form = ActForm(request.form)
    change = partial(cancelling.cancel, kill_after=form.kill_seconds())
    return act(job_id, "cancel", form, change)


@pages.post("/<uuid:job_id>/retry")
def retry(job_id: UUID) -> Answer:
    """Give a failed or cancelled job one more attempt."""
    return _done(job_id, "retry", retrying.retry)


@pages.post("/<uuid:job_id>/release")
def release(job_id: UUID) -> Answer:
    """Let a job in review run again."""
    return _done(job_id, "release", releasing.release)


@pages.post("/<uuid:job_id>/confirm")
def confirm(job_id: UUID) -> Answer:
    """Record that a job in review did run."""
    return _done(job_id, "confirm", confirming.confirm)


@pages.post("/<uuid:job_id>/close")
def close(job_id: UUID) -> Answer:
    """Take a job out of review for good: it is never to run."""
    return _done(job_id, "close", closing.close)


def again(draft: Draft, notice: Notice, status: int) -> Answer:
    """Show the job whose act a session that is over interrupted, with what had been typed."""
    form = ActForm(data=draft.fields)
    form.say_whose()
    return page(draft.job(), form, draft.verb, notice, status)


def _done(job_id: UUID, verb: str, change: Change) -> Answer:
    return act(job_id, verb, ActForm(request.form), change)


def act(job_id: UUID, verb: str, form: ActForm, change: Change) -> Answer:
    """Sign and do it, and go back with a word of it; see `sign`."""
    outcome = sign(job_id, verb, form, change)
    if not isinstance(outcome, ActOutcome):
        return outcome
    flash(f"{outcome.act} {outcome.act_id} {job_id}", "act")
    return _back(job_id, form)


def sign(job_id: UUID, verb: str, form: ActForm, change: Change) -> ActOutcome | Answer:
    """Sign and do it, or show the job again with the reason why not and all that was typed."""
    form.verb = verb
    if verb == "release":
        with reading() as conn:
            form.unseen = unseen(conn, [job_id]).get(job_id)
    if not form.validate():
        return page(job_id, form, verb, refusals.WRONG_FIELDS, 400)
    try:
        with acting() as conn:
            (outcome,) = change(conn, [job_id], **form.signature(), seen=form.seen(job_id))
            _require_one_press(conn, job_id, form, outcome)
    except ContendedError:
        return page(job_id, form, verb, refusals.CONTENDED, 409)
    except PressedTwiceError as error:
        twice.tell(error.first)
        return _back(job_id, form)
    if not outcome.applied:
        status = 404 if outcome.why == "not_found" else 409
        return page(job_id, form, verb, refusals.refused(verb, outcome, form), status)
    return outcome


def _require_one_press(conn: Connection, job_id: UUID, form: ActForm, outcome: ActOutcome) -> None:
    """Raise PressedTwiceError where the same form was sent before. To look again is a new act."""
    if form.verb == "reveal" or (outcome.applied and form.verb not in MARKS):
        return
    endpoint, attempt = f"{_noun(form.verb)}.{form.verb}", int(form.seen_attempt.data or 0)
    signed = acts_of(conn, job_id)
    if outcome.applied:
        twice.require_one_press(signed, endpoint, form, attempt)
        return
    first = twice.first_press(signed[-1] if signed else None, endpoint, form, attempt)
    if first:
        raise PressedTwiceError(first)


def _noun(verb: str) -> str:
    return "marks" if verb in MARKS else "jobs"


def _back(job_id: UUID, form: ActForm) -> Response:
    return redirect(form.way_back() or url_for("jobs.show", job_id=job_id), 303)


@dataclass(frozen=True, slots=True)
class Revealed:
    """A job's arguments, masked, by the act that reveals them; None where they are no JSON."""

    act_id: int
    text: str | None = field(repr=False)


def page(  # noqa: PLR0917 - what a page can be asked to say beside the job
    job_id: UUID,
    form: ActForm | None = None,
    verb: str | None = None,
    notice: Notice | None = None,
    status: int = 200,
    revealed: Revealed | None = None,
) -> Answer:
    """Show a job; what was typed in `form` for `verb` stays there, where that is still legal."""
    with reading() as conn:
        outside, found = frame(conn), dossier(conn, job_id)
    if found is None:
        abort(404)
    form = form or ActForm(data={"next": safe_next(request.args.get("next"))})
    html = render_template(
        "jobs/show.html",
        frame=outside,
        dossier=found,
        job=found.job,
        moved_on=refusals.has_moved_on(form, found),
        form=form.opened_for(found.job, found.unseen),
        offered=_offered(found),
        typed_for=verb,
        chosen=verb or request.args.get("form"),
        notice=notice,
        reasons=REASONS,
        revealed=revealed,
    )
    return html, status


def _offered(found: Dossier) -> list[str]:
    """Name the acts that the job allows and that whoever looks may do."""
    moving = [verb for verb in found.verbs if rights.may(g.who, f"jobs.{verb}")]
    return moving + [verb for verb in found.marks if rights.may(g.who, f"marks.{verb}")]
