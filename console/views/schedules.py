"""Schedules: when each is due next; pausing and resuming one, and running it now."""

from flask import Blueprint, abort, render_template, request

from console import named
from console.database import reading
from console.forms.named import REASONS, NameForm
from console.frame import frame
from console.named import Answer
from console.pagination import name_place
from console.refusals import Notice
from console.security import safe_next
from queue_core.queries import acts, schedules
from queue_core.queries.schedules import ScheduleRow
from queue_core.schedules import pause_schedule, resume_schedule, run_schedule_now
from queue_core.states import QUEUED

pages = Blueprint("schedules", __name__, url_prefix="/schedules")


@pages.get("/")
def index() -> str:
    """List the schedules that code has, or with `archived` those that none has any more."""
    archived, at = request.args.get("archived") == "yes", name_place(request.args)
    with reading() as conn:
        outside = frame(conn)
        listed = schedules.page_of_schedules(
            conn, archived=archived, after=at.after, before=at.before
        )
        paused = [row.name for row in listed.rows if row.paused_at]
        pauses = acts.last_pauses(conn, "schedule", paused)
    return render_template(
        "schedules/index.html", frame=outside, archived=archived, page=listed, pauses=pauses
    )


@pages.get("/show")
def show() -> Answer:
    """Show one schedule, what people did to it, and what may be done now."""
    return page(request.args.get("name", ""))


@pages.post("/pause")
def pause() -> Answer:
    """Let a schedule ask for nothing."""
    return named.act("schedule", "pause", pause_schedule, page)


@pages.post("/resume")
def resume() -> Answer:
    """Let a paused schedule go on with its next due time."""
    return named.act("schedule", "resume", resume_schedule, page)


@pages.post("/run-now")
def run_now() -> Answer:
    """Ask for a schedule's job now, whenever it is due."""
    return named.act("schedule", "run_now", run_schedule_now, page)


def page(
    name: str,
    form: NameForm | None = None,
    verb: str | None = None,
    notice: Notice | None = None,
    status: int = 200,
) -> Answer:
    """Show a schedule; what was typed in `form` for `verb` stays there, if that still applies."""
    with reading() as conn:
        outside, row = frame(conn), schedules.schedule(conn, name) if "\0" not in name else None
        if row is None:
            abort(404, "There is no schedule of that name. Nothing was done.")
        past = named.history(conn, "schedule", name)
        others = schedules.other_versions(conn, name)
    form = form or NameForm(data={"next": safe_next(request.args.get("next"))})
    html = render_template(
        "schedules/show.html",
        frame=outside,
        row=row,
        others=others,
        history=past,
        form=form.opened_for(name, past.last_act),
        verbs=_verbs(row),
        typed_for=verb,
        notice=notice,
        reasons=REASONS,
    )
    return html, status


def _verbs(row: ScheduleRow) -> tuple[str, ...]:
    """Return the acts that apply to a schedule as it stands."""
    going_on = row.last_state == "running" or row.last_state in QUEUED
    first = "resume" if row.paused_at else "pause"
    return (first,) if row.archived_at or going_on else ("run_now", first)
