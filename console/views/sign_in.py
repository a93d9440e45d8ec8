"""Signing in and out."""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Final

from flask import Blueprint, g, redirect, render_template, request, url_for
from werkzeug.wrappers import Response

from console import drafts, named, refusals, sessions
from console.drafts import Draft
from console.forms.sign_in import SignInForm
from console.refusals import Notice
from console.security import is_private, safe_next
from console.views import chosen, jobs, operators, queues, schedules
from queue_core.errors import OperatorRefusedError, TooManyTriesError

pages = Blueprint("sign_in", __name__)

UNKNOWN: Final = (
    "That code and password do not belong to an operator who may sign in. "
    "Type both again, or ask an admin for a new password."
)
FORMS_OF: Final[Mapping[str, Callable[[Draft, Notice, int], "Answer"]]] = MappingProxyType(
    {
        "jobs": jobs.again,
        "marks": jobs.again,
        "chosen": chosen.again,
        "queues": partial(named.again, queues.page),
        "schedules": partial(named.again, schedules.page),
        "operators": operators.again,
    }
)
"""By noun, what shows a form again that was sent while nobody was signed in."""

Answer = Response | str | tuple[str, int] | tuple[str, int, dict[str, str]]


@pages.get("/sign-in")
def show() -> Answer:
    """Show the form, or go on where somebody is signed in already."""
    way_on = safe_next(request.args.get("next"))
    if g.who:
        return redirect(way_on or url_for("overview.show"), 303)
    return page(SignInForm(data={"next": way_on})), 200


@pages.post("/sign-in")
def enter() -> Answer:
    """Sign in; go on to where the person wanted to go, or back to an interrupted form."""
    form = SignInForm(request.form)
    if not is_private():
        return page(form), 403
    try:
        sessions.begin(form.code.data or "", form.password.data or "")
    except OperatorRefusedError:
        return page(form, UNKNOWN), 400
    except TooManyTriesError as error:
        wait = str(int(error.seconds) + 1)
        return page(form, f"Too many tries: wait {wait} seconds."), 429, {"Retry-After": wait}
    draft = drafts.read(form.kept.data)
    if draft:
        return again(draft, refusals.RESUMED)
    return redirect(form.way_on() or url_for("overview.show"), 303)


def again(draft: Draft, notice: Notice, status: int = 200) -> Answer:
    """Show a form that was interrupted on its page as it is now; a page that is none repeats it."""
    g.typed = draft.fields
    return FORMS_OF[draft.noun](draft, notice, status)


@pages.post("/sign-out")
def leave() -> Response:
    """End the session, for every copy of its cookie."""
    sessions.end()
    return redirect(url_for("sign_in.show"), 303)


def page(form: SignInForm, fault: str | None = None, draft: Draft | None = None) -> str:
    """Return the sign-in page; `draft` is what the person had typed elsewhere."""
    if draft:
        form.kept.data = draft.signed()
    return render_template("sign_in/show.html", form=form, fault=fault, private=is_private())
