"""Acts on one job, queue or schedule; the ledger as a whole is read by queries.ledger."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal
from uuid import UUID

import psycopg

from queue_core.database import rows

NamedKind = Literal["queue", "schedule", "operator"]
"""What an act is on by its name alone."""


@dataclass(frozen=True, slots=True)
class ActRow:
    """One act, as the ledger keeps it; `repr` leaves out what a person wrote."""

    id: int
    at: datetime
    by: str = field(repr=False)
    act: str
    subject_kind: str
    subject_id: UUID | None
    subject_name: str
    attempt: int | None
    reason: str = field(repr=False)
    note: str | None = field(repr=False)
    bulk_id: UUID | None
    via: str
    kill_after: int | None = None
    """Of a request to stop: the seconds after which the run is killed, if it ever is."""


ACTS_OF_JOB = """
SELECT acts.id, acts.at, acts.by, acts.act, acts.subject_kind, acts.subject_id,
    acts.subject_name, acts.attempt, acts.reason, acts.note, acts.bulk_id, acts.via,
    acts.kill_after
FROM countersign.acts
WHERE acts.subject_id = %(job_id)s
ORDER BY acts.id
"""


def acts_of(conn: psycopg.Connection[object], job_id: UUID) -> list[ActRow]:
    """Return every act on a job, oldest first; they outlive the job."""
    return rows(conn, ACTS_OF_JOB, {"job_id": job_id}, ActRow)


ACTS_ON_NAME = """
SELECT acts.id, acts.at, acts.by, acts.act, acts.subject_kind, acts.subject_id,
    acts.subject_name, acts.attempt, acts.reason, acts.note, acts.bulk_id, acts.via
FROM countersign.acts
WHERE acts.subject_id IS NULL
    AND acts.subject_kind = %(kind)s
    AND acts.subject_name = %(name)s
ORDER BY acts.id DESC
LIMIT %(limit)s
"""


def acts_on(
    conn: psycopg.Connection[object], kind: NamedKind, name: str, *, limit: int
) -> list[ActRow]:
    """Return the last acts on a queue, schedule or operator, newest first."""
    return rows(conn, ACTS_ON_NAME, {"kind": kind, "name": name, "limit": limit}, ActRow)


LAST_PAUSES = """
SELECT last.id, last.at, last.by, last.act, last.subject_kind, last.subject_id,
    last.subject_name, last.attempt, last.reason, last.note, last.bulk_id, last.via
FROM unnest(%(names)s::text[]) AS asked (name)
CROSS JOIN LATERAL (
    SELECT acts.*
    FROM countersign.acts
    WHERE acts.subject_id IS NULL
        AND acts.subject_kind = %(kind)s
        AND acts.subject_name = asked.name
        AND acts.act = 'paused'
    ORDER BY acts.id DESC
    LIMIT 1
) AS last
"""


def last_pauses(
    conn: psycopg.Connection[object], kind: NamedKind, names: Sequence[str]
) -> dict[str, ActRow]:
    """Return the newest act `paused` on each of some queues or schedules, by name."""
    given = {"kind": kind, "names": list(names)}
    return {row.subject_name: row for row in rows(conn, LAST_PAUSES, given, ActRow)}
