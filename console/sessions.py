"""The cookie side of sessions: which cookie, who it speaks for, how it begins and ends."""

from typing import Final

from flask import Flask, g, request, session
from flask.sessions import SecureCookieSessionInterface

from console import database
from console.security import host_name, is_loopback
from queue_core import sessions

COOKIE: Final = "countersign"
SECURE_COOKIE: Final = "__Host-countersign"
"""Browsers take this name only with Secure, from this very host: nothing else can plant it."""
_TOKEN: Final = "token"  # noqa: S105 - the name of a field
_WITHOUT_SESSION: Final = frozenset({"static", "health.alive", "health.ready", None})


class Cookies(SecureCookieSessionInterface):
    """One signed cookie, `Secure` wherever others could listen in."""

    def get_cookie_name(self, app: Flask) -> str:  # noqa: ARG002 - Flask's interface
        """Return the name that goes with the flag."""
        return SECURE_COOKIE if _secure() else COOKIE

    def get_cookie_secure(self, app: Flask) -> bool:  # noqa: ARG002 - Flask's interface
        """Say whether the cookie is for https alone."""
        return _secure()


def init_app(app: Flask) -> None:
    """Set up the cookie of `app`."""
    app.session_interface = Cookies()
    app.config.update(
        SESSION_COOKIE_HTTPONLY=True,
        SESSION_COOKIE_SAMESITE="Lax",
        SESSION_COOKIE_PATH="/",
        SESSION_COOKIE_DOMAIN=None,
    )


def resume() -> None:
    """Put into `g.who` whoever the request's cookie speaks for: None for nobody, or no longer."""
    g.who = None
    token = session.get(_TOKEN) if request.endpoint not in _WITHOUT_SESSION else None
    if isinstance(token, str):
        with database.session() as conn:
            g.who = sessions.resume(conn, token)


def begin(code: str, password: str) -> None:
    """Sign in, and put a new session in place of whatever the cookie held.

    Raises OperatorRefusedError and TooManyTriesError.
    """
    with database.session() as conn:
        new = sessions.sign_in(conn, code, password, address=request.remote_addr)
    session.clear()
    session[_TOKEN] = new.token
    g.who = sessions.Session(new.session, new.code, new.role)


def end() -> None:
    """Sign out here and everywhere this cookie was copied to."""
    with database.session() as conn:
        sessions.end(conn, g.who.id)
    session.clear()


def _secure() -> bool:
    return request.is_secure or not is_loopback(host_name())
