"""Who may do what, role by act by route: read by the server, the templates and the tests."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from flask import Flask, abort, g, request

from console.host import Guest, host
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
        "jobs.confirm": "operator",
        "jobs.close": "operator",
        "marks.assign": "operator",
        "marks.note": "operator",
        "marks.reveal": "operator",
        "review.index": "viewer",
        "chosen.show": "operator",
        "chosen.cancel": "operator",
        "chosen.retry": "operator",
        "chosen.release": "operator",
        "chosen.confirm": "operator",
        "chosen.close": "operator",
        "chosen.result": "viewer",
        "ledger.index": "viewer",
        "ledger.show": "viewer",
        "ledger.export": "viewer",
        "ledger.handover": "viewer",
        "workers.index": "viewer",
        "workers.show": "viewer",
        "queues.index": "viewer",
        "queues.show": "viewer",
        "queues.pause": "operator",
        "queues.resume": "operator",
        "schedules.index": "viewer",
        "schedules.show": "viewer",
        "schedules.pause": "operator",
        "schedules.resume": "operator",
        "schedules.run_now": "operator",
        "handlers.index": "viewer",
        "handlers.show": "viewer",
        "operators.index": "admin",
        "operators.show": "admin",
        "operators.add": "admin",
        "operators.change_role": "admin",
        "operators.disable": "admin",
        "operators.reset": "admin",
        "account.show": "viewer",
        "account.change_password": "viewer",
        "account.end_session": "viewer",
        "account.end_other_sessions": "viewer",
        SEE_ERRORS: "operator",
    }
)
"""The least role for each route, and for what pages show to some only."""
SIGNS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "jobs.cancel": ("cancelled", "cancel_requested"),
        "jobs.retry": ("retried",),
        "jobs.release": ("released",),
        "jobs.confirm": ("confirmed",),
        "jobs.close": ("closed",),
        "chosen.cancel": ("cancelled", "cancel_requested"),
        "chosen.retry": ("retried",),
        "chosen.release": ("released",),
        "chosen.confirm": ("confirmed",),
        "chosen.close": ("closed",),
        "marks.assign": ("assigned",),
        "marks.note": ("noted",),
        "marks.reveal": ("revealed",),
        "queues.pause": ("paused",),
        "queues.resume": ("resumed",),
        "schedules.pause": ("paused",),
        "schedules.resume": ("resumed",),
        "schedules.run_now": ("run_now",),
        "operators.add": ("added",),
        "operators.change_role": ("role_changed",),
        "operators.disable": ("disabled",),
        "operators.reset": ("password_reset",),
    }
)
"""The acts that a form's route leaves in the ledger: who may use the route may sign them."""
SIGNS_NOTHING: Final = frozenset(
    {
        "sign_in.enter",
        "sign_in.leave",
        "chosen.show",
        "account.change_password",
        "account.end_session",
        "account.end_other_sessions",
    }
)
"""Forms that change nothing but whoever sends them, or nothing at all."""


OWN_SIGN_IN: Final = frozenset(
    route for route in TABLE if route.startswith(("sign_in.", "account.", "operators."))
)
"""What is not there where a host service says who is signed in."""


NOT_OURS: Final = (
    "The service that this console is part of says who signs in and what they may do. Operators, "
    "passwords and sessions are looked after there."
)


def may(who: Session | Guest | None, what: str) -> bool:
    """Say whether `who` may use the route, or see the part of a page, named `what`."""
    if isinstance(who, Guest) and what in OWN_SIGN_IN:
        return False
    least = TABLE.get(what)
    if least is None or least == ANYBODY:
        return least == ANYBODY
    return who is not None and ROLES.index(who.role) >= ROLES.index(least)


def least(act: str) -> Role | None:
    """Return the least role that may sign an act here; None for one that no page offers."""
    roles = {TABLE[route] for route, acts in SIGNS.items() if act in acts}
    return next((role for role in ROLES if role in roles), None)


def require_complete(app: Flask) -> None:
    """Refuse to serve an app with a route that the tables do not know, or lacks one that they do.

    A form's route has its acts in SIGNS, or stands in SIGNS_NOTHING. Raises LookupError, which
    names them.
    """
    rules = list(app.url_map.iter_rules())
    routes = {rule.endpoint for rule in rules}
    posted = {rule.endpoint for rule in rules if "POST" in (rule.methods or ())}
    wrong = sorted((routes ^ (set(TABLE) - {SEE_ERRORS})) | (posted ^ {*SIGNS, *SIGNS_NOTHING}))
    if wrong:
        message = f"console/rights.py and the routes differ: {', '.join(wrong)}"
        raise LookupError(message)


def check() -> None:
    """Let the request through, or answer that it needs a sign-in (401) or another role (403)."""
    if request.endpoint in OWN_SIGN_IN and host():
        abort(404, NOT_OURS)
    if request.endpoint is None or may(g.who, request.endpoint):
        return
    abort(401 if g.who is None else 403)
