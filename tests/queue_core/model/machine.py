"""Two connections that make any moves in any order, beside the model: hypothesis chooses which.

Each step is one call of the core, in the transaction of one of two parties. Then it is committed,
rolled back, or held open while the other goes on. Where the other holds what a call needs, the
call has to wait until the other's transaction ends, or to give up as contended; what is locked by
others is passed over by those that pass over. After every step the committed part of the whole
database is compared with the model.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any, NamedTuple
from uuid import UUID

import psycopg
import pytest
from hypothesis import event
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from psycopg.rows import tuple_row

from queue_core import (
    ContendedError,
    NewJob,
    assign,
    cancel,
    clear_queue,
    close,
    confirm,
    enqueue_many,
    enqueue_signed,
    fleet,
    note,
    pause_queue,
    release,
    resume_queue,
    retry,
    reveal,
)
from queue_core.acts import ActOutcome
from queue_core.errors import QueueRefusedError
from queue_core.jobs import decode
from queue_core.outcomes import Completed, Deferred, Ending, Failed, RunReport, Stopped, Unreadable
from queue_core.queries.counts import counts
from queue_core.queries.runs import own_record
from queue_core.states import STATES
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
from tests.partitions import keep_weeks
from tests.queue_core.model import moves
from tests.queue_core.model.facts import Fact, Job, Queued, Running, Tallies, Worker
from tests.queue_core.model.moves import QUEUES, Signed, View
from tests.queue_core.model.reading import PREPARE, read

NAMES = ("mail.send", "mail.read")
PATIENCE = 60.0
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
ACTS: dict[str, Callable[..., list[ActOutcome]]] = {
    "cancel": cancel,
    "retry": retry,
    "release": release,
    "confirm": confirm,
    "close": close,
    "assign": lambda conn, keys, **given: [assign(conn, key, **given) for key in keys],
    "note": lambda conn, keys, **given: [note(conn, key, **given) for key in keys],
    "reveal": lambda conn, keys, **given: [reveal(conn, key, **given) for key in keys],
}
MARKS = ("assign", "note", "reveal")
UNHINDERED = {"enqueue", "promote", "claim", "recover"}
"""What others hold is nothing to these: they add only, or pass over it."""
IDENTITY = fleet.Identity("pay-3", 4121, "boot-1", "pid:[1]", "0.1.0", [], 4)
MOST_WORKERS = 4
Token = tuple[UUID, int, UUID]
"""A run as its worker knows it: job, attempt, worker."""


@dataclass
class Party:
    """One of the two: a connection, and what its open transaction has changed so far."""

    conn: Any
    now: datetime | None = None
    changes: dict[UUID, Fact] = field(default_factory=dict)
    tallies: Tallies = field(default_factory=Counter)
    locked: set[UUID] = field(default_factory=set)
    perhaps: set[UUID] = field(default_factory=set)
    """Jobs that a claim may have locked without taking them, until its transaction ends."""

    def begin(self) -> datetime:
        """Begin a transaction unless one is open, and return its `now()`."""
        if self.now is None:
            opened = self.conn.execute("BEGIN; SELECT now()")
            opened.nextset()
            (self.now,) = opened.fetchone()
        assert self.now
        return self.now

    def end(self, *, commits: bool) -> None:
        """End the transaction, if one is open."""
        if self.now is not None:
            self.conn.execute("COMMIT" if commits else "ROLLBACK")
        self.now, self.changes, self.tallies = None, {}, Counter()
        self.locked, self.perhaps = set(), set()


@dataclass
class Arena:
    """What all examples share: the connections, the thread in which one waits, what was seen."""

    parties: tuple[Party, Party]
    watch: Any
    owner: Any
    waits: ThreadPoolExecutor
    seen: Counter[tuple[str, str, str]] = field(default_factory=Counter)


CLEAR = """
DELETE FROM countersign.ready;
DELETE FROM countersign.waiting;
DELETE FROM countersign.blocked;
DELETE FROM countersign.running;
DELETE FROM countersign.review;
DELETE FROM countersign.ended;
DELETE FROM countersign.runs;
DELETE FROM countersign.jobs;
DELETE FROM countersign.workers;
DELETE FROM countersign.tallies;
DELETE FROM countersign.queues;
"""
LAST_ACT = "SELECT COALESCE(max(acts.id), 0) FROM countersign.acts"
WAITS = "SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = %s"
TIME_PASSES = """
UPDATE countersign.waiting SET run_at = run_at - interval '2 hours' WHERE id = ANY(%s)
"""
SILENCE = """
UPDATE countersign.workers SET beat_at = beat_at - interval '2 min' WHERE id = ANY(%s)
"""

# What hypothesis chooses among: few choices, each of much, since choosing costs most of the time


class Turn(NamedTuple):
    """Whose transaction a step is in, what comes after, and what if the other is in its way."""

    whose: int
    then: str
    meets: str


class Told(NamedTuple):
    """What a report says beside how the run ended."""

    seconds: float | None
    child_pid: int | None
    wait: float


THEN = ("commit", "commit", "hold", "hold", "hold", "roll back")
MEETS = ("other commits", "other commits", "other rolls back", "gives up")
turns = st.sampled_from([Turn(*each) for each in product((0, 1), THEN, MEETS)])
tellings = st.sampled_from([Told(*each) for each in product((None, 0.5), (None, 101), (0.0, 30.0))])
which = st.integers(0, 7)
some = st.lists(which, min_size=1, max_size=3)
notes = st.sampled_from([None, "looked at the log"])
PLAIN = [
    NewJob(name, {"n": number}, queue, priority, attempts=attempts, time_limit=limit)
    for number, (name, queue, priority, attempts, limit) in enumerate(
        product(NAMES, (None, "slow"), (-1, 0, 1), (None, 1, 2, 3), (None, 30.0))
    )
]
DUE = [
    *PLAIN[::2],
    *(replace(job, run_at=NOON + timedelta(minutes=job.priority)) for job in PLAIN[1::2]),
]
due_jobs = st.lists(st.sampled_from(DUE), min_size=2, max_size=5)
new_jobs = st.lists(
    st.sampled_from([*DUE, *(replace(job, delay=3_600.0) for job in PLAIN[::3])]),
    min_size=1,
    max_size=3,
)
offers = st.sampled_from(
    [
        [Claimable(name, attempts, on_lost, limit, None, safe) for name in names]  # pyright: ignore[reportArgumentType]
        for names, attempts, (on_lost, safe), limit in product(
            (NAMES, NAMES, NAMES[:1]),
            (1, 2, 3),
            (("attempts", False), ("attempts", True), ("review", False), ("review", True)),
            (None, 9.0),
        )
    ]
)
completed = st.sampled_from([Completed(), Completed("7")])
raised = st.sampled_from(
    [
        Failed("ValueError: no", outcome, retryable, retry_after, None, *known)
        for outcome, retryable, retry_after, known in product(
            ("failed", "timed_out"),
            (True, True, False),
            (None, 5.0),
            ((), ("ValueError", "mail:send", "Traceback …")),
        )
    ]
)
CRASHED = Failed("crashed: signal 9", "crashed", signal=9)
STOPPED = (Stopped("Stopped: 3 of 10"), Stopped("killed", killed=True))
put_back = st.sampled_from([Deferred(0.0), Deferred(60.0), *STOPPED])
told_late = completed | raised | st.sampled_from([CRASHED, STOPPED[0]])
seen = st.sampled_from(["nothing", "nothing", "rightly", "an attempt too few", "failed"])
queues = st.sampled_from(QUEUES)
kills = st.sampled_from([None, 30, 60])
bulks = st.sampled_from([None, UUID(int=7)])
FIRST = Turn(0, "commit", "other commits")


ENDS: dict[type[Ending], tuple[str, Callable[..., Any], Callable[..., Any]]] = {
    Completed: ("complete", complete, moves.complete),
    Failed: ("fail", fail, moves.fail),
    Deferred: ("defer", defer, moves.defer),
    Stopped: ("stop", stop, moves.stop_run),
    Unreadable: ("set_aside", set_aside, moves.set_aside),
}


PAUSES: dict[str, tuple[Callable[..., int], Callable[..., bool]]] = {
    "pause": (pause_queue, moves.pause),
    "resume": (resume_queue, moves.resume),
}
GOES: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "drain": (
        lambda conn, gone, _: fleet.drain(conn, gone),
        lambda view, now, gone, _: moves.drain(view, now, gone),
    ),
    "stop": (
        lambda conn, gone, _: fleet.stop(conn, gone),
        lambda view, now, gone, _: moves.stop(view, now, gone),
    ),
    "give_up": (
        lambda conn, gone, _: fleet.give_up(conn, gone),
        lambda view, now, gone, _: moves.give_up(view, now, gone),
    ),
    "bury_dead": (
        lambda conn, gone, by: fleet.bury_dead(conn, by, [gone]),
        lambda view, now, gone, by: moves.bury_dead(view, now, by, [gone]),
    ),
    "bury_stale": (
        lambda conn, _, by: sorted(fleet.bury_stale(conn, by, 60.0)),
        lambda view, now, _, by: sorted(moves.bury_stale(view, now, by)),
    ),
}


class Machine(RuleBasedStateMachine):
    """The rules. A number stands for a job, run or worker: that many on in the list, round."""

    def __init__(self, arena: Arena) -> None:
        super().__init__()
        self.arena = arena
        self.facts: dict[UUID, Fact] = {}
        self.tallies: Tallies = Counter()
        self.ids: list[UUID] = []
        self.crew: list[UUID] = []
        self.runs: list[Token] = []
        (self.acts_before,) = arena.watch.execute(LAST_ACT).fetchone()

    @initialize(
        asked=due_jobs,
        offered=offers,
        count=st.integers(0, 4),
        past=st.sampled_from(["", "", "crashed", "lost"]),
    )
    def starts(self, asked: list[NewJob], offered: list[Claimable], count: int, past: str) -> None:
        """Begin with two workers, and jobs of which some may run, perhaps once more."""
        for _ in range(2):
            self.a_worker_joins()
        self.enqueues(FIRST, asked, by_hand=False, note=None)
        if count:
            self.claims(FIRST, 0, offered, None, count)
        if past == "crashed":
            self.crashes(FIRST, 0, count, Told(None, None, 0.0))
            self.promotes(FIRST, 1_000, later=False)
        elif past:
            self.recovers(FIRST, 0, None, 1_000)
            self.a_worker_joins()
        if past:
            self.claims(FIRST, 0 if past == "crashed" else 1, offered, None, count or 1)

    def teardown(self) -> None:
        """End what is open, count, and leave nothing to the next example but the ledger."""
        for party in self.arena.parties:
            party.end(commits=False)
        try:
            self.counted()
        finally:
            self.arena.owner.execute(CLEAR)

    # Asked for

    @rule(turn=turns, asked=new_jobs, by_hand=st.booleans(), note=notes)
    def enqueues(self, turn: Turn, asked: list[NewJob], *, by_hand: bool, note: str | None) -> None:
        """Ask for jobs in one call, or for the first of them by hand."""
        made: list[UUID] = []
        signed = Signed("ops:alice", "asked_for", note)

        def do(conn: Any) -> None:
            if by_hand:
                made.append(enqueue_signed(conn, asked[0], **signed.given()).id)
            else:
                made.extend(each.id for each in enqueue_many(conn, asked))

        def expected(view: View, now: datetime) -> None:
            moves.enqueue(view, now, zip(made, asked, strict=False), signed if by_hand else None)

        self._step(turn, "enqueue", do, expected)
        self.ids += made

    @precondition(lambda self: self.any_in("waiting"))
    @rule(turn=turns, limit=st.sampled_from([1, 1_000]), later=st.booleans())
    def promotes(self, turn: Turn, limit: int, *, later: bool) -> None:
        if later:
            self.time_passes()
        self._step(
            turn,
            "promote",
            lambda conn: promote(conn, limit=limit),
            lambda view, now: moves.promote(view, now, limit),
        )

    @rule(
        turn=turns,
        worker=which,
        offered=offers,
        queues=st.sampled_from([None, None, QUEUES[:1], QUEUES]),
        count=st.integers(1, 4),
    )
    def claims(
        self,
        turn: Turn,
        worker: int,
        offered: list[Claimable],
        queues: Sequence[str] | None,
        count: int,
    ) -> None:
        by = pick(self.crew, worker)
        claimed = self._step(
            turn,
            "claim",
            lambda conn: [
                replace(run, args=decode(run.args or ""))
                for run in claim(conn, worker=by, names=offered, queues=queues, count=count)
            ],
            lambda view, now: moves.claim(view, now, by, offered, queues, count),
        )
        self.runs += [(run.id, run.attempt, by) for run in claimed]

    # How runs end

    @precondition(lambda self: self.runs)
    @rule(turn=turns, run=which, more=st.integers(0, 2), ending=completed, told=tellings)
    def completes(self, turn: Turn, run: int, more: int, ending: Ending, told: Told) -> None:
        self._ends(turn, run, more, ending, told)

    @precondition(lambda self: self.runs)
    @rule(turn=turns, run=which, more=st.integers(0, 2), ending=raised, told=tellings)
    def fails(self, turn: Turn, run: int, more: int, ending: Ending, told: Told) -> None:
        self._ends(turn, run, more, ending, told)

    @precondition(lambda self: self.runs)
    @rule(turn=turns, run=which, more=st.integers(0, 1), told=tellings)
    def crashes(self, turn: Turn, run: int, more: int, told: Told) -> None:
        self._ends(turn, run, more, CRASHED, told)

    @precondition(lambda self: self.runs)
    @rule(turn=turns, run=which, more=st.integers(0, 1), told=tellings)
    def sets_aside(self, turn: Turn, run: int, more: int, told: Told) -> None:
        self._ends(turn, run, more, Unreadable("not JSON"), told)

    @precondition(lambda self: self.runs)
    @rule(turn=turns, run=which, more=st.integers(0, 2), ending=put_back, told=tellings)
    def defers_or_stops(self, turn: Turn, run: int, more: int, ending: Ending, told: Told) -> None:
        self._ends(turn, run, more, ending, told)

    def _ends(self, turn: Turn, run: int, more: int, ending: Ending, told: Told) -> None:
        """Report runs of one worker: some that hold their claim, perhaps, and some that do not."""
        worker, tokens = self._tokens(turn, run, more)
        reports = [RunReport(job, attempt, ending, *told) for job, attempt in tokens]
        verb, transition, model = ENDS[type(ending)]
        self._step(
            turn,
            verb,
            lambda conn: by_id(transition(conn, worker, reports)),
            lambda view, now: by_id(model(view, now, worker, reports)),
        )

    @precondition(lambda self: self.runs)
    @rule(turn=turns, run=which, more=st.integers(0, 2))
    def gives_back(self, turn: Turn, run: int, more: int) -> None:
        self._returns(turn, *self._tokens(turn, run, more))

    def _returns(self, turn: Turn, worker: UUID, tokens: list[tuple[UUID, int]]) -> None:
        self._step(
            turn,
            "give_back",
            lambda conn: by_id(give_back(conn, worker, tokens)),
            lambda view, now: by_id(moves.give_back(view, now, worker, tokens)),
        )

    @precondition(lambda self: self.any_in("running"))
    @rule(
        turn=turns,
        lost=st.none() | which,
        worker=st.none() | which,
        limit=st.sampled_from([1, 1_000, 1_000]),
    )
    def recovers(self, turn: Turn, lost: int | None, worker: int | None, limit: int) -> None:
        """Recover, where asked after a worker with runs has given itself up."""
        of = None if worker is None else pick(self.crew, worker)
        busy = sorted({token[2] for token in self._live(turn)} & {*self.crew})
        if lost is not None and busy:
            self._gives_itself_up(pick(busy, lost))
        self._recovers(turn, of, limit)

    def _recovers(self, turn: Turn, of: UUID | None, limit: int) -> None:
        self._step(
            turn,
            "recover",
            lambda conn: by_id(recover(conn, worker=of, limit=limit)),
            lambda view, now: by_id(moves.recover(view, now, of, limit)),
        )

    def _gives_itself_up(self, key: UUID) -> None:
        if self._is_free(key) and alive(self.facts[key]):
            self.arena.watch.execute("BEGIN")
            (now,) = self.arena.watch.execute("SELECT now()").fetchone()
            fleet.give_up(self.arena.watch, key)
            self.arena.watch.execute("COMMIT")
            view = View(self.facts, {})
            moves.give_up(view, now, key)
            self.facts |= view.changes

    @precondition(lambda self: self.runs)
    @rule(turn=turns, run=which, ending=told_late, told=tellings)
    def reports_late(self, turn: Turn, run: int, ending: Ending, told: Told) -> None:
        """Do as a worker whose write found nothing: look for its own record, then dispute."""
        view, (party, other) = self._view(turn), self._pair(turn)
        for_record = [(job, attempt) for job, attempt, _ in self.runs]
        worker = pick(self.runs, run)[2]
        recorded = own_record(self.arena.watch, worker, for_record)
        assert recorded == moves.own_record(View(self.facts, {}), worker, for_record)
        if not self._given_up(turn):
            self.recovers(turn._replace(then="commit"), lost=run, worker=None, limit=1_000)
        given_up = [*self._given_up(turn), *self._live(turn)]
        if not given_up:
            return
        view = self._view(turn)
        job, attempt, worker = pick(given_up, run)
        report = RunReport(job, attempt, ending, *told)
        if not moves.is_disputable(view, job, party.begin()):
            # A late row alone meets nobody's change of the job: the model does not follow that.
            if job in other.locked:
                return
            turn = turn._replace(then="commit")
        elif turn.meets == "other commits":
            after = View({**self.facts, **other.changes}, dict(party.changes))
            if not moves.is_disputable(after, job, party.begin()):
                turn = turn._replace(then="commit")  # a late row alone holds no place either
        self._step(
            turn,
            "dispute",
            lambda conn: dispute(conn, worker, [report]),
            lambda view, now: moves.dispute(view, now, worker, [report]),
        )

    # Acts

    @rule(turn=turns, asked=some, saw=seen, note=notes, bulk=bulks, kill_after=kills)
    def cancels(
        self,
        turn: Turn,
        asked: list[int],
        saw: str,
        note: str | None,
        bulk: UUID | None,
        kill_after: int | None,
    ) -> None:
        self._acts(
            turn,
            "cancel",
            self._wanted(turn, "cancel", asked),
            saw,
            Signed("ops:bob", "not_needed", note, bulk, kill_after=kill_after),
        )

    @precondition(lambda self: self.any_in("running"))
    @rule(turn=turns, run=which, again=st.booleans(), note=notes, kill_after=kills)
    def asks_to_stop(
        self, turn: Turn, run: int, *, again: bool, note: str | None, kill_after: int | None
    ) -> None:
        """Ask a run to stop; where one was asked before, perhaps that one again."""
        live = [job for job, *_ in self._live(turn)]
        asked = [job for job in live if again and was_asked(self._view(turn), job)]
        if live:
            signed = Signed("ops:bob", "takes_long", note, kill_after=kill_after)
            self._acts(turn, "cancel", [pick(asked or live, run)], "nothing", signed)

    @precondition(lambda self: self.any_in("failed", "cancelled"))
    @rule(turn=turns, asked=some, saw=seen, note=notes, bulk=bulks)
    def retries(
        self, turn: Turn, asked: list[int], saw: str, note: str | None, bulk: UUID | None
    ) -> None:
        self._acts(
            turn,
            "retry",
            self._wanted(turn, "retry", asked),
            saw,
            Signed("ops:eve", "try_it", note, bulk, "cli:e@x"),
        )

    @precondition(lambda self: self.any_in("needs_review"))
    @rule(turn=turns, asked=some, saw=seen, note=notes, bulk=bulks)
    def releases(
        self, turn: Turn, asked: list[int], saw: str, note: str | None, bulk: UUID | None
    ) -> None:
        self._acts(
            turn,
            "release",
            self._wanted(turn, "release", asked),
            saw,
            Signed("ops:bob", "looked", note, bulk),
        )

    @precondition(lambda self: self.any_in("needs_review"))
    @rule(turn=turns, asked=some, saw=seen, note=notes, bulk=bulks)
    def confirms(
        self, turn: Turn, asked: list[int], saw: str, note: str | None, bulk: UUID | None
    ) -> None:
        self._acts(
            turn,
            "confirm",
            self._wanted(turn, "confirm", asked),
            saw,
            Signed("ops:eve", "it_ran", note, bulk),
        )

    @precondition(lambda self: self.any_in("needs_review"))
    @rule(turn=turns, asked=some, saw=seen, note=notes, bulk=bulks)
    def closes(
        self, turn: Turn, asked: list[int], saw: str, note: str | None, bulk: UUID | None
    ) -> None:
        self._acts(
            turn,
            "close",
            self._wanted(turn, "close", asked),
            saw,
            Signed("ops:eve", "too_late", note, bulk),
        )

    @rule(turn=turns, asked=which, saw=seen)
    def reveals(self, turn: Turn, asked: int, saw: str) -> None:
        self._marks(turn, "reveal", asked, saw)

    @precondition(lambda self: self.any_in("needs_review", "failed"))
    @rule(turn=turns, verb=st.sampled_from(["assign", "note"]), asked=which, saw=seen)
    def marks(self, turn: Turn, verb: str, asked: int, saw: str) -> None:
        self._marks(turn, verb, asked, saw)

    def _marks(self, turn: Turn, verb: str, asked: int, saw: str) -> None:
        """Take a job, note something or be shown its arguments: it moves nowhere."""
        signed = Signed("ops:eve", "looking", "Looked.")
        self._acts(turn, verb, self._wanted(turn, verb, [asked]), saw, signed)

    def _acts(self, turn: Turn, verb: str, keys: list[UUID], saw: str, signed: Signed) -> None:
        seen = self._seen(turn, keys, saw)
        given = {**signed.given(), "seen": seen}
        if verb not in MARKS:
            given["bulk_id"] = signed.bulk_id
        if verb == "cancel":
            given["kill_after"] = signed.kill_after
        self._step(
            turn,
            verb,
            lambda conn: [
                replace(outcome, act_id=outcome.act_id and 0)
                for outcome in ACTS[verb](conn, keys, **given)
            ],
            lambda view, now: moves.perform(view, now, verb, keys, signed, seen or {}),
            all_or_nothing=True,
        )

    # Queues

    @rule(turn=turns, name=queues, how=st.sampled_from([*PAUSES]), note=notes)
    def pauses_or_resumes(self, turn: Turn, name: str, how: str, note: str | None) -> None:
        signed = Signed("ops:bob", "provider_down", note)
        do, expected = PAUSES[how]
        self._step(
            turn,
            how,
            lambda conn: did(do, conn, name, **signed.given()),
            lambda view, now: expected(view, now, name, signed),
            all_or_nothing=True,
        )

    @rule(turn=turns, name=queues, limit=st.sampled_from([1, 1_000]), note=notes)
    def clears(self, turn: Turn, name: str, limit: int, note: str | None) -> None:
        signed = Signed("ops:eve", "made_twice", note, UUID(int=9))
        self._step(
            turn,
            "clear",
            lambda conn: clear_queue(
                conn, name, limit=limit, bulk_id=signed.bulk_id, **signed.given()
            ),
            lambda view, now: moves.clear(view, now, name, limit, signed),
            all_or_nothing=True,
        )

    # Workers

    @precondition(lambda self: len(self.crew) < MOST_WORKERS)
    @rule()
    def a_worker_joins(self) -> None:
        self.crew.append(fleet.register(self.arena.watch, IDENTITY))
        self.facts[self.crew[-1]] = Worker()

    @rule(turn=turns, worker=which, began=st.booleans(), pid=st.integers(98, 99))
    def beats(self, turn: Turn, worker: int, *, began: bool, pid: int) -> None:
        by = pick(self.crew, worker)
        told = [
            fleet.Started(job, attempt, pid, 2.5)
            for job, attempt, holder in self._live(turn)
            if began and holder == by
        ]
        self._step(
            turn,
            "beat",
            lambda conn: (
                in_order(fleet.beat(conn, by, told)),
                by_id(fleet.asked_to_stop(conn, by)),
            ),
            lambda view, now: (
                in_order(moves.beat(view, now, by, told)),
                by_id(moves.asked_to_stop(view, by)),
            ),
        )

    @rule(turn=turns, worker=which, by=which, how=st.sampled_from([*GOES]))
    def a_worker_goes(self, turn: Turn, worker: int, by: int, how: str) -> None:
        gone, other = pick(self.crew, worker), pick(self.crew, by)
        if how == "bury_stale":
            self._falls_silent(gone)
        self._goes(turn, how, gone, other)

    def _goes(self, turn: Turn, how: str, gone: UUID, other: UUID) -> None:
        do, expected = GOES[how]
        self._step(
            turn,
            how,
            lambda conn: do(conn, gone, other),
            lambda view, now: expected(view, now, gone, other),
        )

    @precondition(lambda self: self.any_in("running"))
    @rule(turn=turns, run=which, begun=st.integers(0, 2), how=st.sampled_from(["stop", "give_up"]))
    def a_worker_shuts_down(self, turn: Turn, run: int, begun: int, how: str) -> None:
        """Give back what never began, say farewell, and recover those that were cut off."""
        live = self._live(turn)
        if not live:
            return
        *_, worker = pick(live, run)
        held = [(job, attempt) for job, attempt, holder in live if holder == worker]
        going_on = turn._replace(then="hold")
        self._goes(going_on, "drain", worker, worker)
        if held[begun:]:
            self._returns(going_on, worker, held[begun:])
        self._goes(going_on, how, worker, worker)
        self._recovers(turn, worker, 1_000)

    def _falls_silent(self, key: UUID) -> None:
        worker = self.facts.get(key)
        if self._is_free(key) and isinstance(worker, Worker) and not worker.silent:
            self.arena.owner.execute(SILENCE, [[key]])
            self.facts[key] = replace(worker, silent=True)

    @precondition(lambda self: self.any_in("waiting"))
    @rule()
    def time_passes(self) -> None:
        """Let what waits, and nobody holds, fall due."""
        late: dict[UUID, Fact] = {}
        for key, fact in self.facts.items():
            match fact:
                case Job(place=Queued(table="waiting", run_at=run_at)) if self._is_free(key):
                    place = replace(fact.place, run_at=run_at - timedelta(hours=2))
                    late[key] = replace(fact, place=place)
                case _:
                    pass
        if late:
            self.arena.owner.execute(TIME_PASSES, [[*late]])
            self.facts |= late

    @precondition(lambda self: any(party.now for party in self.arena.parties))
    @rule(whose=st.integers(0, 1), commits=st.booleans())
    def ends_its_transaction(self, whose: int, *, commits: bool) -> None:
        self._end(self.arena.parties[whose], commits=commits)
        self.agrees()

    # How a step is taken

    def _pair(self, turn: Turn) -> tuple[Party, Party]:
        return self.arena.parties[turn.whose], self.arena.parties[1 - turn.whose]

    def _view(self, turn: Turn) -> View:
        party, other = self._pair(turn)
        return View(self.facts, dict(party.changes), frozenset(other.locked))

    def _step(
        self,
        turn: Turn,
        verb: str,
        do: Callable[[Any], Any],
        expected: Callable[[View, datetime], Any],
        *,
        all_or_nothing: bool = False,
    ) -> Any:
        """Take a step, have the model follow, end the transaction or not, and compare."""
        party, other = self._pair(turn)
        now = party.begin()
        if verb not in UNHINDERED and other.now:
            trial = self._view(turn)
            expected(trial, now)
            if trial.touched & other.locked:
                if turn.meets == "gives up":
                    return self._gives_up(party, verb, do, all_or_nothing=all_or_nothing)
                event(f"{verb} waits")
                # Whoever waited for a row keeps it locked, even where it then has no use for it.
                party.perhaps |= trial.touched & other.locked
                do = self._having_waited(party, other, do, commits=turn.meets == "other commits")
            elif trial.touched & other.perhaps:
                do = self._having_waited(party, other, do, commits=True, surely=False)
        answer = do(party.conn)
        view = self._view(turn)
        if verb in {"claim", "recover"}:
            view.hidden |= other.perhaps - {each.id for each in answer}
            if verb == "claim" and other.locked:
                party.perhaps |= {key for key, _ in view.standing(Queued, "ready")}
        before = view.all()
        told = expected(view, now)
        assert answer == told, f"{verb} answered {answer}, not {told}"
        self._note(verb, before, view)
        party.changes = view.changes
        party.tallies += view.tallies
        party.locked |= view.touched
        if turn.then != "hold":
            self._end(party, commits=turn.then == "commit")
            self.agrees()
        return answer

    def _having_waited(
        self,
        party: Party,
        other: Party,
        do: Callable[[Any], Any],
        *,
        commits: bool,
        surely: bool = True,
    ) -> Callable[[Any], Any]:
        """Let the step wait for the other's end, and return what answers as it did."""
        racing = self.arena.waits.submit(do, party.conn)
        waits = False
        try:
            waits = self._has_to_wait(party, racing)
            assert waits or not surely, "it did not wait for who holds its job"
        finally:
            if waits or surely:
                self._end(other, commits=commits)
        answer = racing.result(PATIENCE)
        return lambda _: answer

    def _has_to_wait(self, party: Party, racing: Future[Any]) -> bool:
        end = time.monotonic() + PATIENCE
        pid = [party.conn.info.backend_pid]
        while not racing.done():
            if self.arena.watch.execute(WAITS, pid).fetchone() == (True,):
                return True
            assert time.monotonic() < end, "neither waits nor ends"
        return False

    def _gives_up(
        self, party: Party, verb: str, do: Callable[[Any], Any], *, all_or_nothing: bool
    ) -> None:
        """Have no patience: contended, and nothing written."""
        event(f"{verb} gives up")
        party.conn.execute("SET LOCAL lock_timeout = '1ms'")
        with pytest.raises((ContendedError, psycopg.errors.LockNotAvailable)):
            do(party.conn)
        if all_or_nothing:
            party.conn.execute("SET LOCAL lock_timeout = '10s'")
        else:
            self._end(party, commits=False)
        self.agrees()

    def _note(self, verb: str, before: Mapping[UUID, Fact], view: View) -> None:
        for key in view.touched:
            was, job = before.get(key), view.job(key)
            if job and was != job:
                source = stands(was) if isinstance(was, Job) else ""
                self.arena.seen[verb, source, stands(job)] += 1

    def _end(self, party: Party, *, commits: bool) -> None:
        if commits:
            self.facts |= party.changes
            self.tallies += party.tallies
        party.end(commits=commits)

    def agrees(self) -> None:
        found, tallies = read(self.arena.watch, self.acts_before)
        keys = [key for key in {**found, **self.facts} if found.get(key) != self.facts.get(key)]
        listed = "\n".join(
            f"{key}\n  expected {self.facts.get(key)}\n  found    {found.get(key)}" for key in keys
        )
        assert not keys, f"the database is not as the model says:\n{listed}"
        assert +tallies == +self.tallies

    def counted(self) -> None:
        """See that whoever counts jobs comes to what the model has."""
        told = counts(self.arena.watch)
        states = Counter(
            fact.state(told.at) for fact in self.facts.values() if isinstance(fact, Job)
        )
        assert {state: getattr(told, state) for state in STATES} == {
            state: states[state] for state in STATES
        }

    def any_in(self, *states: str) -> bool:
        """Say whether a job stands there, committed or not."""
        seen = [self.facts, *(party.changes for party in self.arena.parties)]
        return any(stands(fact) in states for facts in seen for fact in facts.values())

    # What a number stands for

    def _is_free(self, key: UUID) -> bool:
        return not any(key in party.locked | party.perhaps for party in self.arena.parties)

    def _known(self, turn: Turn) -> list[Token]:
        """Return the runs that a worker can know of: no claim rolled back, and none still open."""
        view, (_, other) = self._view(turn), self._pair(turn)
        return [
            token
            for token in self.runs
            if (job := view.job(token[0]))
            and token[1] <= job.place.attempt
            and (holds(view, token) or not holds(View(self.facts, other.changes), token))
        ]

    def _live(self, turn: Turn) -> list[Token]:
        view = self._view(turn)
        return [token for token in self._known(turn) if holds(view, token)]

    def _given_up(self, turn: Turn) -> list[Token]:
        """Return the runs that lost their claim, and of whose end nothing is recorded."""
        view, live = self._view(turn), self._live(turn)
        known = [token for token in self._known(turn) if token not in live]
        return [token for token in known if not ended(view, token)]

    def _tokens(self, turn: Turn, run: int, more: int) -> tuple[UUID, list[tuple[UUID, int]]]:
        """Return runs of one worker, each of another job: live ones first, then the lost."""
        live = self._live(turn)
        ordered = [*live, *(token for token in self._known(turn) if token not in live)]
        if not ordered:
            return self.crew[0], []
        job, attempt, worker = pick(ordered, run)
        chosen = {job: attempt}
        for job, attempt, holder in ordered:
            if holder == worker and job not in chosen and len(chosen) <= more:
                chosen[job] = attempt
        return worker, sorted(chosen.items())

    def _wanted(self, turn: Turn, verb: str, asked: Iterable[int]) -> list[UUID]:
        """Return jobs: those to which the verb applies first, then the others."""
        view, now = self._view(turn), self._pair(turn)[0].begin()
        sources = moves.VERBS[verb][0]
        fit = [key for key in self.ids if (job := view.job(key)) and job.state(now) in sources]
        return [pick([*fit, *(key for key in self.ids if key not in fit)], each) for each in asked]

    def _seen(self, turn: Turn, keys: Iterable[UUID], saw: str) -> dict[UUID, Any] | None:
        view, now = self._view(turn), self._pair(turn)[0].begin()
        found = {key: job for key in keys if (job := view.job(key))}
        match saw:
            case "nothing":
                return None
            case "rightly":
                return {key: (job.state(now), job.place.attempt) for key, job in found.items()}
            case "failed":
                return {key: ("failed", job.place.attempt) for key, job in found.items()}
            case _:
                return {key: (job.state(now), job.place.attempt - 1) for key, job in found.items()}


