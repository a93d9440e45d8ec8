"""What the ledger is filtered by, and what its pages show of it: acts, their seals, the heads."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from datetime import UTC, date, datetime, timedelta
from typing import Final
from uuid import UUID

from console.database import Connection
from console.filters import FilterError
from console.pagination import Place
from queue_core.codes import MAX_CODE_CHARACTERS
from queue_core.jobs import MAX_NAME_CHARACTERS
from queue_core.queries import ledger, sealing, seals
from queue_core.queries.acts import ActRow
from queue_core.queries.ledger import Cursor, Page, Wanted
from queue_core.queries.sealing import Sealing
from queue_core.queries.seals import SealRow
from queue_core.states import ACTS, SUBJECT_KINDS

NO_MOMENT: Final = "Write a time as 2026-11-29 02:31, in UTC."


@dataclass(frozen=True, slots=True)
class LedgerFilter:
    """What stands in the URL, as it is, good or not; None for what is absent or blank."""

    by: str | None = None
    act: str | None = None
    reason: str | None = None
    kind: str | None = None
    subject: str | None = None
    since: str | None = None
    until: str | None = None
    bulk: str | None = None

    @property
    def narrows(self) -> bool:
        """Whether there may be acts that the list does not show."""
        return bool(self.query())

    def query(self, **more: str) -> dict[str, str]:
        """Return what stands in the URL, with `more` beside it."""
        given = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: text for name, text in given.items() if text is not None} | more

    def faults(self) -> dict[str, str]:
        """Say of each filter what is wrong with it; nothing where all can be looked for."""
        return _faults(self)

    def wanted(self) -> Wanted:
        """Return what an act has to be to fit. Raises FilterError where a filter is none."""
        faults = self.faults()
        if faults:
            raise FilterError(faults)
        subject = _uuid(self.subject) if self.kind in {None, "job"} else None
        return Wanted(
            by=self.by,
            act=self.act,
            reason=self.reason,
            kind=self.kind,
            name=None if subject else self.subject,
            subject=subject,
            bulk=_uuid(self.bulk),
            since=_moment(self.since),
            until=_moment(self.until, through_its_day=True),
        )


def ledger_filter(arguments: Mapping[str, str]) -> LedgerFilter:
    """Read the filters of the ledger from the URL."""
    given = {each.name: arguments.get(each.name, "") for each in fields(LedgerFilter)}
    return LedgerFilter(**{name: text if text.strip() else None for name, text in given.items()})


def _faults(asked: LedgerFilter) -> dict[str, str]:
    long = f"has at most {MAX_CODE_CHARACTERS} characters, none of them NUL."
    said = {
        "by": None if _is_short(asked.by) else f"An operator’s code {long}",
        "act": None if asked.act in {None, *ACTS} else "There is no such act.",
        "reason": None if _is_short(asked.reason) else f"A reason {long}",
        "kind": None if asked.kind in {None, *SUBJECT_KINDS} else "Acts are done to no such thing.",
        "subject": None if _is_short(asked.subject) else f"A name {long}",
        "since": None if _is_moment(asked.since) else NO_MOMENT,
        "until": None if _is_moment(asked.until) else NO_MOMENT,
        "bulk": None if asked.bulk is None or _uuid(asked.bulk) else "That is the id of no bulk.",
    }
    return {name: fault for name, fault in said.items() if fault}


def _is_short(text: str | None) -> bool:
    most = max(MAX_CODE_CHARACTERS, MAX_NAME_CHARACTERS)
    return text is None or (len(text) <= most and "\0" not in text and _is_text(text))


def _is_text(text: str) -> bool:
    """Whether it can be sent to the database: half a surrogate pair cannot."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _is_moment(text: str | None) -> bool:
    return text is None or _moment(text) is not None


def _moment(text: str | None, *, through_its_day: bool = False) -> datetime | None:
    """Return the time that `text` names, in UTC unless it says otherwise; None for no time."""
    try:
        moment = datetime.fromisoformat((text or "").strip())
        if through_its_day and _is_date((text or "").strip()):
            moment += timedelta(days=1)
        moment = moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return moment if _EARLIEST < moment < _LATEST else None


def _is_date(text: str) -> bool:
    with suppress(ValueError):
        return bool(date.fromisoformat(text))
    return False


_EARLIEST: Final = datetime(1000, 1, 1, tzinfo=UTC)
_LATEST: Final = datetime(9000, 1, 1, tzinfo=UTC)
"""Five minutes beside these, which the look adds, are still times."""


def _uuid(text: str | None) -> UUID | None:
    try:
        return UUID(text.strip()) if text else None
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class SealedAct:
    """An act with where it stands to the seals."""

    row: ActRow
    sealing: Sealing

    @property
    def is_sealed(self) -> bool:
        """Whether a seal holds it."""
        return self.sealing.held

    @property
    def is_astray(self) -> bool:
        """Whether it ought to be in a seal, and is not: somebody put it in past the triggers."""
        return self.sealing.seal is not None and not self.sealing.held


@dataclass(frozen=True, slots=True)
class Sheet:
    """A page of the ledger, and the newest seals, the head of the chain first."""

    acts: list[SealedAct]
    page: Page
    heads: list[SealRow]


def sheet(
    conn: Connection, wanted: Wanted, at: Place[Cursor], *, limit: int = ledger.PAGE, heads: int = 1
) -> Sheet:
    """Read the acts that fit, from a place on, with the seals that hold them."""
    page = ledger.list_acts(conn, wanted, cursor=at.cursor, direction=at.direction, limit=limit)
    return Sheet(sealed(conn, page.rows), page, seals.newest(conn, heads))


def sealed(conn: Connection, rows: list[ActRow]) -> list[SealedAct]:
    """Return the acts with where each stands to the seals."""
    found = sealing.sealing(conn, [row.id for row in rows])
    return [SealedAct(row, found[row.id]) for row in rows]
