"""What the design says of every move, in plain Python: no SQL and no code of the core's own.

A view is what one transaction sees. Each move takes it, the transaction's `now()` and what the
core's function is given, changes the view, and answers as that function should.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from queue_core.acts import ActOutcome
from queue_core.fleet import Asked, Held, Started
from queue_core.jobs import NewJob
from queue_core.outcomes import Completed, Failed, Moved, RunReport, Stopped
from queue_core.states import STATES
from queue_core.transitions.claim import Claimable, Claimed
from tests.queue_core.model.facts import (
    Acted,
    Body,
    Ended,
    Fact,
    Job,
    Place,
    Queue,
    Queued,
    Ran,
    Reviewed,
    Running,
    Tallies,
    Worker,
    queue_key,
)

ABANDONED = "abandoned by its worker"
QUEUED_STATES = {"ready", "waiting", "blocked"}
QUEUES = ("default", "slow")
VERBS = {
    "cancel": ({*QUEUED_STATES, "running"}, "cancelled"),
    "retry": ({"failed", "cancelled"}, "retried"),
    "release": ({"needs_review"}, "released"),
    "confirm": ({"needs_review"}, "confirmed"),
    "close": ({"needs_review"}, "closed"),
    "assign": ({"needs_review", "failed"}, "assigned"),
    "note": ({"needs_review", "failed"}, "noted"),
    "reveal": (set(STATES), "revealed"),
}
"""Where each act applies, and what it is called in a refusal."""
Seen = Mapping[UUID, tuple[str, int]]


@dataclass
class View:
    """What a transaction sees: what others committed, under its own changes.

    `hidden` is what another holds locked; `touched` collects what this one locks,
    `tallies` what it counted.
    """

    committed: Mapping[UUID, Fact]
    changes: dict[UUID, Fact]
    hidden: frozenset[UUID] = frozenset()
    touched: set[UUID] = field(default_factory=set)
    tallies: Tallies = field(default_factory=Counter)

    def job(self, key: UUID) -> Job | None:
        found = self.changes.get(key) or self.committed.get(key)
        return found if isinstance(found, Job) else None

    def worker(self, key: UUID) -> Worker | None:
        found = self.changes.get(key) or self.committed.get(key)
        return found if isinstance(found, Worker) else None

    def queue(self, name: str) -> Queue:
        found = self.changes.get(queue_key(name)) or self.committed.get(queue_key(name))
        return found if isinstance(found, Queue) else Queue()

    def put(self, key: UUID, fact: Fact) -> None:
        self.changes[key] = fact
        self.touched.add(key)

    def all(self) -> Mapping[UUID, Fact]:
        return {**self.committed, **self.changes}

    def standing(self, kind: type[Place], table: str | None = None) -> Iterator[tuple[UUID, Any]]:
        """Yield the ids and places of the jobs that stand there."""
        for key, fact in self.all().items():
            place = fact.place if isinstance(fact, Job) else None
            if isinstance(place, kind) and table in {None, getattr(place, "table", None)}:
                yield key, place

    def move(self, key: UUID, place: Place, *told: Ran, act: Acted | None = None) -> None:
        """Bring a job to a place, with the runs and the act that tell of it."""
        job = self.job(key)
        assert job
        self._tally(job, place)
        runs = tuple(sorted((*job.runs, *told), key=lambda ran: (ran.attempt, ran.outcome)))
        self.put(key, replace(job, place=place, runs=runs, acts=job.acts + (act,) * bool(act)))

    def _tally(self, job: Job, place: Place) -> None:
        """Count a job that enters or leaves what has ended."""
        if isinstance(place, Ended) and not isinstance(job.place, Ended):
            took = place.ended_at - (place.started_at or place.ended_at)
            self.tallies[job.body.name, place.state, "entered"] += 1
            self.tallies[job.body.name, place.state, "timed"] += place.started_at is not None
            self.tallies[job.body.name, place.state, "us"] += took // timedelta(microseconds=1)
        if isinstance(job.place, Ended) and not isinstance(place, Ended):
            self.tallies[job.body.name, job.place.state, "removed"] += 1


# Asked for


def enqueue(
    view: View,
    now: datetime,
    asked: Iterable[tuple[UUID, NewJob]],
    signed: "Signed | None" = None,
) -> None:
    for key, new in asked:
        run_at = new.run_at or now + timedelta(seconds=new.delay or 0)
        queue = new.queue or "default"
        body = Body(
            new.name, queue, dict(new.args), new.priority, new.attempts, new.time_limit, now
        )
        table = "ready" if run_at <= now else "waiting"
        place = Queued(table, queue, new.name, -new.priority, run_at, 0, new.attempts)
        acts = (signed.act("enqueued", body, 0),) if signed else ()
        view.put(key, Job(body, place, acts=acts))


def promote(view: View, now: datetime, limit: int) -> int:
    due = [
        (place.run_at, key, place)
        for key, place in view.standing(Queued, "waiting")
        if place.run_at <= now and key not in view.hidden
    ]
    moved = sorted(due, key=lambda each: each[:2])[:limit]
    for _, key, place in moved:
        view.move(key, replace(place, table="ready"))
    return len(moved)


def claim(
    view: View,
    now: datetime,
    worker: UUID,
    names: Sequence[Claimable],
    queues: Sequence[str] | None,
    count: int,
) -> list[Claimed]:
    handled = {each.name: each for each in names}
    paused = {name for name in QUEUES if view.queue(name).paused_at}
    fit = [
        (place.rank, place.run_at, key, place)
        for key, place in view.standing(Queued, "ready")
        if place.name in handled
        and place.queue not in paused
        and (queues is None or place.queue in queues)
    ]
    best = sorted(fit, key=lambda each: each[:3])
    free = [each for each in best if each[2] not in view.hidden]
    return [_claimed(view, now, worker, each[2], handled) for each in free[:count]]


def _claimed(
    view: View, now: datetime, worker: UUID, key: UUID, handled: Mapping[str, Claimable]
) -> Claimed:
    job = view.job(key)
    assert job
    place = job.place
    assert isinstance(place, Queued)
    by = handled[place.name]
    run = Running(
        place.attempt + 1,
        worker,
        now,
        place.queue,
        place.name,
        place.rank,
        place.run_at,
        place.attempts_allowed or by.attempts,
        by.on_lost,
        safe_to_repeat=by.safe_to_repeat,
    )
    view.move(key, run)
    limit = job.body.time_limit or by.time_limit
    return Claimed(
        key,
        run.attempt,
        run.name,
        run.queue,
        job.body.args,
        limit,
        run.attempts_allowed,
        run.on_lost,
        now,
    )


# How runs end


def _taken(view: View, now: datetime, worker: UUID, report: RunReport) -> Running | None:
    """Return the run that a report is about, if it holds its claim, with what the report adds."""
    job = view.job(report.id)
    place = job.place if job else None
    if not isinstance(place, Running) or (place.attempt, place.worker) != (report.attempt, worker):
        return None
    return replace(
        place,
        started_at=place.started_at or _began(now, report.seconds),
        child_pid=place.child_pid if report.child_pid is None else report.child_pid,
    )


def _began(now: datetime, seconds: float | None) -> datetime | None:
    return None if seconds is None else now - timedelta(seconds=seconds)


def _ran(run: Running, now: datetime, outcome: str, **told: Any) -> Ran:
    known = {"child_pid": run.child_pid, "claimed_at": run.claimed_at, "started_at": run.started_at}
    return Ran(run.attempt, outcome, now, worker=run.worker, **known, **told)


def _ended(run: Running, now: datetime, state: str, **told: Any) -> Ended:
    return Ended(state, run.attempt, now, worker=run.worker, started_at=run.started_at, **told)


def _reviewed(run: Running, now: datetime, why: str, **told: Any) -> Reviewed:
    known = {"claimed_at": run.claimed_at, "started_at": run.started_at, "child_pid": run.child_pid}
    return Reviewed(now, why, run.attempt, run.worker, **known, **told)


def _queued(run: Running, table: str, run_at: datetime, more: int = 0) -> Queued:
    allowed = run.attempts_allowed + more
    return Queued(table, run.queue, run.name, run.rank, run_at, run.attempt, allowed)


Ends = Callable[[View, datetime, UUID, Sequence[RunReport]], list[Moved]]


def _each(
    ends: Callable[[View, datetime, RunReport, Running], tuple[Place, Ran | None]],
) -> Ends:
    """Make a move of a batch of the way that one run ends."""

    def batch(view: View, now: datetime, worker: UUID, reports: Sequence[RunReport]) -> list[Moved]:
        moved: list[Moved] = []
        for report in reports:
            run = _taken(view, now, worker, report)
            if run:
                place, ran = ends(view, now, report, run)
                view.move(report.id, place, *((ran,) if ran else ()))
                moved.append(_moved(view, now, report.id, run.attempt))
        return moved

    return batch


def _moved(view: View, now: datetime, key: UUID, attempt: int) -> Moved:
    job = view.job(key)
    assert job
    # A job put back for no time at all is told as waiting: that is where it stands.
    state = job.place.table if isinstance(job.place, Queued) else job.state(now)
    return Moved(key, attempt, state)  # pyright: ignore[reportArgumentType]


@_each
def complete(
    view: View, now: datetime, report: RunReport, run: Running
) -> tuple[Place, Ran | None]:
    assert isinstance(report.ending, Completed)
    result = None if report.ending.result is None else int(report.ending.result)
    return _ended(run, now, "completed", result=result), None


@_each
def fail(view: View, now: datetime, report: RunReport, run: Running) -> tuple[Place, Ran | None]:
    failed = report.ending
    assert isinstance(failed, Failed)
    error = {
        "error": failed.error,
        "error_type": failed.error_type,
        "error_place": failed.error_place,
    }
    ran = _ran(run, now, failed.outcome, signal=failed.signal, traceback=failed.traceback, **error)
    crashed = failed.outcome == "crashed"
    review = {"signal": failed.signal, "error": failed.error}
    if crashed and run.on_lost == "review":
        return _reviewed(run, now, "crashed", **review), ran
    if run.stop_requested_at:
        return _ended(run, now, "cancelled", uncertain=crashed, **error), ran
    job = view.job(report.id)
    if crashed and job and any(each.outcome == "crashed" for each in job.runs):
        return _reviewed(run, now, "crashed_again", **review), ran
    if failed.retryable and run.attempt < run.attempts_allowed:
        wait = report.wait if failed.retry_after is None else failed.retry_after
        return _queued(run, "waiting", now + timedelta(seconds=wait)), ran
    return _ended(run, now, "failed", uncertain=crashed, **error), ran


@_each
def defer(view: View, now: datetime, report: RunReport, run: Running) -> tuple[Place, Ran | None]:
    ran = _ran(run, now, "deferred")
    if run.stop_requested_at:
        return _ended(run, now, "cancelled"), ran
    wait = timedelta(seconds=report.ending.seconds)  # pyright: ignore[reportAttributeAccessIssue]
    return _queued(run, "waiting", now + wait, more=1), ran


@_each
def stop_run(
    view: View, now: datetime, report: RunReport, run: Running
) -> tuple[Place, Ran | None]:
    halt = report.ending
    assert isinstance(halt, Stopped)
    outcome = "stopped" if run.stop_requested_at else "returned"
    ran = _ran(run, now, outcome, error=halt.error)
    if run.stop_requested_at:
        return _ended(run, now, "cancelled", uncertain=halt.killed, error=halt.error), ran
    return _queued(run, "ready", run.run_at, more=1), ran


@_each
def set_aside(
    view: View, now: datetime, report: RunReport, run: Running
) -> tuple[Place, Ran | None]:
    error = report.ending.error  # pyright: ignore[reportAttributeAccessIssue]
    return _reviewed(run, now, "unreadable", error=error), _ran(run, now, "failed", error=error)


@_each
def _give_back(
    view: View, now: datetime, report: RunReport, run: Running
) -> tuple[Place, Ran | None]:
    # It never began, whatever a beat told of it.
    ran = Ran(run.attempt, "returned", now, worker=run.worker, claimed_at=run.claimed_at)
    if run.stop_requested_at:
        return Ended("cancelled", run.attempt, now, worker=run.worker), ran
    return _queued(run, "ready", run.run_at, more=1), ran


def give_back(
    view: View, now: datetime, worker: UUID, runs: Sequence[tuple[UUID, int]]
) -> list[Moved]:
    reports = [RunReport(key, attempt, Completed()) for key, attempt in runs]
    return _give_back(view, now, worker, reports)


def recover(view: View, now: datetime, worker: UUID | None, limit: int) -> list[Moved]:
    orphans = sorted(
        (key, run)
        for key, run in view.standing(Running)
        if key not in view.hidden
        and worker in {None, run.worker}
        and not ((found := view.worker(run.worker)) and found.lives)
    )
    for key, run in orphans[:limit]:
        ran = _ran(run, now, "lost", error=ABANDONED)
        more = int(_is_spared(view.job(key), run))
        if run.on_lost == "review":
            view.move(key, _reviewed(run, now, "lost", error=ABANDONED), ran)
        elif run.stop_requested_at or run.attempt >= run.attempts_allowed + more:
            state = "cancelled" if run.stop_requested_at else "failed"
            view.move(key, _ended(run, now, state, uncertain=True, error=ABANDONED), ran)
        else:
            view.move(key, _queued(run, "ready", run.run_at, more), ran)
    return [_moved(view, now, key, run.attempt) for key, run in orphans[:limit]]


def _is_spared(job: Job | None, run: Running) -> bool:
    """Say whether a run claimed ahead had not begun, for all that is known: that is free, once."""
    lost_before = job and any(ran.outcome == "lost" for ran in job.runs)
    return run.safe_to_repeat and run.started_at is None and not lost_before


# Reports of runs that were given up on


def dispute(view: View, now: datetime, worker: UUID, reports: Sequence[RunReport]) -> list[Moved]:
    """Take one report a job: what a worker says of two runs of one job comes in two calls."""
    return [moved for each in reports for moved in _dispute(view, now, worker, each)]


def _dispute(view: View, now: datetime, worker: UUID, report: RunReport) -> list[Moved]:
    job = view.job(report.id)
    if not job:
        return []
    view.touched.add(report.id)
    if _taken(view, now, worker, report):
        return []
    told: list[Ran] = []
    late = _late(now, worker, report)
    if all((ran.attempt, ran.outcome) != (late.attempt, late.outcome) for ran in job.runs):
        told.append(late)
    place = job.place
    if isinstance(place, Reviewed) or (isinstance(place, Ended) and place.state != "failed"):
        view.move(report.id, place, *told)
        return []
    if isinstance(place, Running):
        taken = "its claim was taken: an earlier run of the job reported after all"
        told.append(_ran(place, now, "lost", error=taken))
    review = Reviewed(
        now,
        "disputed",
        place.attempt,
        worker,
        started_at=late.started_at,
        child_pid=late.child_pid,
        signal=late.signal,
        error=f"attempt {report.attempt} reported after it was given up",
    )
    view.move(report.id, review, *told)
    return [_moved(view, now, report.id, place.attempt)]


def is_disputable(view: View, key: UUID, now: datetime) -> bool:
    """Say whether a late report could move the job."""
    job = view.job(key)
    return bool(job) and job.state(now) not in {"completed", "cancelled", "needs_review"}


def _late(now: datetime, worker: UUID, report: RunReport) -> Ran:
    match report.ending:
        case Failed() as failed:
            pass
        case Stopped(error=error):
            failed = Failed(error)
        case _:
            failed = Failed("")
    return Ran(
        report.attempt,
        "late_completed" if isinstance(report.ending, Completed) else "late_failed",
        now,
        worker=worker,
        child_pid=report.child_pid,
        signal=failed.signal,
        started_at=_began(now, report.seconds),
        error=failed.error or None,
        error_type=failed.error_type,
        error_place=failed.error_place,
        traceback=failed.traceback,
    )


def own_record(view: View, worker: UUID, runs: Iterable[tuple[UUID, int]]) -> set[tuple[UUID, int]]:
    return {(key, attempt) for key, attempt in runs if _is_own(view.job(key), worker, attempt)}


def _is_own(job: Job | None, worker: UUID, attempt: int) -> bool:
    if not job:
        return False
    match job.place:
        case Ended(state="completed") as done if (done.worker, done.attempt) == (worker, attempt):
            return True
        case _:
            pass
    given_up = {"lost", "late_completed", "late_failed"}
    return any(
        (ran.worker, ran.attempt) == (worker, attempt) and ran.outcome not in given_up
        for ran in job.runs
    )


# Acts


@dataclass(frozen=True)
class Signed:
    """Who signs, why, and what they saw."""

    by: str
    reason: str
    note: str | None = None
    bulk_id: UUID | None = None
    via: str = "code"
    kill_after: int | None = None

    def given(self) -> dict[str, Any]:
        """Return what every act of the core is given by name."""
        return {"by": self.by, "reason": self.reason, "note": self.note, "via": self.via}

    def act(self, act: str, body: Body, attempt: int) -> Acted:
        return self.on(act, body.name, attempt)

    def on(self, act: str, name: str, attempt: int | None = None) -> Acted:
        return Acted(
            self.by,
            act,
            name,
            attempt,
            self.reason,
            self.note,
            self.bulk_id,
            self.via,
            self.kill_after if act == "cancel_requested" else None,
        )


def perform(
    view: View, now: datetime, verb: str, keys: Sequence[UUID], signed: Signed, seen: Seen
) -> list[ActOutcome]:
    return [
        _refused(verb, key, view.job(key), now, seen.get(key), signed.kill_after)
        or _applied(view, now, verb, key, signed)
        for key in dict.fromkeys(keys)
    ]


def _refused(
    verb: str,
    key: UUID,
    job: Job | None,
    now: datetime,
    saw: tuple[str, int] | None,
    kill_after: int | None,
) -> ActOutcome | None:
    sources, asked = VERBS[verb]
    if not job:
        return ActOutcome(key, False, asked, None, None, None, "not_found")
    state: Any = job.state(now)
    found = (key, False, asked, None, state, job.place.attempt)
    if saw and (_kind(saw[0]), saw[1]) != (_kind(state), job.place.attempt):
        return ActOutcome(*found, why="moved_on")
    if state not in sources:
        return ActOutcome(*found, why="wrong_state")
    if verb == "cancel" and isinstance(job.place, Running) and job.place.stop_requested_at:
        adds = kill_after is not None and job.place.kill_after is None
        return None if adds else ActOutcome(*found, why="already_asked")
    return None


def _kind(state: str) -> str:
    return "queued" if state in QUEUED_STATES else state


def _applied(view: View, now: datetime, verb: str, key: UUID, signed: Signed) -> ActOutcome:
    job = view.job(key)
    assert job
    attempt = job.place.attempt
    place, act = _acted(verb, job, now, signed.kill_after)
    view.move(key, place, act=signed.act(act, job.body, attempt))
    after = view.job(key)
    assert after
    state: Any = after.state(now)
    return ActOutcome(key, True, act, 0, state, attempt)


def _acted(verb: str, job: Job, now: datetime, kill_after: int | None) -> tuple[Place, str]:
    place, body = job.place, job.body
    match verb:
        case "cancel" if isinstance(place, Running):
            since = place.stop_requested_at or now
            asked = replace(place, stop_requested_at=since, kill_after=kill_after)
            return asked, "cancel_requested"
        case "cancel":
            return Ended("cancelled", place.attempt, now), "cancelled"
        case "assign" | "note" | "reveal":
            return place, VERBS[verb][1]
        case "confirm":
            return Ended("completed", place.attempt, now), "confirmed"
        case "close":
            assert isinstance(place, Reviewed)
            uncertain = place.why != "unreadable"
            kept = Ended("cancelled", place.attempt, now, uncertain=uncertain, error=place.error)
            return kept, "closed"
        case _:
            again = Queued(
                "ready",
                body.queue,
                body.name,
                -body.priority,
                now,
                place.attempt,
                place.attempt + 1,
            )
            return again, VERBS[verb][1]


def clear(view: View, now: datetime, queue: str, limit: int, signed: Signed) -> int:
    """Cancel what is queued, in the order of the tables."""
    ready = [
        ((0, place.name, place.rank, place.run_at, key), place)
        for key, place in view.standing(Queued, "ready")
    ]
    waiting = [((1, place.run_at, key), place) for key, place in view.standing(Queued, "waiting")]
    queued: list[Any] = [each for each in (*ready, *waiting) if each[1].queue == queue]
    cleared = [order[-1] for order, _ in sorted(queued, key=lambda each: each[0])][:limit]
    for key in cleared:
        _applied(view, now, "cancel", key, signed)
    return len(cleared)


def pause(view: View, now: datetime, name: str, signed: Signed) -> bool:
    """Say whether it was paused now; whether it is already is known only when others are done."""
    if queue_key(name) in view.hidden:
        view.touched.add(queue_key(name))
    return not view.queue(name).paused_at and _queue(view, name, now, signed.on("paused", name))


def resume(view: View, now: datetime, name: str, signed: Signed) -> bool:
    del now
    paused_at = view.queue(name).paused_at
    return bool(paused_at) and _queue(view, name, None, signed.on("resumed", name))


def _queue(view: View, name: str, paused_at: datetime | None, act: Acted) -> bool:
    view.put(queue_key(name), Queue(paused_at, (*view.queue(name).acts, act)))
    return True


# Workers


def beat(view: View, now: datetime, key: UUID, began: Sequence[Started]) -> list[Held] | None:
    worker = view.worker(key)
    if not worker or not worker.lives:
        return None
    view.put(key, replace(worker, silent=False))
    for each in began:
        job = view.job(each.id)
        run = job.place if job else None
        if not isinstance(run, Running) or run.started_at:
            continue
        if (run.attempt, run.worker) == (each.attempt, key):
            started = now - timedelta(seconds=each.seconds)
            view.move(each.id, replace(run, child_pid=each.child_pid, started_at=started))
    return [
        Held(job, run.attempt, run.stop_requested_at is not None)
        for job, run in view.standing(Running)
        if run.worker == key
    ]


def asked_to_stop(view: View, worker: UUID) -> list[Asked]:
    return [
        Asked(job, run.attempt, run.kill_after)
        for job, run in view.standing(Running)
        if run.worker == worker and run.stop_requested_at
    ]


def stop(view: View, now: datetime, key: UUID) -> bool:
    return bool(_gone(view, [key], stopped_at=now))


def drain(view: View, now: datetime, key: UUID) -> None:
    worker = view.worker(key)
    if worker and not worker.draining_at:
        view.put(key, replace(worker, draining_at=now))


def give_up(view: View, now: datetime, key: UUID) -> bool:
    return bool(_gone(view, [key], lost_at=now, lost_by=key, lost_rule="gave_up"))


def bury_dead(view: View, now: datetime, by: UUID, dead: Sequence[UUID]) -> list[UUID]:
    return _gone(view, dead, lost_at=now, lost_by=by, lost_rule="same_host")


def bury_stale(view: View, now: datetime, by: UUID) -> list[UUID]:
    silent = [
        key
        for key, fact in view.all().items()
        if isinstance(fact, Worker) and fact.silent and key != by
    ]
    return _gone(view, silent, lost_at=now, lost_by=by, lost_rule="stale")


def _gone(view: View, keys: Sequence[UUID], **how: Any) -> list[UUID]:
    gone: list[UUID] = []
    for key in keys:
        worker = view.worker(key)
        if worker and worker.lives:
            view.put(key, replace(worker, **how))
            gone.append(key)
    return gone
