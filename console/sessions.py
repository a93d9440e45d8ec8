"""The cookie side of sessions: which cookie, who it speaks for, how it begins and ends."""

from typing import Final

from flask import Flask, g, request, session
from flask.sessions import SecureCookieSessionInterface

from console import database
from console.host import host
from console.security import is_local
from queue_core import sessions

COOKIE: Final = "countersign"
SECURE_COOKIE: Final = "__Host-countersign"
"""Browsers take this name only with Secure, from this very host: nothing else can plant it."""
SECURE_COOKIE_UNDER_PREFIX: Final = "__Secure-countersign"
"""The other name is refused for a path below the root."""
_TOKEN: Final = "token"  # noqa: S105 - the name of a field
_WITHOUT_SESSION: Final = frozenset({"static", "health.alive", "health.ready", None})


class Cookies(SecureCookieSessionInterface):
    """One signed cookie, `Secure` wherever others could listen in."""

    def get_cookie_name(self, app: Flask) -> str:  # noqa: ARG002 - Flask's interface
        """Return the name that goes with the flag."""
        if not _secure():
            return COOKIE
        return SECURE_COOKIE_UNDER_PREFIX if request.root_path else SECURE_COOKIE

    def get_cookie_path(self, app: Flask) -> str:  # noqa: ARG002 - Flask's interface
        """Return where the console begins: nothing beside it gets the cookie."""
        return request.root_path or "/"

    def get_cookie_secure(self, app: Flask) -> bool:  # noqa: ARG002 - Flask's interface
        """Say whether the cookie is for https alone."""
        return _secure()


def init_app(app: Flask) -> None:
    """Set up the cookie of `app`."""
    app.session_interface = Cookies()
    app.config.update(
        SESSION_COOKIE_HTTPONLY=True,
        SESSION_COOKIE_SAMESITE="Lax",
        SESSION_COOKIE_DOMAIN=None,
    )


def resume() -> None:
    """Put into `g.who` whoever is there: None for nobody, or no longer.

    That is what the host service says, where it was asked to, else whoever the cookie speaks for.
    """
    g.who = None
    if request.endpoint in _WITHOUT_SESSION:
        return
    outside = host()
    if outside:
        g.who = outside.who()
        return
    token = session.get(_TOKEN)
    if isinstance(token, str):
        with database.session() as conn:
            g.who = sessions.resume(conn, token)


def begin(code: str, password: str) -> None:
    """Sign in, and put a new session in place of whatever the cookie held.

    Raises OperatorRefusedError and TooManyTriesError.
    """
    with database.session() as conn:
        new = sessions.sign_in(
            conn,
            code,
            password,
            address=request.remote_addr,
            agent=request.headers.get("User-Agent"),
        )
    session.clear()
    session[_TOKEN] = new.token
    g.who = sessions.Session(new.session, new.code, new.role)


def end() -> None:
    """Sign out here and everywhere this cookie was copied to."""
    with database.session() as conn:
        sessions.end(conn, g.who.id)
    session.clear()


def _secure() -> bool:
    return request.is_secure or not is_local()
