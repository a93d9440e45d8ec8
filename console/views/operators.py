"""Operators: who may sign in, what they may do, and whose sign-ins failed; for admins."""

from typing import Final

from flask import Blueprint, abort, flash, g, redirect, render_template, request, url_for
from werkzeug.wrappers import Response

from console import refusals, rights, twice
from console.database import Connection, acting, part, reading
from console.drafts import Draft
from console.forms.operators import REASONS, OperatorForm, ResetForm, RoleForm
from console.frame import frame
from console.refusals import Notice
from console.twice import PressedTwiceError
from queue_core import operators
from queue_core.errors import (
    ContendedError,
    CountersignError,
    NotACodeError,
    OperatorRefusedError,
    TookTooLongError,
)
from queue_core.queries import operators as people
from queue_core.queries import sign_ins
from queue_core.queries.acts import ActRow, acts_on
from queue_core.queries.operators import ROLES, OperatorRow
from queue_core.queries.sign_ins import FailureRow

pages = Blueprint("operators", __name__, url_prefix="/operators")

Answer = Response | tuple[str, int]

CONTENDED: Final = Notice(
    "Nothing was done: another admin is changing operators at this moment",
    ("Look at what it says now, then press the button once more.",),
)
ADDED: Final = Notice(
    "They were added already: this form was sent twice",
    (
        "The answer to the first time held their password, which is shown once.",
        "If you did not see it, open their page and reset the password.",
    ),
)
RESET: Final = Notice(
    "It was reset already: this form was sent twice",
    (
        "The answer to the first time held the new password, which is shown once.",
        "If you did not see it, reset it once more.",
    ),
)
OWN: Final = Notice(
    "Nothing was done: your own password is changed on the page of your account",
    ("It asks for the present one, so that nobody else who sits down here can change it.",),
)


@pages.get("/")
def index() -> Answer:
    """List every operator there ever was, and the sign-ins that failed lately."""
    return _list()


@pages.get("/one")
def show() -> Answer:
    """Show one operator, and what an admin may do about them."""
    return _one(request.args.get("code", ""))


@pages.post("/add")
def add() -> Answer:
    """Add an operator, and show their password, once."""
    form = RoleForm(request.form)
    if not form.validate():
        return _list(form, refusals.WRONG_FIELDS, 400)
    password = operators.random_password()
    try:
        with acting() as conn:
            act_id = operators.add(conn, _code(form), form.chosen(), password, **_signed(form))
    except (OperatorRefusedError, ContendedError) as error:
        done = _first_press("add", form, error)
        return _list(form, ADDED if done else _refused(error), 409)
    return _told_once("added", _code(form), password, act_id)


@pages.post("/role")
def change_role() -> Answer:
    """Give an operator another role."""
    form = RoleForm(request.form)
    if not form.validate():
        return _one(_code(form), form, "change_role", refusals.WRONG_FIELDS, 400)
    try:
        with acting() as conn:
            act_id = operators.change_role(conn, _code(form), form.chosen(), **_signed(form))
    except (OperatorRefusedError, ContendedError) as error:
        return _unless_done("change_role", form, error)
    return _done("role_changed", act_id)


@pages.post("/disable")
def disable() -> Answer:
    """Take an operator's right to sign in, for good."""
    form = OperatorForm(request.form)
    if not form.validate():
        return _one(_code(form), form, "disable", refusals.WRONG_FIELDS, 400)
    try:
        with acting() as conn:
            act_id = operators.disable(conn, _code(form), **_signed(form))
    except (OperatorRefusedError, ContendedError) as error:
        return _unless_done("disable", form, error)
    return _done("disabled", act_id)


@pages.post("/reset")
def reset() -> Answer:
    """Give an operator a new password, show it once, and end their sessions."""
    form = ResetForm(request.form)
    if not form.validate():
        return _one(_code(form), form, "reset", refusals.WRONG_FIELDS, 400)
    if _code(form) == g.who.code:
        return _one(_code(form), form, "reset", OWN, 409)
    password = operators.random_password()
    try:
        with acting() as conn:
            act_id = operators.reset_password(conn, _code(form), password, **_signed(form))
            _require_one_reset(conn, form)
    except (OperatorRefusedError, ContendedError) as error:
        return _one(_code(form), form, "reset", _refused(error), 409)
    except PressedTwiceError:
        return _one(_code(form), form, "reset", RESET, 409)
    return _told_once("password_reset", _code(form), password, act_id)


