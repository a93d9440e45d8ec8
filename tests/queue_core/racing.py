"""Two who race for one job: who moves it first, and whether the second waits for them."""

import time
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import psycopg
from psycopg.rows import DictRow

from queue_core import (
    assign,
    cancel,
    close,
    confirm,
    fleet,
    note,
    release,
    retry,
    reveal,
)
from queue_core.outcomes import Completed, Deferred, Failed, RunReport, Stopped, Unreadable
from queue_core.transitions.claim import Claimable, claim
from queue_core.transitions.complete import complete
from queue_core.transitions.defer import defer
from queue_core.transitions.dispute import dispute
from queue_core.transitions.fail import fail
from queue_core.transitions.give_back import give_back
from queue_core.transitions.promote import promote
from queue_core.transitions.recover import recover
from queue_core.transitions.set_aside import set_aside
from queue_core.transitions.stop import stop

Conn = psycopg.Connection[DictRow]
PATIENCE = 20.0
MAIL = [Claimable("mail.send", 3)]
SIGNED: dict[str, Any] = {"by": "ops:alice", "reason": "seen_in_test"}
GOOD_FOR_NOTHING = Failed("no", retryable=False)
CRASHED = Failed("crashed: signal 9", outcome="crashed", signal=9)


@dataclass
class Arena:
    """Two who race, and one who watches. What the first does is held open."""

    first: Conn
    second: Conn
    watch: Conn

    def waits(self, racing: Future[Any]) -> bool:
        """Say whether the second waits for a lock, or False once it is done without."""
        query = "SELECT wait_event_type AS wait FROM pg_stat_activity WHERE pid = %s"
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if racing.done():
                return False
            (activity,) = self.watch.execute(query, [self.second.info.backend_pid]).fetchall()
            if activity["wait"] == "Lock":
                return True
            time.sleep(0.002)
        raise AssertionError("the second neither waits nor ends")

    def stands(self, job: UUID) -> str:
        """Return the state of a job, having seen that it is in exactly one place."""
        query = "SELECT state FROM countersign.job_states WHERE id = %s"
        (place,) = self.watch.execute(query, [job]).fetchall()
        return place["state"]

    def acts(self, job: UUID) -> list[str]:
        query = "SELECT act FROM countersign.acts WHERE subject_id = %s ORDER BY id"
        return [row["act"] for row in self.watch.execute(query, [job]).fetchall()]


# Who moves a job, and what came of it in a word


def claims(conn: Conn, made: Any) -> str:
    runs = claim(conn, worker=uuid.uuid4(), names=MAIL, queues=[made.queue], count=1)
    return "claimed" if runs else "nothing"


def _reports(ending: Any, transition: Callable[..., Any]) -> Callable[[Conn, Any], str]:
    def do(conn: Conn, made: Any) -> str:
        report = RunReport(made.id, made.attempt, ending, wait=600.0)
        moved = transition(conn, made.worker, [report])
        return moved[0].state if moved else "nothing"

    return do


completes = _reports(Completed(), complete)
fails = _reports(Failed("busy"), fail)
fails_for_good = _reports(GOOD_FOR_NOTHING, fail)
crashes = _reports(CRASHED, fail)
stops = _reports(Stopped("Stopped: 3 of 10"), stop)
defers = _reports(Deferred(600.0), defer)
sets_aside = _reports(Unreadable("not JSON"), set_aside)
disputes = _reports(Completed(), dispute)


def gives_back(conn: Conn, made: Any) -> str:
    moved = give_back(conn, made.worker, [(made.id, made.attempt)])
    return moved[0].state if moved else "nothing"


def recovers(conn: Conn, made: Any) -> str:
    moved = recover(conn, worker=made.worker)
    return moved[0].state if moved else "nothing"


def promotes(conn: Conn, made: Any) -> str:
    promote(conn)
    here = "SELECT FROM countersign.ready WHERE id = %s"
    return "promoted" if conn.execute(here, [made.id]).rowcount else "nothing"


