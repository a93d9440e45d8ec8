"""Handlers: what each name is, who handles it now, and names that nobody handles."""

from flask import Blueprint, abort, render_template, request

from console.database import Connection, part, reading
from console.frame import frame
from console.pagination import name_place
from queue_core.errors import OptionError, TookTooLongError
from queue_core.jobs import check_name
from queue_core.queries import handlers, workers
from queue_core.queries.handlers import Unhandled

pages = Blueprint("handlers", __name__, url_prefix="/handlers")


@pages.get("/")
def index() -> str:
    """List names that workers ever declared, after those with ready jobs that nobody handles."""
    at = name_place(request.args)
    with reading() as conn:
        outside, alone = frame(conn), _unhandled(conn)
        page = handlers.list_handlers(conn, after=at.after, before=at.before)
    return render_template("handlers/index.html", frame=outside, unhandled=alone, page=page)


@pages.get("/show")
def show() -> str:
    """Show one name: its card, its options, and who handles it now."""
    name = request.args.get("name", "")
    try:
        check_name(name, "a job's name")
    except OptionError:
        abort(404, "No job can have that name.")
    with reading() as conn:
        outside, row = frame(conn), handlers.handler(conn, name)
        return render_template(
            "handlers/show.html",
            frame=outside,
            name=name,
            row=row,
            unhandled=_unhandled(conn, name),
            handling=handlers.handled_by(conn, name),
            declarer=workers.worker(conn, row.declared_by) if row else None,
        )


def _unhandled(conn: Connection, name: str | None = None) -> list[Unhandled] | None:
    """Look for names that nobody handles; where that takes too long the page stays without."""
    try:
        with part(conn):
            return handlers.unhandled(conn, name)
    except TookTooLongError:
        return None
