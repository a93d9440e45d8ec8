"""Acts on the jobs that were chosen in a list: one look at them, one signature, one commit."""

from typing import Final
from uuid import UUID, uuid4

from flask import Blueprint, abort, g, redirect, render_template, request, url_for
from werkzeug.wrappers import Response

from console import refusals, rights, selection, twice
from console.database import acting, reading
from console.drafts import CHOOSING, Draft
from console.forms.chosen import ChosenForm, joined
from console.forms.jobs import REASONS
from console.frame import frame
from console.refusals import Notice
from console.security import safe_next
from console.selection import MOST_IN_ADDRESS, Refusal
from queue_core.acts import Change
from queue_core.errors import ContendedError
from queue_core.queries.acts import ActRow, acts_of
from queue_core.queries.unseen import unseen
from queue_core.transitions import cancel as cancelling
from queue_core.transitions import close as closing
from queue_core.transitions import confirm as confirming
from queue_core.transitions import release as releasing
from queue_core.transitions import retry as retrying

pages = Blueprint("chosen", __name__, url_prefix="/jobs/chosen")

Answer = Response | tuple[str, int]

MOST_LOOKED_AT: Final = 20
"""Of the jobs that were left alone, to find out whether an earlier press did them."""
CONTENDED: Final = Notice(
    "Nothing was done: somebody else is changing some of these jobs at this moment",
    ("Press the button once more in a moment.",),
)


@pages.post("/")
def show() -> Answer:
    """Show the chosen jobs and what may be done to them; this writes nothing.

    A POST all the same: a thousand ids fit no address.
    """
    form = ChosenForm(request.form)
    form.jobs.data = joined(request.form.getlist("job"))
    form.operator_code.data = g.who.code
    if not form.jobs.validate(form, [ChosenForm.validate_jobs]) or not _offered(form):
        return _page(form, None, refusals.WRONG_FIELDS, 400)
    return _page(form)


@pages.post("/cancel")
def cancel() -> Answer:
    """Take queued jobs out of their queues; ask running ones to stop."""
    return _act("cancel", cancelling.cancel)


@pages.post("/retry")
def retry() -> Answer:
    """Give failed or cancelled jobs one more attempt each."""
    return _act("retry", retrying.retry)


@pages.post("/release")
def release() -> Answer:
    """Let jobs in review run again."""
    return _act("release", releasing.release)


@pages.post("/confirm")
def confirm() -> Answer:
    """Record that jobs in review did run."""
    return _act("confirm", confirming.confirm)


@pages.post("/close")
def close() -> Answer:
    """Take jobs out of review for good: they are never to run."""
    return _act("close", closing.close)


@pages.get("/<uuid:bulk_id>")
def result(bulk_id: UUID) -> Answer:
    """Show what came of an act on many jobs, and where they stand by now."""
    return _result(bulk_id, selection.read(request.args.get("refused")))


def again(draft: Draft, notice: Notice, status: int) -> Answer:
    """Show the jobs whose act a session that is over interrupted, with what had been typed."""
    form = ChosenForm(data=draft.fields)
    form.say_whose()
    return _page(form, None if draft.endpoint == CHOOSING else draft.verb, notice, status)


def _act(verb: str, change: Change) -> Answer:
    """Sign and do it in one commit, or show the jobs again with what was typed and why not."""
    form = ChosenForm(request.form)
    form.verb = verb
    form.unseen = _unseen(form)
    if not form.validate():
        return _page(form, verb, refusals.WRONG_FIELDS, 400)
    bulk_id, seen = uuid4(), form.seen()
    try:
        with acting() as conn:
            outcomes = change(conn, list(seen), **form.signature(), seen=seen, bulk_id=bulk_id)
    except ContendedError:
        return _page(form, verb, CONTENDED, 409)
    left_alone = selection.refused(outcomes)
    if len(left_alone) == len(outcomes):
        first = _first_press(form, left_alone)
        if first and first.bulk_id:
            twice.tell(first)
            there = url_for("chosen.result", bulk_id=first.bulk_id, next=form.way_back())
            return redirect(there, 303)
    if len(left_alone) == len(outcomes) or len(left_alone) > MOST_IN_ADDRESS:
        return _result(bulk_id, left_alone, form.way_back(), 409)
    kept = selection.written(left_alone) if left_alone else None
    back = form.way_back()
    there = url_for("chosen.result", bulk_id=bulk_id, refused=kept, next=back)
    return redirect(there, 303)


def _page(
    form: ChosenForm, verb: str | None = None, notice: Notice | None = None, status: int = 200
) -> Answer:
    """Show the chosen jobs; what was typed in `form` for `verb` stays there."""
    seen = form.seen()
    with reading() as conn:
        outside, found = frame(conn), selection.chosen(conn, seen)
        form.unseen = len(unseen(conn, seen)) if "release" in form.verbs() else 0
    page = render_template(
        "chosen/show.html",
        frame=outside,
        found=found,
        form=form.opened(),
        state=form.seen_state.data,
        offered=_offered(form) if found.jobs else [],
        typed_for=verb,
        notice=notice,
        reasons=REASONS,
    )
    return page, status


def _first_press(form: ChosenForm, left_alone: list[Refusal]) -> ActRow | None:
    """Return an act of the bulk that the same form began, where it was sent before."""
    chosen = form.chosen()
    with reading() as conn:
        for each in left_alone[:MOST_LOOKED_AT]:
            newest = acts_of(conn, each.id)[-1:]
            first = twice.first_press(
                newest[0] if newest else None, f"chosen.{form.verb}", form, chosen[each.id]
            )
            if first:
                return first
    return None


def _unseen(form: ChosenForm) -> int:
    """Count the chosen jobs that an act may let run beside a run that goes on."""
    if form.verb != "release":
        return 0
    with reading() as conn:
        return len(unseen(conn, form.chosen()))


def _result(
    bulk_id: UUID,
    left_alone: list[Refusal],
    back: str | None = None,
    status: int = 200,
) -> Answer:
    with reading() as conn:
        outside, found = frame(conn), selection.result(conn, bulk_id, left_alone)
    if found is None:
        abort(404, "No act of that bulk is found here. The ledger has every act.")
    page = render_template(
        "chosen/result.html",
        frame=outside,
        found=found,
        bulk_id=bulk_id,
        back=back or safe_next(request.args.get("next")),
    )
    return page, status


def _offered(form: ChosenForm) -> list[str]:
    """Name the acts that the state allows and that whoever looks may do."""
    verbs = () if form.jobs.errors else form.verbs()
    return [verb for verb in verbs if rights.may(g.who, f"chosen.{verb}")]
