"""The first page: what needs a person, then how everything stands."""

from flask import Blueprint, render_template

from console.database import reading
from console.frame import frame
from queue_core.queries import counts, overview, workers

pages = Blueprint("overview", __name__)


@pages.get("/")
def show() -> str:
    """Show what needs a person first, counts by state, queues and workers."""
    with reading() as conn:
        return render_template(
            "overview/show.html",
            frame=frame(conn),
            overview=overview.overview(conn),
            counts=counts.capped_counts(conn),
            queues=overview.queues(conn),
            workers=workers.live(conn),
            cap=counts.CAP,
        )
