"""All that one job's page shows, read in one snapshot."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from console.database import Connection
from console.timeline import Moment, timeline, what_came_of
from queue_core.queries import acts, jobs, runs, workers
from queue_core.queries.acts import ActRow
from queue_core.queries.jobs import JobFacts
from queue_core.queries.runs import RunRow
from queue_core.queries.workers import WorkerRow
from queue_core.states import legal_verbs

MOST_RUNS: Final = 50
"""Shown of one job, the newest; the page says when there are more."""


@dataclass(frozen=True, slots=True)
class SignedAct:
    """An act of the history, with what came of it."""

    row: ActRow
    came: str


@dataclass(frozen=True, slots=True)
class Dossier:
    """A job as its page shows it; `job` is None where only its acts are left.

    `runs` and `acts` come newest first, `moments` oldest first; `workers` holds those of the
    runs, as far as there are rows of them.
    """

    id: UUID
    name: str
    job: JobFacts | None
    runs: list[RunRow]
    runs_left_out: int
    acts: list[SignedAct]
    moments: list[Moment]
    workers: dict[UUID, WorkerRow]

    @property
    def verbs(self) -> tuple[str, ...]:
        """The acts that the job's state allows: none twice, so no second request to stop."""
        if self.job is None or self.job.stop_requested_at:
            return ()
        return legal_verbs(self.job.state)

    @property
    def stop_asked(self) -> ActRow | None:
        """The act that asked the present run to stop."""
        return self._last("cancel_requested")

    @property
    def last_act(self) -> ActRow | None:
        """The newest act, whatever it is."""
        return self.acts[0].row if self.acts else None

    def _last(self, act: str) -> ActRow | None:
        return next((each.row for each in self.acts if each.row.act == act), None)


def dossier(conn: Connection, job_id: UUID) -> Dossier | None:
    """Read a job with its runs and acts; None where there is neither a job nor an act."""
    job, signed, ended = (
        jobs.job(conn, job_id),
        acts.acts_of(conn, job_id),
        runs.runs_of(conn, job_id),
    )
    if job is None and not signed:
        return None
    kept = ended[-MOST_RUNS:]
    return Dossier(
        id=job_id,
        name=job.name if job else signed[-1].subject_name,
        job=job,
        runs=kept[::-1],
        runs_left_out=len(ended) - len(kept),
        acts=[SignedAct(act, what_came_of(act, job, ended)) for act in reversed(signed)],
        moments=timeline(job, kept, signed) if job else [],
        workers=_workers(conn, [job.worker if job else None, *(run.worker for run in kept)]),
    )


def _workers(conn: Connection, ids: Iterable[UUID | None]) -> dict[UUID, WorkerRow]:
    rows = (workers.worker(conn, each) for each in dict.fromkeys(ids) if each)
    return {row.id: row for row in rows if row}
