"""The book-keeper: knows what was asked for and what was seen, and proves that the books agree.

It trusts nothing that is under test. What handlers did is written to a table of its own, in a
database that nobody breaks; what was asked for it remembers itself.
"""

import uuid
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Final, LiteralString, NamedTuple
from uuid import UUID

import psycopg
from psycopg.rows import DictRow, dict_row

from queue_core import ActOutcome, NewJob, enqueue_many, seals
from queue_core.check import check
from queue_core.states import OUTCOMES
from tests.queue_core.worker.conftest import wait_for

Conn = psycopg.Connection[Any]

LATE: Final = frozenset({"late_completed", "late_failed"})
"""What a run said after it was given up: beside its one record, never instead of it."""
PRIMARY: Final = frozenset(OUTCOMES) - LATE
MUTE: Final = frozenset({"lost", "crashed", "timed_out", "stopped", "returned"})
"""Outcomes of runs that may have ended before their handler did anything."""
MOST_TOLD: Final = 12
"""Faults of a kind that are told one by one."""


class Attempt(NamedTuple):
    """A run: the job's id and the attempt."""

    job: UUID
    number: int


@dataclass(frozen=True, slots=True)
class Seen:
    """What a run did, as its handler wrote it: when it began and was last seen, how often done."""

    first: float
    last: float
    pids: frozenset[int]
    done: int


@dataclass(frozen=True, slots=True)
class Job:
    """A job as it was asked for; `ticket` is what the book-keeper gave it.

    That of a schedule has none, but a due time: the number of the schedule's second.
    """

    name: str
    ticket: str | None
    schedule: str | None
    due: int | None


@dataclass(frozen=True, slots=True)
class Place:
    """Where a job stands: the table, its state, and the attempt it has come to."""

    table: str
    state: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Accounts:
    """All that the database under test says, in one snapshot."""

    jobs: Mapping[UUID, Job]
    places: Mapping[UUID, Sequence[Place]]
    outcomes: Mapping[Attempt, frozenset[str]]
    """Of each run that ended without completing its job."""
    safe: frozenset[str]
    """The names that may be claimed ahead, and killed while they begin."""

    def claimed(self) -> Iterator[Attempt]:
        """Name every run that there has been."""
        for job, places in self.places.items():
            for number in range(1, max(place.attempt for place in places) + 1):
                yield Attempt(job, number)

    def records(self, attempt: Attempt) -> list[str]:
        """Name the records by which a run is accounted for; there must be one."""
        found = sorted(self.outcomes.get(attempt, frozenset()) & PRIMARY)
        for place in self.places[attempt.job]:
            if place.attempt == attempt.number and place.state in {"completed", "running"}:
                found.append(place.state)
        if not found and any(
            place.table == "review" and place.attempt == attempt.number
            for place in self.places[attempt.job]
        ):
            return ["review"]
        return found


EFFECTS: Final = """
CREATE TABLE IF NOT EXISTS effects (
    job uuid NOT NULL,
    attempt integer NOT NULL,
    pid integer NOT NULL,
    what text NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp()
)
"""
SEEN: Final = """
SELECT job, attempt, array_agg(DISTINCT pid) AS pids, count(*) FILTER (WHERE what = 'done') AS done,
    extract(epoch FROM min(at))::float8 AS first, extract(epoch FROM max(at))::float8 AS last
FROM effects
GROUP BY job, attempt
"""
JOBS: Final = """
SELECT jobs.id, jobs.name, jobs.args ->> 'ticket' AS ticket, jobs.schedule,
    floor(extract(epoch FROM jobs.created_at - schedules.created_at))::integer AS due
FROM countersign.jobs
LEFT JOIN countersign.schedules ON schedules.name = jobs.schedule
"""
PLACES: Final = """
SELECT id, attempt, 'ready' AS place, 'ready' AS state FROM countersign.ready
UNION ALL
SELECT id, attempt, 'waiting', 'waiting' FROM countersign.waiting
UNION ALL
SELECT id, attempt, 'blocked', 'blocked' FROM countersign.blocked
UNION ALL
SELECT id, attempt, 'running', 'running' FROM countersign.running
UNION ALL
SELECT id, attempt, 'review', 'needs_review' FROM countersign.review
UNION ALL
SELECT id, attempt, 'ended', state FROM countersign.ended
"""
RUNS: Final = "SELECT job_id, attempt, outcome FROM countersign.runs"
SAFE: Final = "SELECT name FROM countersign.handlers WHERE safe_to_repeat"
UNSEALED: Final = """
SELECT count(*) AS found FROM countersign.acts
WHERE acts.id NOT IN (SELECT unnest(seals.ids) FROM countersign.seals)
"""
AT_WORK: Final = """
SELECT (SELECT count(*) FROM countersign.ready) + (SELECT count(*) FROM countersign.waiting)
    + (SELECT count(*) FROM countersign.blocked) + (SELECT count(*) FROM countersign.running)
    AS found
"""


