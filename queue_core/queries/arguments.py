"""A job's arguments, for whom an act has revealed them."""

from uuid import UUID

import psycopg

from queue_core.database import value

REVEALED = """
SELECT jobs.args::text
FROM countersign.acts
JOIN countersign.jobs ON jobs.id = acts.subject_id
WHERE acts.id = %(act_id)s AND acts.act = 'revealed' AND jobs.id = %(job_id)s
"""


def revealed(conn: psycopg.Connection[object], job_id: UUID, act_id: int) -> str | None:
    """Return the JSON text of a job's arguments; None without an act that reveals just these."""
    found = value(conn, REVEALED, {"job_id": job_id, "act_id": act_id})
    return None if found is None else str(found)
