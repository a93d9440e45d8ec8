"""Forms that came when their session had lapsed or changed; nothing that was typed is lost."""

from typing import Final
from uuid import UUID

from flask import Flask, g, redirect, request, url_for
from flask_wtf.csrf import CSRFError
from werkzeug.exceptions import Unauthorized
from werkzeug.wrappers import Response

from console import refusals
from console.forms.sign_in import Kept, SignInForm
from console.security import here
from console.views import jobs, sign_in

ACTS: Final = frozenset({"jobs.cancel", "jobs.retry", "jobs.release"})
TRY_AGAIN: Final = "The form had been open for too long, or cookies are off. Please try again."

Answer = Response | str | tuple[str, int] | tuple[str, int, dict[str, str]]


def init_app(app: Flask) -> None:
    """Answer what came without a session, or without its token."""
    app.register_error_handler(Unauthorized, needs_sign_in)
    app.register_error_handler(CSRFError, stale_token)


def needs_sign_in(_: Unauthorized) -> Answer:
    """Send whoever opened a page to sign in first; keep what somebody sent by a form."""
    if request.method != "POST":
        return redirect(url_for("sign_in.show", next=here()), 303)
    form = SignInForm()
    fault = "You are no longer signed in. Nothing was done."
    kept = _kept() if request.endpoint in ACTS else None
    if kept:
        fault += " What you typed is kept: sign in, look again, then press the button."
    return sign_in.page(form, fault, kept), 401


def stale_token(error: CSRFError) -> Answer:
    """Show the form again, with what was typed and a token of today."""
    if request.endpoint in ACTS and g.who:
        return jobs.stale(_job_id(), _verb())
    if request.endpoint == "sign_in.enter":
        return sign_in.page(SignInForm(request.form), TRY_AGAIN), 400
    error.description = "The form came without the token of its page. Nothing was done."
    return refusals.of_http(error)


def _kept() -> Kept:
    names = ("operator_code", "reason", "note", "seen_state", "seen_attempt", "next")
    typed = {name: request.form.get(name, "") for name in names}
    return Kept(job_id=str(_job_id()), verb=_verb(), **typed)


def _job_id() -> UUID:
    return (request.view_args or {})["job_id"]


def _verb() -> str:
    return (request.endpoint or "").rpartition(".")[2]
