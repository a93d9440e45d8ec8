"""The review: what waits for a person, oldest first, by the worker that was lost."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, get_args
from uuid import UUID

from flask import Blueprint, render_template, request

from console.database import Connection, part, reading
from console.frame import frame
from console.pagination import Place, PlaceError, beside, place_in
from console.security import here
from queue_core.errors import TookTooLongError
from queue_core.queries import counts, held, review, workers
from queue_core.queries.review import Kind, ReviewRow, Spot, Waiting
from queue_core.queries.workers import WorkerRow

pages = Blueprint("review", __name__, url_prefix="/review")

Answer = tuple[str, int]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)


@dataclass(frozen=True, slots=True)
class Group:
    """Jobs of one worker that stand together in the list; `held` is up to a cap."""

    worker: UUID | None
    row: WorkerRow | None
    held: int
    jobs: list[ReviewRow]


@dataclass(frozen=True, slots=True)
class Desk:
    """A page of the list; `too_slow` where reading it took more than its 3 seconds."""

    groups: list[Group] = field(default_factory=list[Group])
    beside: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    workers: dict[UUID, WorkerRow] = field(default_factory=dict[UUID, WorkerRow])
    too_slow: bool = False


@pages.get("/")
def index() -> Answer:
    """List what waits for a person, a page at a time."""
    kind, at = _kind(), place_in(request.args, Spot.decode)
    with reading() as conn:
        outside, waiting, desk = frame(conn), _waiting(conn), _desk(conn, kind, at)
    page = render_template(
        "review/index.html",
        frame=outside,
        kind=kind,
        waiting=waiting,
        cap=counts.CAP,
        most_held=held.LOST_CAP,
        desk=desk,
        here=here(),
    )
    return page, 503 if desk.too_slow else 200


def _kind() -> Kind:
    """Read which of the two lists is asked for. Raises PlaceError."""
    asked = request.args.get("list") or KINDS[0]
    for kind in KINDS:
        if kind == asked:
            return kind
    raise PlaceError(f"There is no such list; the lists are {' and '.join(KINDS)}.")


def _waiting(conn: Connection) -> Waiting | None:
    try:
        with part(conn):
            return review.waiting(conn, cap=counts.CAP)
    except TookTooLongError:
        return None


def _desk(conn: Connection, kind: Kind, at: Place[Spot]) -> Desk:
    try:
        with part(conn):
            page = review.list_review(conn, kind, spot=at.cursor, direction=at.direction)
            ids = {row.worker for row in page.rows if row.worker}
            known, lost = workers.workers_of(conn, ids), held.lost_by(conn, sorted(ids))
    except TookTooLongError:
        return Desk(too_slow=True)
    return Desk(_grouped(page.rows, known, lost), beside(page), known)


def _grouped(
    rows: Iterable[ReviewRow], known: Mapping[UUID, WorkerRow], lost: Mapping[UUID, int]
) -> list[Group]:
    """Put rows together that one worker left, one after another; one loss is one group.

    Its runs may have been recovered in several sweeps, with others' rows between them.
    """
    groups: list[Group] = []
    losses: dict[UUID, Group] = {}
    for row in rows:
        row_of = known.get(row.worker) if row.worker else None
        gone = row.worker if row_of and row_of.lost_at and row.why == "lost" else None
        if gone and gone in losses:
            losses[gone].jobs.append(row)
            continue
        if not groups or groups[-1].worker != row.worker:
            of = lost.get(row.worker, 0) if row.worker else 0
            groups.append(Group(row.worker, row_of, of, []))
        groups[-1].jobs.append(row)
        if gone:
            losses[gone] = groups[-1]
    return groups
