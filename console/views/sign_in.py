"""Signing in and out."""

from flask import Blueprint, g, redirect, render_template, request, url_for
from werkzeug.wrappers import Response

from console import sessions
from console.forms import sign_in as forms
from console.forms.sign_in import Kept, SignInForm
from console.security import is_private, safe_next
from console.views import jobs
from queue_core.errors import OperatorRefusedError, TooManyTriesError

pages = Blueprint("sign_in", __name__)

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
        return page(
            form, "That code and password do not belong to an operator who may sign in."
        ), 400
    except TooManyTriesError as error:
        wait = str(int(error.seconds) + 1)
        return page(form, f"Too many tries: wait {wait} seconds."), 429, {"Retry-After": wait}
    kept = forms.read(form.kept.data)
    if kept:
        return jobs.resumed(kept)
    return redirect(form.way_on() or url_for("overview.show"), 303)


@pages.post("/sign-out")
def leave() -> Response:
    """End the session, for every copy of its cookie."""
    sessions.end()
    return redirect(url_for("sign_in.show"), 303)


def page(form: SignInForm, fault: str | None = None, kept: Kept | None = None) -> str:
    """Return the sign-in page; `kept` is what the person had typed elsewhere."""
    if kept:
        form.kept.data = kept.signed()
    return render_template("sign_in/show.html", form=form, fault=fault, private=is_private())
