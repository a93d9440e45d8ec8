"""The first page: what needs a person, then how everything stands."""

from flask import Blueprint, render_template

from console.database import reading
from console.frame import frame
from queue_core.queries import counts, handlers, overview, queues, workers

pages = Blueprint("overview", __name__)


@pages.get("/")
def show() -> str:
    """Show what needs a person first, counts by state, queues and workers."""
    with reading() as conn:
        most = queues.list_cap(conn)
        listed = queues.list_queues(conn, cap=most)
        return render_template(
            "overview/show.html",
            frame=frame(conn),
            overview=overview.overview(conn),
            counts=counts.capped_counts(conn),
            queues=listed,
            longest=queues.longest(listed),
            unhandled=handlers.unhandled(conn),
            workers=workers.list_workers(conn, "live").rows,
            cap=counts.CAP,
            most_in_queue=most,
        )
