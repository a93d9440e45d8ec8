"""Who may do what: one table, read by the server, the templates and the tests."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from flask import Flask, abort, g, request

from queue_core.operators import ROLES, Role
from queue_core.sessions import Session

ANYBODY: Final = "anybody"
"""Signed in or not."""
SEE_ERRORS: Final = "see errors"
"""Error texts and tracebacks: they are for operators, since they can repeat a job's values."""

TABLE: Final[Mapping[str, Role | str]] = MappingProxyType(
    {
        "static": ANYBODY,
        "health.alive": ANYBODY,
        "health.ready": ANYBODY,
        "sign_in.show": ANYBODY,
        "sign_in.enter": ANYBODY,
        "sign_in.leave": "viewer",
        "overview.show": "viewer",
        "jobs.index": "viewer",
        "jobs.show": "viewer",
        "jobs.cancel": "operator",
        "jobs.retry": "operator",
        "jobs.release": "operator",
        SEE_ERRORS: "operator",
    }
)
"""The least role for each route, and for what pages show to some only."""


def may(who: Session | None, what: str) -> bool:
    """Say whether `who` may use the route, or see the part of a page, named `what`."""
    least = TABLE.get(what)
    if least is None or least == ANYBODY:
        return least == ANYBODY
    return who is not None and ROLES.index(who.role) >= ROLES.index(least)


def require_complete(app: Flask) -> None:
    """Refuse to serve an app with a route that the table does not know, or lacks one that it does.

    Raises LookupError, which names them.
    """
    routes = {rule.endpoint for rule in app.url_map.iter_rules()}
    wrong = sorted(routes ^ (set(TABLE) - {SEE_ERRORS}))
    if wrong:
        message = f"console/rights.py and the routes differ: {', '.join(wrong)}"
        raise LookupError(message)


def check() -> None:
    """Let the request through, or answer that it needs a sign-in (401) or another role (403)."""
    if request.endpoint is None or may(g.who, request.endpoint):
        return
    abort(401 if g.who is None else 403)
