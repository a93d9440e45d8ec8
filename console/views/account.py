"""One's own account: the password, and the sessions that are open."""

from uuid import UUID

from flask import Blueprint, flash, g, redirect, render_template, request, url_for
from werkzeug.wrappers import Response

from console.database import reading, session
from console.forms.account import PasswordForm
from console.frame import frame
from queue_core import account
from queue_core.account import WRONG_PRESENT
from queue_core.errors import ContendedError, OperatorRefusedError, TooManyTriesError
from queue_core.queries.sessions import open_sessions
from queue_core.sessions import ABSOLUTE_SECONDS, IDLE_SECONDS

pages = Blueprint("account", __name__, url_prefix="/account")

Answer = Response | tuple[str, int] | tuple[str, int, dict[str, str]]


@pages.get("/")
def show() -> Answer:
    """Show who is signed in, and where."""
    return _page(PasswordForm())


@pages.post("/password")
def change_password() -> Answer:
    """Change one's own password; every other session of one's own ends."""
    form = PasswordForm(request.form)
    if not form.validate():
        return _page(form, 400)
    try:
        with session() as conn:
            ended = account.change_password(
                conn,
                g.who.id,
                form.present.data or "",
                form.new.data or "",
                address=request.remote_addr,
            )
    except TooManyTriesError as error:
        wait = str(int(error.seconds) + 1)
        form.present.errors = [f"Too many tries: wait {wait} seconds."]
        return *_page(form, 429), {"Retry-After": wait}
    except ContendedError:
        form.present.errors = ["An admin is changing operators at this moment. Try again."]
        return _page(form, 409)
    except OperatorRefusedError as error:
        field = form.present if str(error) == WRONG_PRESENT else form.new
        field.errors = [f"Nothing was done: {error}."]
        return _page(form, 400)
    flash(f"Your password has changed. {_ended(ended)}", "account")
    return _back()


@pages.post("/sessions/end")
def end_session() -> Answer:
    """End another session of one's own."""
    other = _uuid(request.form.get("session"))
    if other is None or other == g.who.id:
        return _page(PasswordForm(), 400)
    with session() as conn:
        done = account.end_session(conn, g.who.id, other)
    flash("That session has ended." if done else "That session was over already.", "account")
    return _back()


@pages.post("/sessions/end-others")
def end_other_sessions() -> Answer:
    """End all sessions of one's own but this one."""
    with session() as conn:
        ended = account.end_other_sessions(conn, g.who.id)
    flash(_ended(ended), "account")
    return _back()


def _ended(count: int) -> str:
    if not count:
        return "No other session was open."
    return f"{count:,} other {'session has' if count == 1 else 'sessions have'} ended."


def _back() -> Response:
    return redirect(url_for("account.show"), 303)


def _uuid(text: str | None) -> UUID | None:
    try:
        return UUID(text or "")
    except ValueError:
        return None


def _page(form: PasswordForm, status: int = 200) -> tuple[str, int]:
    with reading() as conn:
        page = render_template(
            "account/show.html",
            frame=frame(conn),
            form=form,
            sessions=open_sessions(conn, g.who.code, idle=IDLE_SECONDS, absolute=ABSOLUTE_SECONDS),
        )
    return page, status