def _acts(verb: Callable[..., Any]) -> Callable[[Conn, Any], str]:
    def do(conn: Conn, made: Any) -> str:
        (outcome,) = verb(conn, [made.id], **SIGNED)
        return outcome.why or outcome.act

    return do


def _marks(verb: Callable[..., Any], **more: Any) -> Callable[[Conn, Any], str]:
    def do(conn: Conn, made: Any) -> str:
        outcome = verb(conn, made.id, **SIGNED, **more)
        return outcome.why or outcome.act

    return do


ACTS = {
    *("cancelled", "cancel_requested", "retried", "released", "confirmed", "closed"),
    *("assigned", "noted", "revealed"),
}
cancels, retries, releases = _acts(cancel), _acts(retry), _acts(release)
confirms, closes = _acts(confirm), _acts(close)
assigns, notes, reveals = _marks(assign), _marks(note, note="Looked."), _marks(reveal)


def cancels_what_was_ready(conn: Conn, made: Any) -> str:
    (outcome,) = cancel(conn, [made.id], seen={made.id: ("ready", 0)}, **SIGNED)
    return outcome.why or outcome.act


# How it stood before


def and_its_worker_is_lost(conn: Conn, made: Any) -> Any:
    fleet.give_up(conn, made.worker)
    return made


def and_its_run_was_lost(conn: Conn, made: Any) -> Any:
    """Ready again; `made` is still the run that was given up on."""
    fleet.give_up(conn, made.worker)
    recover(conn, worker=made.worker)
    return made


@dataclass(frozen=True)
class Newer:
    """A job that runs anew, seen by its newer run (as `made` is) or, for disputes, its older."""

    id: UUID
    attempt: int
    queue: str
    worker: UUID
    older: Any


def and_it_runs_anew(conn: Conn, made: Any) -> Newer:
    and_its_run_was_lost(conn, made)
    worker = uuid.uuid4()
    (run,) = claim(conn, worker=worker, names=MAIL, queues=[made.queue], count=1)
    return Newer(made.id, run.attempt, made.queue, worker, made)


def the_older_disputes(conn: Conn, newer: Any) -> str:
    return disputes(conn, newer.older)


def another_run_disputes(conn: Conn, made: Any) -> str:
    moved = dispute(conn, uuid.uuid4(), [RunReport(made.id, 1, Completed())])
    return moved[0].state if moved else "nothing"


@dataclass(frozen=True)
class Race:
    """Who moves a job first and holds it, who comes second, and what comes of both.

    Ends are (the job's state, the second's answer): after the first's commit and rollback.
    """

    place: str
    first: Callable[[Conn, Any], str]
    second: Callable[[Conn, Any], str]
    committed: tuple[str, str]
    rolled_back: tuple[str, str]
    given: Callable[[Conn, Any], Any] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    waits: bool = True


SIGNING = {
    *(cancels, cancels_what_was_ready, retries, releases, confirms, closes),
    *(assigns, notes, reveals),
}


def end_as_they_should(arena: Arena, job_in: Callable[..., Any], race: Race, ends: str) -> None:
    """Let both of a race go, and see where the job stands, what was answered and what is signed."""
    made = job_in(arena.watch, race.place, **race.options)
    made = race.given(arena.watch, made) if race.given else made
    first = race.first(arena.first, made)
    with ThreadPoolExecutor(1) as pool:
        racing = pool.submit(race.second, arena.second, made)
        waited = arena.waits(racing)
        (arena.first.commit if ends == "committed" else arena.first.rollback)()
        second = racing.result(PATIENCE)
    assert (arena.stands(made.id), second) == getattr(race, ends)
    assert waited is race.waits
    answers = {race.first: first} if ends == "committed" else {}
    done = [*answers.items(), (race.second, second)]
    signed = [answer for who, answer in done if who in SIGNING and answer in ACTS]
    assert arena.acts(made.id) == signed
