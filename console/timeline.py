"""One job's life as moments in the order of time, and what came of each act."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Final, Literal
from uuid import UUID

from queue_core.queries.acts import ActRow
from queue_core.queries.jobs import JobFacts
from queue_core.queries.runs import RunRow

Kind = Literal["asked", "claimed", "started", "ended", "review", "completed", "act"]

LATE: Final = frozenset({"late_completed", "late_failed"})
GIVEN_BACK: Final = frozenset({"returned", "deferred"})
_TONES: Final[Mapping[Kind, str]] = MappingProxyType(
    {
        "asked": "grey",
        "claimed": "blue",
        "started": "blue",
        "completed": "green",
        "review": "violet",
        "act": "ink",
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


def timeline(job: JobFacts, runs: Sequence[RunRow], acts: Sequence[ActRow]) -> list[Moment]:
    """Return all that is known to have happened to a job, oldest first.

    A moment whose time is unknown stands where it must have been: before what followed it.
    """
    moments = [
        Moment("asked", job.created_at, _TONES["asked"]),
        *(moment for run in runs for moment in _of_run(run)),
        *_of_now(job, runs),
        *(Moment("act", act.at, _TONES["act"], attempt=act.attempt, act=act) for act in acts),
    ]
    return _in_order(moments)


def what_came_of(act: ActRow, job: JobFacts | None, runs: Sequence[RunRow]) -> str:
    """Say what followed an act, as far as anything is known."""
    if job is None or act.attempt is None:
        return "unknown"
    match act.act:
        case "retried" | "released" | "enqueued":
            return _of_attempt(act.attempt + 1, job, runs)
        case "cancel_requested":
            return _of_attempt(act.attempt, job, runs)
        case "cancelled":
            return "never ran again" if _stayed(act.attempt, job) else "queued again since"
        case _:
            return "unknown"


def _stayed(attempt: int, job: JobFacts) -> bool:
    return job.state == "cancelled" and job.attempt == attempt


def _of_attempt(attempt: int, job: JobFacts, runs: Sequence[RunRow]) -> str:
    ended = [run for run in runs if run.attempt == attempt and run.outcome not in LATE]
    if job.attempt < attempt:
        return _before_it_ran(attempt, job)
    if job.attempt == attempt and job.state in {"running", "completed"}:
        verb = "is running" if job.state == "running" else "completed"
        return f"attempt {attempt} {verb}"
    if ended:
        return f"attempt {attempt} {said(ended[-1].outcome)}"
    return f"attempt {attempt}: unknown"


def _before_it_ran(attempt: int, job: JobFacts) -> str:
    if job.state == "cancelled":
        return "cancelled before it ran"
    return f"attempt {attempt} has not begun"


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
    if job.state in {"running", "completed"} and job.attempt not in recorded:
        yield from _begun(job.attempt, job.worker, job.child_pid, job.claimed_at, job.started_at)
    if job.state == "completed":
        yield Moment("completed", job.ended_at, _TONES["completed"], job.attempt, job.worker)
    if job.state == "needs_review":
        yield Moment("review", job.entered_at, _TONES["review"], job.attempt, job.worker)


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
