"""Queues: how each stands, and pausing and resuming one."""

from flask import Blueprint, abort, render_template, request

from console import named
from console.database import Connection, part, reading
from console.forms.named import REASONS, NameForm
from console.frame import frame
from console.named import Answer
from console.refusals import Notice
from console.security import safe_next
from queue_core.errors import OptionError, TookTooLongError
from queue_core.queries import acts, counts, queues
from queue_core.queries.rates import Rates, rates
from queue_core.queues import pause_queue, resume_queue

pages = Blueprint("queues", __name__, url_prefix="/queues")


@pages.get("/")
def index() -> str:
    """List the queues that hold live jobs or are paused."""
    with reading() as conn:
        outside, cap = frame(conn), queues.list_cap(conn)
        listed = queues.list_queues(conn, cap=cap)
        paused = [row.name for row in listed if row.paused_at]
        return render_template(
            "queues/index.html",
            frame=outside,
            queues=listed,
            most=queues.MOST_QUEUES,
            cap=cap,
            pauses=acts.last_pauses(conn, "queue", paused),
            rates=_rates(conn),
        )


@pages.get("/show")
def show() -> Answer:
    """Show one queue, what people did to it, and what may be done now."""
    return page(request.args.get("name", ""))


@pages.post("/pause")
def pause() -> Answer:
    """Let workers take nothing from a queue."""
    return named.act("queue", "pause", pause_queue, page)


@pages.post("/resume")
def resume() -> Answer:
    """Let workers take jobs from a paused queue again."""
    return named.act("queue", "resume", resume_queue, page)


def page(
    name: str,
    form: NameForm | None = None,
    verb: str | None = None,
    notice: Notice | None = None,
    status: int = 200,
) -> Answer:
    """Show a queue; what was typed in `form` for `verb` stays there, where that still applies."""
    with reading() as conn:
        try:
            outside, row = frame(conn), queues.queue(conn, name)
        except OptionError:
            abort(400 if form else 404, "No queue can have that name. Nothing was done.")
        past, speed = named.history(conn, "queue", name), _rates(conn)
    form = form or NameForm(data={"next": safe_next(request.args.get("next"))})
    html = render_template(
        "queues/show.html",
        frame=outside,
        row=row,
        cap=counts.CAP,
        rates=speed,
        history=past,
        form=form.opened_for(name, past.last_act),
        verbs=("resume" if row.paused_at else "pause",),
        typed_for=verb,
        notice=notice,
        reasons=REASONS,
    )
    return html, status


def _rates(conn: Connection) -> Rates | None:
    """Look how fast queues go; where that takes too long the page stays, without it."""
    try:
        with part(conn):
            return rates(conn)
    except TookTooLongError:
        return None
