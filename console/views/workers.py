"""Workers: those that live, and the tombstones of those that do not."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final
from uuid import UUID

from flask import Blueprint, abort, render_template, request

from console.database import part, reading
from console.filters import FilterError
from console.frame import frame
from console.pagination import beside, place, place_in
from queue_core.errors import TookTooLongError
from queue_core.queries import counts, held, workers
from queue_core.queries.held import LostPlace
from queue_core.queries.workers import Fate

pages = Blueprint("workers", __name__, url_prefix="/workers")

FATES: Final[Mapping[str, Fate]] = MappingProxyType(
    {"live": "live", "lost": "lost", "stopped": "stopped"}
)
MOST_NAMED: Final = 3
"""Runs of a worker that its line names; its page has the others."""


@pages.get("/")
def index() -> str:
    """List the workers of one fate, a page at a time, with what the living ones run."""
    fate, at = _fate(request.args.get("fate")), place(request.args)
    with reading() as conn:
        outside, numbers = frame(conn), workers.count_workers(conn)
        page = workers.list_workers(conn, fate, cursor=at.cursor, direction=at.direction)
        ids = [row.id for row in page.rows] if fate == "live" else []
        runs = held.held_by(conn, ids, most=MOST_NAMED)
    return render_template(
        "workers/index.html",
        frame=outside,
        fate=fate,
        fates=FATES,
        counts=numbers,
        cap=counts.CAP,
        page=page,
        beside=beside(page),
        runs=runs,
    )


@pages.get("/<uuid:worker_id>")
def show(worker_id: UUID) -> str:
    """Show one worker: what it is, what it holds, and, page by page, what was lost with it."""
    at = place_in(request.args, LostPlace.decode)
    with reading() as conn:
        outside, row = frame(conn), workers.worker(conn, worker_id)
        if row is None:
            abort(404)
        runs = held.held_by(conn, [row.id]).get(row.id, [])
        try:
            with part(conn):
                lost = held.lost_with(conn, row.id, place=at.cursor, direction=at.direction)
        except TookTooLongError:
            lost = None
        judge = workers.worker(conn, row.lost_by) if row.lost_by else None
    return render_template(
        "workers/show.html",
        frame=outside,
        row=row,
        runs=runs,
        lost=lost,
        beside=beside(lost) if lost else {},
        judge=judge,
    )


def _fate(text: str | None) -> Fate:
    found = FATES.get(text or "live")
    if found is None:
        raise FilterError({"fate": f"There are only {', '.join(FATES)} workers."})
    return found
