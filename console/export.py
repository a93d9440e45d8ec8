"""The ledger as a file of comma-separated values, read and sent a thousand acts at a time."""

import csv
import io
from collections.abc import Iterable, Iterator
from datetime import UTC
from typing import Final

from console.database import reading
from console.ledger import SealedAct, sealed
from queue_core.queries import ledger
from queue_core.queries.ledger import Wanted

COLUMNS: Final = (
    "id",
    "at",
    "by",
    "act",
    "subject_kind",
    "subject_id",
    "subject_name",
    "attempt",
    "reason",
    "note",
    "kill_after",
    "bulk_id",
    "via",
    "seal",
)
AT_ONCE: Final = ledger.MOST
FORMULAE: Final = frozenset("=+-@\t\r\n＝＋－＠")  # noqa: RUF001 - spreadsheets take these for the others
"""What a spreadsheet may take a cell that begins with it for: something to compute."""


def lines(wanted: Wanted) -> Iterator[str]:
    """Yield the head, then every act that fits, the newest first.

    Each thousand is read in a snapshot of its own, which is over before it is sent: whoever
    reads slowly holds nothing back. The ledger only grows at its top, so none is left out.
    """
    cursor = None
    yield _written([COLUMNS])
    while True:
        with reading() as conn:
            page = ledger.list_acts(conn, wanted, cursor=cursor, limit=AT_ONCE)
            acts = sealed(conn, page.rows)
        yield _written(map(_cells, acts))
        cursor = page.next
        if cursor is None:
            return


def harmless(text: str) -> str:
    """Return the text of a cell so that no spreadsheet computes it: with an apostrophe before."""
    first = text.lstrip(" ")[:1]
    return f"'{text}" if first in FORMULAE and first else text


def _cells(act: SealedAct) -> list[str]:
    row = act.row
    at = row.at.astimezone(UTC).isoformat(timespec="microseconds")
    told = [getattr(row, name) for name in COLUMNS[2:-1]]
    cells = [row.id, at, *told, _seal(act)]
    return ["" if each is None else harmless(str(each)) for each in cells]


def _seal(act: SealedAct) -> str:
    if act.is_astray:
        return "in no seal"
    return str(act.sealing.seal) if act.is_sealed else "not sealed yet"


def _written(table: Iterable[Iterable[str]]) -> str:
    text = io.StringIO()
    csv.writer(text).writerows(table)
    return text.getvalue()
