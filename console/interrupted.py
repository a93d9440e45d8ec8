"""Forms that came when their session had lapsed or changed; nothing that was typed is lost."""

from contextlib import suppress
from typing import Final

from flask import Flask, g, redirect, request, url_for
from flask_wtf.csrf import CSRFError
from werkzeug.exceptions import HTTPException, Unauthorized
from werkzeug.wrappers import Response

from console import drafts, refusals
from console.forms.sign_in import SignInForm
from console.host import host
from console.security import here
from console.views import sign_in

TRY_AGAIN: Final = "The form had been open for too long, or cookies are off. Please try again."
LAPSED: Final = "You are no longer signed in. Nothing was done."
KEPT: Final = "What you typed is kept: sign in, look again, then press the button."

Answer = Response | str | tuple[str, int] | tuple[str, int, dict[str, str]]


def init_app(app: Flask) -> None:
    """Answer what came without a session, or without its token."""
    app.register_error_handler(Unauthorized, needs_sign_in)
    app.register_error_handler(CSRFError, stale_token)


def needs_sign_in(error: Unauthorized) -> Answer:
    """Send whoever opened a page to sign in first; keep what somebody sent by a form.

    Where a host service signs people in, the page says so, and repeats what was typed.
    """
    if host():
        return refusals.of_http(error)
    if request.method != "POST":
        return redirect(url_for("sign_in.show", next=here()), 303)
    draft = drafts.of_request()
    form = SignInForm(data={"next": _way_on()})
    return sign_in.page(form, f"{LAPSED} {KEPT}" if draft else LAPSED, draft), 401


def stale_token(error: CSRFError) -> Answer:
    """Show the form again, with what was typed and a token of today."""
    draft = drafts.of_request()
    if draft and g.who:
        with suppress(HTTPException):  # what has no page is told below
            return sign_in.again(draft, refusals.STALE, 400)
    if request.endpoint == "sign_in.enter":
        return sign_in.page(SignInForm(request.form), TRY_AGAIN), 400
    error.description = (
        "The form does not come from a page of this session. Nothing was done. Open the page anew."
    )
    return refusals.of_http(error)


def _way_on() -> str | None:
    """Return where to go on after a sign-in that interrupted a form of one's own account."""
    return url_for("account.show") if request.blueprint == "account" else None