@dataclass
class Books:
    """Keeps the books of one database under test. `witness` is the URL of another."""

    witness: str = field(repr=False)
    asked: dict[UUID, str] = field(default_factory=dict)
    """The jobs whose asking was answered, with their tickets."""
    doubtful: set[str] = field(default_factory=set)
    """The tickets of jobs that may have been made or not: nobody said."""
    signed: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Open the table in which handlers write what they did, and clear it."""
        with psycopg.connect(self.witness, autocommit=True) as conn:
            conn.execute(EFFECTS)
            conn.execute("TRUNCATE effects")

    def ask(self, conn: Conn, *jobs: NewJob) -> list[UUID]:
        """Enqueue jobs, each with a ticket; what is raised on the way is passed on."""
        tickets = [uuid.uuid4().hex for _ in jobs]
        self.doubtful.update(tickets)
        made = enqueue_many(
            conn,
            [
                replace(job, args={**job.args, "ticket": ticket})
                for job, ticket in zip(jobs, tickets, strict=True)
            ],
        )
        ids = [each.id for each in made]
        self.asked.update(zip(ids, tickets, strict=True))
        self.doubtful.difference_update(tickets)
        return ids

    def sign(self, outcomes: Iterable[ActOutcome]) -> None:
        """Remember acts that were done and answered."""
        self.signed += [each.act_id for each in outcomes if each.act_id is not None]

    def await_rest(self, conn: Conn, seconds: float) -> None:
        """Wait until every job has ended or stands in review."""
        wait_for(lambda: _count(conn, AT_WORK) == 0, seconds)

    def seen(self) -> dict[Attempt, Seen]:
        """Return what each run is known to have done."""
        with psycopg.Connection[DictRow].connect(self.witness, row_factory=dict_row) as conn:
            return {
                Attempt(row["job"], row["attempt"]): Seen(
                    row["first"], row["last"], frozenset(row["pids"]), row["done"]
                )
                for row in conn.execute(SEEN)
            }

    def overlaps(self) -> dict[UUID, float]:
        """Return for how many seconds a job was seen to run in two places, where it was."""
        runs: defaultdict[UUID, list[Seen]] = defaultdict(list)
        for attempt, seen in sorted(self.seen().items()):
            runs[attempt.job].append(seen)
        found: dict[UUID, float] = {}
        for job, each in runs.items():
            for earlier, later in pairwise(each):
                if earlier.last > later.first:
                    found[job] = max(found.get(job, 0.0), earlier.last - later.first)
        return found

    def prove(self, conn: Conn) -> None:
        """Fail unless the books agree with all that was asked for and seen."""
        found = self.faults(conn)
        assert not found, "\n".join(["the books do not agree:", *found])

    def faults(self, conn: Conn) -> list[str]:
        """Return all in which the books do not agree; nothing is the good answer.

        The rows of `conn` are dicts. In autocommit it seals what acts there are.
        """
        accounts, seen = read(conn), self.seen()
        return [
            *_few(self._missing(accounts)),
            *_few(self._unasked(accounts)),
            *_few(_scheduled_twice(accounts)),
            *_few(_misplaced(accounts)),
            *_few(_unaccounted(accounts)),
            *_few(_doubled(accounts)),
            *_few(_unseen(accounts, seen)),
            *_few(_unclaimed(accounts, seen)),
            *_few(self._unsigned(conn)),
            *_few(f"{each.code}: {each.what}" for each in check(conn, full=True)),
        ]

    def balance(self, conn: Conn) -> Counter[str]:
        """Count the runs there were, those that were seen, and all by how they ended."""
        accounts, seen = read(conn), self.seen()
        runs = list(accounts.claimed())
        counted = Counter(record for run in runs for record in accounts.records(run))
        counted["runs"], counted["seen"] = len(runs), sum(run in seen for run in runs)
        return counted

    def _missing(self, accounts: Accounts) -> Iterator[str]:
        for job, ticket in self.asked.items():
            if job not in accounts.jobs:
                yield f"job {job} was asked for and is missing"
            elif accounts.jobs[job].ticket != ticket:
                yield f"job {job} is not what was asked for under its id"

    def _unasked(self, accounts: Accounts) -> Iterator[str]:
        tickets = Counter(job.ticket for job in accounts.jobs.values() if job.ticket)
        for ticket, count in tickets.items():
            if count > 1:
                yield f"ticket {ticket} was asked for once and made {count} times"
        for job, what in accounts.jobs.items():
            if not (job in self.asked or what.ticket in self.doubtful or what.schedule):
                yield f"nobody asked for job {job} ({what.name})"

    def _unsigned(self, conn: Conn) -> Iterator[str]:
        def nothing_left() -> bool:
            while seals.seal(conn):
                pass
            return _count(conn, UNSEALED) == 0

        try:
            wait_for(nothing_left, 20)
        except AssertionError:
            yield "acts stay unsealed"
        row = "SELECT id FROM countersign.acts WHERE id = ANY(%s)"
        kept = {row["id"] for row in conn.execute(row, [self.signed])}
        yield from (f"act {act} was done and is missing" for act in self.signed if act not in kept)


def read(conn: Conn) -> Accounts:
    """Read all that a database says: in autocommit in one snapshot, else in the caller's."""
    if not conn.autocommit:
        return _read(conn)
    before, conn.isolation_level = conn.isolation_level, psycopg.IsolationLevel.REPEATABLE_READ
    try:
        with conn.transaction():
            return _read(conn)
    finally:
        conn.isolation_level = before