def stands(fact: Fact) -> str:
    """Return the state of a job as its place alone tells it, "" for anything else."""
    match fact:
        case Job(place=Queued(table=table)):
            return table
        case Job():
            return fact.state(NOON)
        case _:
            return ""


def pick(choices: Sequence[Any], number: int) -> Any:
    return choices[number % len(choices)]


def did(act: Callable[..., int], conn: Any, name: str, **signed: Any) -> bool:
    try:
        return act(conn, name, **signed) > 0
    except QueueRefusedError:
        return False


def alive(fact: Fact) -> bool:
    return isinstance(fact, Worker) and fact.lives


def ended(view: View, token: Token) -> bool:
    job, attempt, worker = token
    return bool(moves.own_record(view, worker, [(job, attempt)]))


def holds(view: View, token: Token) -> bool:
    job = view.job(token[0])
    run = job.place if job else None
    return isinstance(run, Running) and (run.attempt, run.worker) == token[1:]


def was_asked(view: View, key: UUID) -> bool:
    job = view.job(key)
    return bool(job and isinstance(job.place, Running) and job.place.stop_requested_at)


def by_id(moved: Sequence[Any]) -> list[Any]:
    return sorted(moved, key=lambda each: each.id)


def in_order(held: Sequence[Any] | None) -> list[Any] | None:
    return None if held is None else by_id(held)


@contextmanager
def arena(database: Any) -> Iterator[Arena]:
    """Open the connections of a machine; `watch` and `owner` commit each statement."""
    with ThreadPoolExecutor(1) as waits:
        parties = [Party(database.connect()) for _ in range(2)]
        watch, owner = database.connect(), database.owner()
        for conn in (*(party.conn for party in parties), watch, owner):
            conn.row_factory = tuple_row
            conn.execute("SET lock_timeout = '10s'")
        keep_weeks(owner, 1)
        watch.execute(PREPARE)
        yield Arena((parties[0], parties[1]), watch, owner, waits)
