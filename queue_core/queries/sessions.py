"""Sessions that are open: whose, since when, and where they were begun."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Final
from uuid import UUID

import psycopg

from queue_core.database import rows

MOST: Final = 100


@dataclass(frozen=True, slots=True)
class SessionRow:
    """An open session. Where it was begun is as its client said; None where it said nothing."""

    id: UUID
    created_at: datetime
    seen_at: datetime
    address: str | None = field(repr=False)
    agent: str | None = field(repr=False)


OPEN = """
SELECT sessions.id, sessions.created_at, sessions.seen_at, sessions.address, sessions.agent
FROM countersign.sessions
WHERE sessions.operator = %(operator)s
    AND sessions.ended_at IS NULL
    AND sessions.seen_at > now() - make_interval(secs => %(idle)s)
    AND sessions.created_at > now() - make_interval(secs => %(absolute)s)
ORDER BY sessions.created_at DESC, sessions.id
LIMIT %(most)s
"""


def open_sessions(
    conn: psycopg.Connection[object], operator: str, *, idle: float, absolute: float
) -> list[SessionRow]:
    """Return an operator's sessions that would still be resumed, the newest first, 100 at most.

    `idle` and `absolute` are the seconds without a request, and in all, that one lasts.
    """
    asked = {"operator": operator, "idle": idle, "absolute": absolute, "most": MOST}
    return rows(conn, OPEN, asked, SessionRow)
