"""One job's life as moments in the order of time, and what came of each act."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Final, Literal
from uuid import UUID

from queue_core.queries.acts import ActRow
from queue_core.queries.facts import JobFacts
from queue_core.queries.runs import RunRow
from queue_core.queries.workers import WorkerRow
from queue_core.states import QUEUED

Kind = Literal[
    "asked", "claimed", "started", "ended", "review", "completed", "act", "beat", "gone", "due"
]

LATE: Final = frozenset({"late_completed", "late_failed"})
MARKED: Final = frozenset({"assigned", "noted", "revealed"})
GIVEN_BACK: Final = frozenset({"returned", "deferred"})
_TONES: Final[Mapping[Kind, str]] = MappingProxyType(
    {
        "asked": "grey",
        "claimed": "blue",
        "started": "blue",
        "completed": "green",
        "review": "violet",
        "act": "ink",
        "beat": "grey",
        "gone": "violet",
        "due": "amber",
    }
)


@dataclass(frozen=True, slots=True)
class Moment:
    """One line of the timeline; `at` is None where nobody recorded when it was."""

    kind: Kind
    at: datetime | None
    tone: str
    attempt: int | None = None
    worker: UUID | None = None
    child_pid: int | None = None
    run: RunRow | None = None
    act: ActRow | None = None


def timeline(
    job: JobFacts,
    runs: Sequence[RunRow],
    acts: Sequence[ActRow],
    workers: Mapping[UUID, WorkerRow] = MappingProxyType({}),
) -> list[Moment]:
    """Return all that is known to have happened to a job, oldest first, and when it is due.

    A moment whose time is unknown stands where it must have been: before what followed it.
    """
    moments = [
        Moment("asked", job.created_at, _TONES["asked"]),
        *(moment for run in runs for moment in _of_run(run)),
        *_of_now(job, runs),
        *_of_workers(job, runs, workers),
        *(Moment("act", act.at, _TONES["act"], attempt=act.attempt, act=act) for act in acts),
    ]
    return _in_order(moments)


@dataclass(frozen=True, slots=True)
class Came:
    """What came of an act, and when; `at` is None where nothing has ended, or nobody knows."""

    said: str
    at: datetime | None = None


UNKNOWN: Final = Came("unknown")
MOVED_NOTHING: Final = Came("it moved nothing")


def what_came_of(act: ActRow, job: JobFacts | None, runs: Sequence[RunRow]) -> Came:
    """Say what followed an act, as far as anything is known: the end of the run it led to."""
    if job is None or act.attempt is None:
        return MOVED_NOTHING if act.act in MARKED else UNKNOWN
    match act.act:
        case "retried" | "released" | "enqueued":
            return _of_attempt(act.attempt + 1, job, runs)
        case "cancel_requested":
            return _of_attempt(act.attempt, job, runs)
        case _:
            return _at_once(act.act, act.attempt, job)


def _at_once(act: str, attempt: int, job: JobFacts) -> Came:
    match act:
        case "assigned" | "noted" | "revealed":
            return MOVED_NOTHING
        case "confirmed":
            return Came("counts as completed")
        case "cancelled" | "closed":
            return Came("never ran again" if _stayed(attempt, job) else "queued again since")
        case _:
            return UNKNOWN


def _stayed(attempt: int, job: JobFacts) -> bool:
    return job.state == "cancelled" and job.attempt == attempt


def _of_attempt(attempt: int, job: JobFacts, runs: Sequence[RunRow]) -> Came:
    ended = [run for run in runs if run.attempt == attempt and run.outcome not in LATE]
    if job.attempt < attempt:
        return _before_it_ran(attempt, job)
    if job.attempt == attempt and _goes_on_or_completed(job):
        verb = "is running" if job.state == "running" else "completed"
        return Came(f"attempt {attempt} {verb}", job.ended_at)
    if ended:
        return Came(f"attempt {attempt} {said(ended[-1].outcome)}", ended[-1].ended_at)
    return Came(f"attempt {attempt}: unknown")


def _before_it_ran(attempt: int, job: JobFacts) -> Came:
    if job.state == "cancelled":
        return Came("cancelled before it ran", job.ended_at)
    return Came(f"attempt {attempt} has not begun")


def said(outcome: str) -> str:
    """Return a run's outcome as the verb of a sentence."""
    verbs = {
        "failed": "failed",
        "timed_out": "passed its time limit",
        "crashed": "crashed",
        "lost": "was lost with its worker",
        "stopped": "was stopped",
        "returned": "was given back",
        "deferred": "put itself back",
        "late_completed": "completed after it was given up",
        "late_failed": "failed after it was given up",
    }
    return verbs[outcome]


