"""When it all was: what came about within a second is moved into a night, ledger and all."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final
from uuid import UUID

import psycopg

from tests.sealing import OFF, ON, RECHAIN

Conn = psycopg.Connection[dict[str, object]]


@dataclass(frozen=True)
class Attempt:
    """How many minutes ago it was claimed, and ended."""

    claimed: float
    ended: float | None = None


@dataclass(frozen=True)
class Past:
    """How many minutes ago a job was asked for, what came then, and a report that came too late."""

    asked: float
    attempts: tuple[Attempt, ...] = ()
    acts: tuple[float, ...] = ()
    late: float | None = None

    def over(self) -> float:
        """When the last of it was."""
        ends = [each.ended for each in self.attempts if each.ended is not None]
        return min([self.asked, *ends, *self.acts, *([self.late] if self.late else [])])


Times = dict[UUID, Past]

JOB: Final = (
    "UPDATE countersign.jobs SET created_at = now() - %(asked)s WHERE id = %(id)s",
    "UPDATE countersign.ready SET run_at = now() - %(asked)s WHERE id = %(id)s",
    (
        "UPDATE countersign.running SET run_at = now() - %(asked)s, "
        "claimed_at = now() - %(claimed)s, "
        "started_at = now() - %(claimed)s + interval '0.2 s' WHERE id = %(id)s"
    ),
    (
        "UPDATE countersign.review SET entered_at = now() - %(over)s, "
        "claimed_at = now() - %(claimed)s * (claimed_at = claimed_at)::integer, "
        "started_at = now() - %(claimed)s * (started_at = started_at)::integer + interval '0.2 s' "
        "WHERE id = %(id)s"
    ),
    (
        "UPDATE countersign.ended SET ended_at = now() - %(over)s, "
        "started_at = now() - %(claimed)s * (started_at = started_at)::integer + interval '0.2 s' "
        "WHERE id = %(id)s"
    ),
)
"""What is unknown stays so: a comparison with NULL is NULL."""
RUN: Final = (
    "UPDATE countersign.runs SET ended_at = now() - %(ended)s, "
    "claimed_at = now() - %(claimed)s * (claimed_at = claimed_at)::integer, "
    "started_at = now() - %(claimed)s * (started_at = started_at)::integer + interval '0.2 s' "
    "WHERE job_id = %(id)s AND attempt = %(attempt)s AND outcome NOT LIKE 'late%%'"
)
LATE: Final = (
    "UPDATE countersign.runs SET ended_at = now() - %(late)s, "
    "started_at = now() - %(claimed)s + interval '0.2 s' "
    "WHERE job_id = %(id)s AND outcome LIKE 'late%%'"
)
ACT: Final = (
    "UPDATE countersign.acts SET at = now() - %(at)s WHERE id = ("
    "SELECT id FROM countersign.acts WHERE subject_id = %(id)s ORDER BY id OFFSET %(nth)s LIMIT 1)"
)
OTHERS: Final = """
CREATE TEMP TABLE others AS SELECT id, now() - random() * interval '3 hours' AS over
FROM countersign.ended WHERE state = 'completed';
UPDATE countersign.ended SET started_at = over - interval '2.4 s', ended_at = over
FROM others WHERE others.id = ended.id;
UPDATE countersign.jobs SET created_at = over - interval '4 s'
FROM others WHERE others.id = jobs.id;
DROP TABLE others;

UPDATE countersign.workers SET started_at = now() - interval '2 days 3 hours';
UPDATE countersign.workers SET started_at = now() - interval '41 min 2 s'
WHERE id IN (SELECT lost_by FROM countersign.workers);
UPDATE countersign.workers
SET lost_at = now() - interval '41 min 0.3 s', beat_at = now() - interval '41 min 4 s'
WHERE lost_at IS NOT NULL;
UPDATE countersign.workers
SET stopped_at = now() - interval '3 hours', beat_at = now() - interval '3 hours 2 s'
WHERE stopped_at IS NOT NULL;
UPDATE countersign.workers SET draining_at = now() - interval '3 min' WHERE draining_at IS NOT NULL;
UPDATE countersign.handlers SET first_declared_at = now() - interval '64 days',
    declared_at = (SELECT started_at FROM countersign.workers WHERE id = declared_by);

UPDATE countersign.schedules SET seen_at = seen_at - interval '12 days'
WHERE archived_at IS NOT NULL;
UPDATE countersign.schedules SET created_at = now() - interval '64 days',
    paused_at = paused_at - interval '60 min 21 s', archived_at = archived_at - interval '12 days';
UPDATE countersign.queues SET paused_at = now() - interval '52 min 12 s';
UPDATE countersign.operators SET added_at = now() - interval '64 days'
"""
"""All that is no single job."""
LEDGER: Final = """
UPDATE countersign.acts SET at = now() - CASE
    WHEN subject_kind = 'operator' THEN interval '64 days' - id * interval '412 s'
    WHEN subject_kind = 'schedule' THEN interval '60 min 21 s'
    WHEN subject_kind = 'queue' THEN interval '52 min 12 s'
    ELSE interval '8 days 5 hours' END
WHERE subject_kind <> 'job'
    OR NOT EXISTS (SELECT FROM countersign.jobs WHERE jobs.id = acts.subject_id)
"""
"""Acts on all that is no job, and on jobs that are gone."""
SEALS: Final = """
UPDATE countersign.seals
SET at = (SELECT max(acts.at) FROM countersign.acts WHERE acts.id = ANY(seals.ids)) + interval '3 s'
"""


def fall(conn: Conn, pasts: Times) -> None:
    """Move all that has come about into the past, as the owner of the database.

    Acts and seals are moved past the triggers that refuse it, and the chain is made anew, whole:
    their times have to rise as their ids do.
    """
    with conn.transaction():
        conn.execute(OTHERS.encode())
        for job, past in pasts.items():
            _move(conn, job, past)
        conn.execute(OFF.encode())
        conn.execute(LEDGER.encode())
        for job, past in pasts.items():
            for nth, at in enumerate(past.acts):
                conn.execute(ACT.encode(), {"at": _minutes(at), "id": job, "nth": nth})
        conn.execute(SEALS.encode())
        conn.execute(RECHAIN.encode())
        conn.execute(ON.encode())


def _move(conn: Conn, job: UUID, past: Past) -> None:
    last = past.attempts[-1] if past.attempts else Attempt(past.asked)
    times = {"asked": past.asked, "claimed": last.claimed, "over": past.over()}
    moments = {name: _minutes(each) for name, each in times.items()}
    for statement in JOB:
        conn.execute(statement.encode(), {**moments, "id": job})
    for number, each in enumerate(past.attempts, start=1):
        if each.ended is not None:
            moved = {"claimed": _minutes(each.claimed), "ended": _minutes(each.ended)}
            conn.execute(RUN.encode(), {**moved, "id": job, "attempt": number})
    if past.late is not None:
        conn.execute(LATE.encode(), {**moments, "id": job, "late": _minutes(past.late)})


def _minutes(number: float) -> timedelta:
    return timedelta(minutes=number)
