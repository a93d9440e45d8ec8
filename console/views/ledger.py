"""The ledger: every act, one act, and what is handed on of them."""

from dataclasses import replace
from datetime import UTC, timedelta
from itertools import chain
from typing import Final

from flask import Blueprint, Response, abort, render_template, request, stream_with_context

from console import export as exporting
from console.database import Connection, part, reading
from console.frame import frame
from console.ledger import LedgerFilter, Sheet, ledger_filter, sealed, sheet
from console.pagination import Place, beside, place_in
from queue_core.errors import TookTooLongError
from queue_core.queries import clock, ledger, seals
from queue_core.queries.ledger import Cursor
from queue_core.states import ACTS, SUBJECT_KINDS

pages = Blueprint("ledger", __name__, url_prefix="/acts")

Answer = tuple[str, int]

SHIFT: Final = timedelta(hours=12)
"""What a handover shows where nothing else is asked for: acts since then."""
MOST_HANDED_OVER: Final = 500
HEADS_HANDED_OVER: Final = 5


@pages.get("/")
def index() -> Answer:
    """List every act that fits, the newest first, a page at a time."""
    wanted, at = ledger_filter(request.args), place_in(request.args, Cursor.decode)
    faults = wanted.faults()
    with reading() as conn:
        outside = frame(conn)
        found = None if faults else _listed(conn, wanted, at)
    page = render_template(
        "ledger/index.html",
        frame=outside,
        wanted=wanted,
        faults=faults,
        sheet=found,
        beside=beside(found.page) if found else {},
        ACTS=ACTS,
        SUBJECT_KINDS=SUBJECT_KINDS,
    )
    return page, 400 if faults else 503 if found is None else 200


@pages.get("/<int:act_id>")
def show(act_id: int) -> str:
    """Show one act whole: who, what, why, how it came in, and the seal that holds it."""
    with reading() as conn:
        outside, found = frame(conn), ledger.act(conn, act_id)
        if found is None:
            abort(404, "There is no act of that number: nothing that was refused has one.")
        (act,) = sealed(conn, [found])
        seal = seals.seal(conn, act.sealing.seal) if act.sealing.seal else None
    return render_template("ledger/show.html", frame=outside, act=act, row=found, seal=seal)


@pages.get("/export")
def export() -> Response:
    """Send every act that fits as a file, however many there are."""
    lines = exporting.lines(ledger_filter(request.args).wanted())
    begun = [next(lines), next(lines)]  # what fails at once gets a page that says so
    answer = Response(stream_with_context(chain(begun, lines)), mimetype="text/csv")
    answer.headers["Content-Disposition"] = 'attachment; filename="acts.csv"'
    return answer


@pages.get("/handover")
def handover() -> str:
    """Show on one page, to be printed, what was done in a shift, and heads of seals to keep."""
    wanted = ledger_filter(request.args)
    with reading() as conn:
        outside = frame(conn)
        if not wanted.since:
            since = clock.now(conn).astimezone(UTC) - SHIFT
            wanted = replace(wanted, since=f"{since:%Y-%m-%dT%H:%M}")
        found = sheet(
            conn,
            wanted.wanted(),
            Place(None, "next"),
            limit=MOST_HANDED_OVER,
            heads=HEADS_HANDED_OVER,
        )
    return render_template("ledger/handover.html", frame=outside, wanted=wanted, sheet=found)


def _listed(conn: Connection, wanted: LedgerFilter, at: Place[Cursor]) -> Sheet | None:
    """Return None where it took too long: the page then says so, and its filters stay."""
    try:
        with part(conn):
            return sheet(conn, wanted.wanted(), at)
    except TookTooLongError:
        return None