def again(draft: Draft, notice: Notice, status: int) -> Answer:
    """Show the form that a session that is over interrupted, with what had been typed."""
    if not rights.may(g.who, draft.endpoint):
        abort(403)
    form = RoleForm(data=draft.fields)
    form.say_whose()
    if draft.verb == "add":
        return _list(form, notice, status)
    return _one(_code(form), form, draft.verb, notice, status)


def _unless_done(verb: str, form: OperatorForm, error: CountersignError) -> Answer:
    """Say why nothing was done; or that it was, where the same form was sent before."""
    first = _first_press(verb, form, error)
    if first:
        twice.tell(first)
        return redirect(url_for("operators.index"), 303)
    return _one(_code(form), form, verb, _refused(error), 409)


def _require_one_reset(conn: Connection, form: ResetForm) -> None:
    """Raise PressedTwiceError where the same form was acted on before, since it was opened."""
    *_, before = acts_on(conn, "operator", _code(form), limit=2)
    if before.id > form.seen() and twice.first_press(before, "operators.reset", form):
        raise PressedTwiceError(before)


def _first_press(verb: str, form: OperatorForm, error: CountersignError) -> ActRow | None:
    if isinstance(error, ContendedError):
        return None
    with reading() as conn:
        newest = acts_on(conn, "operator", _code(form), limit=1)
    return twice.first_press(newest[0] if newest else None, f"operators.{verb}", form)


def _code(form: OperatorForm) -> str:
    return form.code.data or ""


def _signed(form: OperatorForm) -> dict[str, str]:
    """Return who signs and why, as these acts take it: without a note."""
    signature = form.signature()
    return {"by": signature["by"], "reason": signature["reason"], "via": signature["via"]}


def _refused(error: CountersignError) -> Notice:
    return CONTENDED if isinstance(error, ContendedError) else Notice(f"Nothing was done: {error}")


def _done(act: str, act_id: int) -> Response:
    flash(f"{act} {act_id}", "operator")
    return redirect(url_for("operators.index"), 303)


def _told_once(act: str, code: str, password: str, act_id: int) -> Answer:
    with reading() as conn:
        outside = frame(conn)
    page = render_template(
        "operators/password.html",
        frame=outside,
        act=act,
        act_id=act_id,
        code=code,
        password=password,
    )
    return page, 200


def _list(form: RoleForm | None = None, notice: Notice | None = None, status: int = 200) -> Answer:
    """Show the list; what was typed in `form` for a new operator stays there."""
    form = form or RoleForm()
    form.operator_code.data = g.who.code
    with reading() as conn:
        page = render_template(
            "operators/index.html",
            frame=frame(conn),
            rows=people.list_operators(conn),
            failures=_failures(conn),
            form=form,
            roles=form,
            notice=notice,
            reasons=REASONS,
            ROLES=ROLES,
        )
    return page, status


def _failures(conn: Connection) -> list[FailureRow] | None:
    """Return None where that took too long: somebody may be trying a million codes."""
    try:
        with part(conn):
            return sign_ins.failed_lately(conn)
    except TookTooLongError:
        return None


def _one(
    code: str,
    form: OperatorForm | None = None,
    verb: str | None = None,
    notice: Notice | None = None,
    status: int = 200,
) -> Answer:
    """Show an operator; what was typed in `form` for `verb` stays there."""
    with reading() as conn:
        outside, rows = frame(conn), people.list_operators(conn)
        found = _found(conn, code)
        past = acts_on(conn, "operator", found.code, limit=1) if found else []
    if found is None:
        abort(404, "No operator has that code.")
    form = form or RoleForm()
    form.operator_code.data = g.who.code
    last_admin = _admins(rows) == [found.code]
    page = render_template(
        "operators/show.html",
        roles=form if isinstance(form, RoleForm) else RoleForm(),
        frame=outside,
        row=found,
        last_admin=last_admin,
        offered=_offered(found, last_admin=last_admin),
        form=form,
        typed_for=verb,
        notice=notice,
        reasons=REASONS,
        ROLES=ROLES,
        last_act=past[0].id if past else 0,
    )
    return page, status


def _offered(row: OperatorRow, *, last_admin: bool) -> list[str]:
    """Name the acts that the page has a form for."""
    if row.disabled_at is not None:
        return []
    forbidden = {"change_role", "disable"} if last_admin else set[str]()
    if row.code == g.who.code:
        forbidden.add("reset")
    return [verb for verb in REASONS if verb != "add" and verb not in forbidden]


def _found(conn: Connection, code: str) -> OperatorRow | None:
    try:
        return people.find(conn, code)
    except NotACodeError:
        return None


def _admins(rows: list[OperatorRow]) -> list[str]:
    return [row.code for row in rows if row.role == "admin" and row.disabled_at is None]
