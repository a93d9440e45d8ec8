"""All that one job's page shows, read in one snapshot."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from console.axis import Axis, axis
from console.database import Connection
from console.timeline import Came, Moment, timeline, what_came_of
from queue_core.queries import acts, clock, facts, handlers, held, runs, workers
from queue_core.queries.acts import ActRow
from queue_core.queries.facts import JobFacts
from queue_core.queries.handlers import HandlerRow
from queue_core.queries.held import Lost
from queue_core.queries.runs import RunRow
from queue_core.queries.unseen import Unseen, unseen
from queue_core.queries.workers import WorkerRow
from queue_core.states import MARKS, NEED_BODY, legal_verbs

MOST_RUNS: Final = 50
"""Shown of one job, the newest; the page says when there are more."""


@dataclass(frozen=True, slots=True)
class SignedAct:
    """An act of the history, with what came of it."""

    row: ActRow
    came: Came


@dataclass(frozen=True, slots=True)
class Dossier:
    """A job as its page shows it; `job` is None where only its acts are left.

    `runs` and `acts` come newest first, `moments` oldest first; `workers` holds those of the
    runs, as far as there are rows of them. `handler` is what is declared of its name today;
    `siblings` are the other runs that were lost with the worker which left it in review;
    `unseen` is the run of a job in review that may still be at work.
    """

    id: UUID
    name: str
    job: JobFacts | None
    runs: list[RunRow]
    runs_left_out: int
    acts: list[SignedAct]
    moments: list[Moment]
    workers: dict[UUID, WorkerRow]
    axis: Axis | None
    handler: HandlerRow | None
    siblings: Lost | None
    unseen: Unseen | None

    @property
    def asked_at(self) -> datetime:
        """When the job was asked for: its id says so, whatever else is gone."""
        if self.job:
            return self.job.created_at
        return datetime.fromtimestamp((self.id.int >> 80) / 1_000, UTC)

    @property
    def verbs(self) -> tuple[str, ...]:
        """The acts that the job allows: no run without a body.

        After a request to stop there is only one more, that it be killed, if none said so.
        """
        if self.job is None or self.job.kill_after:
            return ()
        legal = legal_verbs(self.job.state)
        return tuple(verb for verb in legal if self.job.has_body or verb not in NEED_BODY)

    @property
    def marks(self) -> tuple[str, ...]:
        """The acts that move nothing, as far as the job allows them."""
        if self.job is None:
            return ()
        return tuple(
            verb
            for verb, states in MARKS.items()
            if self.job.state in states and (self.job.has_body or verb not in NEED_BODY)
        )

    @property
    def assigned(self) -> ActRow | None:
        """The act of whoever looks after the job at its present attempt."""
        return self._of_now("assigned")

    @property
    def noted(self) -> ActRow | None:
        """The newest note of the job's present attempt."""
        return self._of_now("noted")

    @property
    def stop_asked(self) -> ActRow | None:
        """The act that asked the present run to stop, the first of them."""
        return self._requests[-1] if self._requests else None

    @property
    def kill_asked(self) -> ActRow | None:
        """The act that said when the present run is killed."""
        return next((act for act in self._requests if act.kill_after), None)

    @property
    def last_act(self) -> ActRow | None:
        """The newest act, whatever it is."""
        return self.acts[0].row if self.acts else None

    @property
    def _requests(self) -> list[ActRow]:
        """The requests that the present run stop, newest first."""
        acts = (each.row for each in self.acts)
        attempt = self.job.attempt if self.job else None
        return [act for act in acts if (act.act, act.attempt) == ("cancel_requested", attempt)]

    def _of_now(self, act: str) -> ActRow | None:
        found = self._last(act)
        waits = self.job and self.job.state in MARKS["assign"]
        return found if found and waits and self.job and found.attempt == self.job.attempt else None

    def _last(self, act: str) -> ActRow | None:
        return next((each.row for each in self.acts if each.row.act == act), None)


def dossier(conn: Connection, job_id: UUID) -> Dossier | None:
    """Read a job with its runs and acts; None where there is neither a job nor an act."""
    job, signed, ended = (
        facts.job(conn, job_id),
        acts.acts_of(conn, job_id),
        runs.runs_of(conn, job_id),
    )
    if job is None and not signed:
        return None
    kept = ended[-MOST_RUNS:]
    known = _workers(conn, job, kept)
    moments = timeline(job, kept, signed, known) if job else []
    return Dossier(
        id=job_id,
        name=job.name if job else signed[-1].subject_name,
        job=job,
        runs=kept[::-1],
        runs_left_out=len(ended) - len(kept),
        acts=[SignedAct(act, what_came_of(act, job, ended)) for act in reversed(signed)],
        moments=moments,
        workers=known,
        axis=axis(moments, clock.now(conn)),
        handler=handlers.handler(conn, job.name) if job and job.has_body else None,
        siblings=_siblings(conn, job, kept),
        unseen=_unseen(conn, job),
    )


def _workers(
    conn: Connection, job: JobFacts | None, runs: Sequence[RunRow]
) -> dict[UUID, WorkerRow]:
    ids = [job.worker if job else None, *(run.worker for run in runs)]
    return workers.workers_of(conn, [each for each in ids if each])


def _unseen(conn: Connection, job: JobFacts | None) -> Unseen | None:
    waits = job and job.state == "needs_review"
    return unseen(conn, [job.id]).get(job.id) if job and waits else None


def _siblings(conn: Connection, job: JobFacts | None, runs: Sequence[RunRow]) -> Lost | None:
    """Read what else was lost with the worker that the job's present attempt was lost with."""
    lost = [run for run in runs if run.outcome == "lost" and job and run.attempt == job.attempt]
    if not lost or not lost[-1].worker or not job:
        return None
    found = held.lost_with(conn, lost[-1].worker)
    others = [run for run in found.runs if run.id != job.id]
    return replace(found, runs=others) if others else None
