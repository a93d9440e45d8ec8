"""What the ledger holds."""

from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

import psycopg

from queue_core.database import rows


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


ACTS_OF_JOB = """
SELECT acts.id, acts.at, acts.by, acts.act, acts.subject_kind, acts.subject_id,
    acts.subject_name, acts.attempt, acts.reason, acts.note, acts.bulk_id, acts.via
FROM countersign.acts
WHERE acts.subject_id = %(job_id)s
ORDER BY acts.id
"""


def acts_of(conn: psycopg.Connection[object], job_id: UUID) -> list[ActRow]:
    """Return every act on a job, oldest first; they outlive the job."""
    return rows(conn, ACTS_OF_JOB, {"job_id": job_id}, ActRow)