def _of_run(run: RunRow) -> Iterator[Moment]:
    if run.outcome not in LATE:
        yield from _begun(run.attempt, run.worker, run.child_pid, run.claimed_at, run.started_at)
    yield Moment(
        "ended", run.ended_at, tone(run.outcome), run.attempt, run.worker, run.child_pid, run
    )


def tone(outcome: str) -> str:
    """Return the colour that a run's outcome is shown in."""
    if outcome in LATE or outcome in {"lost", "crashed"}:
        return "violet"
    return "grey" if outcome in GIVEN_BACK or outcome == "stopped" else "red"


def _begun(
    attempt: int,
    worker: UUID | None,
    child_pid: int | None,
    claimed_at: datetime | None,
    started_at: datetime | None,
) -> Iterator[Moment]:
    if claimed_at is not None:
        yield Moment("claimed", claimed_at, _TONES["claimed"], attempt, worker)
    yield Moment("started", started_at, _TONES["started"], attempt, worker, child_pid)


def _of_now(job: JobFacts, runs: Sequence[RunRow]) -> Iterator[Moment]:
    """What stands nowhere but in the job's place: the run that goes on, or that completed it."""
    recorded = {run.attempt for run in runs if run.outcome not in LATE}
    if _goes_on_or_completed(job) and job.attempt not in recorded:
        yield from _begun(job.attempt, job.worker, job.child_pid, job.claimed_at, job.started_at)
    if job.state == "completed" and not job.confirmed_by:
        yield Moment("completed", job.ended_at, _TONES["completed"], job.attempt, job.worker)
    if job.state in QUEUED and job.run_at and job.run_at > job.created_at:
        yield Moment("due", job.run_at, _TONES["due"], job.attempt + 1)
    if job.state == "needs_review":
        yield Moment("review", job.entered_at, _TONES["review"], job.attempt, job.worker)


def _of_workers(
    job: JobFacts, runs: Sequence[RunRow], workers: Mapping[UUID, WorkerRow]
) -> Iterator[Moment]:
    """The last word of workers that hold the job now, or were lost with it; and their loss."""
    here = {job.worker} if job.state in {"running", "needs_review"} else set[UUID | None]()
    for worker in dict.fromkeys([*(run.worker for run in runs if run.outcome == "lost"), *here]):
        row = workers.get(worker) if worker else None
        if row is None:
            continue
        yield Moment("beat", row.beat_at, _TONES["beat"], worker=row.id)
        if row.lost_at:
            yield Moment("gone", row.lost_at, _TONES["gone"], worker=row.id)


def _goes_on_or_completed(job: JobFacts) -> bool:
    return job.state == "running" or (job.state == "completed" and not job.confirmed_by)


def _in_order(moments: Sequence[Moment]) -> list[Moment]:
    times = [_time(moments, place) for place in range(len(moments))]
    return [moments[place] for place in sorted(range(len(moments)), key=times.__getitem__)]


def _time(moments: Sequence[Moment], place: int) -> datetime:
    """A moment's own time; else that of its run's next one, else of its run's last before."""
    known = [
        each.at
        for each in (*moments[place:], *reversed(moments[:place]))
        if each.at is not None and each.act is None and each.attempt == moments[place].attempt
    ]
    return moments[place].at or known[0]