def _read(conn: Conn) -> Accounts:
    jobs = {
        row["id"]: Job(row["name"], row["ticket"], row["schedule"], row["due"])
        for row in conn.execute(JOBS)
    }
    places: defaultdict[UUID, list[Place]] = defaultdict(list)
    for row in conn.execute(PLACES):
        places[row["id"]].append(Place(row["place"], row["state"], row["attempt"]))
    outcomes: defaultdict[Attempt, set[str]] = defaultdict(set)
    for row in conn.execute(RUNS):
        outcomes[Attempt(row["job_id"], row["attempt"])].add(row["outcome"])
    safe = frozenset(row["name"] for row in conn.execute(SAFE))
    return Accounts(jobs, places, {key: frozenset(kept) for key, kept in outcomes.items()}, safe)


def _scheduled_twice(accounts: Accounts) -> Iterator[str]:
    """Schedules under chaos are due every second: no second has two jobs."""
    times = Counter((job.schedule, job.due) for job in accounts.jobs.values() if job.schedule)
    for (schedule, due), count in times.items():
        if count > 1:
            yield f"schedule {schedule!r} has {count} jobs for second {due}"


def _misplaced(accounts: Accounts) -> Iterator[str]:
    for job in accounts.jobs:
        places = [place.table for place in accounts.places.get(job, ())]
        if not places:
            yield f"job {job} stands nowhere"
        elif len(places) > 1:
            yield f"job {job} stands in {' and '.join(sorted(places))}"


def _unaccounted(accounts: Accounts) -> Iterator[str]:
    for attempt in accounts.claimed():
        if not accounts.records(attempt):
            yield f"attempt {attempt.number} of job {attempt.job} is accounted for nowhere"
    for attempt in accounts.outcomes:
        places = accounts.places.get(attempt.job, ())
        if attempt.number > max((place.attempt for place in places), default=0):
            yield f"attempt {attempt.number} of job {attempt.job} ended and was never claimed"


def _doubled(accounts: Accounts) -> Iterator[str]:
    for attempt in accounts.claimed():
        records = accounts.records(attempt)
        if "completed" in records and "late_completed" in accounts.outcomes.get(attempt, ()):
            records.append("late_completed")
        if len(records) > 1:
            told = " and ".join(records)
            yield f"attempt {attempt.number} of job {attempt.job} ended twice: {told}"


def _unseen(accounts: Accounts, seen: Mapping[Attempt, Seen]) -> Iterator[str]:
    """Of the runs that must have done something, name those that nobody saw do it."""
    for attempt in accounts.claimed():
        records = set(accounts.records(attempt))
        done = seen[attempt].done if attempt in seen else 0
        if records & {"completed", "failed", "deferred"} and not done:
            told = " and ".join(sorted(records))
            yield f"attempt {attempt.number} of job {attempt.job} is {told}, and nobody saw it done"


def _unclaimed(accounts: Accounts, seen: Mapping[Attempt, Seen]) -> Iterator[str]:
    """Of what was seen, name what no run of the books can have done, or what was done twice."""
    for attempt, what in seen.items():
        told = f"attempt {attempt.number} of job {attempt.job}"
        places = accounts.places.get(attempt.job, ())
        if attempt.number > max((place.attempt for place in places), default=0):
            yield f"{told} was seen and never claimed"
            continue
        if what.done > 1 or len(what.pids) > 1:
            yield f"{told} was run twice"
        is_safe = attempt.job in accounts.jobs and accounts.jobs[attempt.job].name in accounts.safe
        if "returned" in accounts.records(attempt) and not is_safe:
            yield f"{told} was seen, and is said never to have begun"


def _count(conn: Conn, query: LiteralString) -> int:
    (row,) = conn.execute(query).fetchall()
    return row["found"]


def _few(found: Iterable[str]) -> list[str]:
    told = list(found)
    more = [f"… and {len(told) - MOST_TOLD} more of this kind"] if len(told) > MOST_TOLD else []
    return [*told[:MOST_TOLD], *more]
