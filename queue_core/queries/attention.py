"""Whether a person is needed: what waits for one, and queues that nothing comes out of."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

import psycopg

from queue_core.database import rows
from queue_core.queries.counts import CAP
from queue_core.queries.handlers import SILENT_SECONDS
from queue_core.queries.queues import QueueRow, list_queues

Code = Literal["review.waiting", "failed.uncertain", "worker.none", "queue.late", "queue.paused"]

DAY_SECONDS: Final = 86_400
"""So long an uncertain failure asks for a person; then it is on the desk, not on the pager."""
WAITED_SECONDS: Final = 300
"""So long a job may be ready while there is no worker: a deploy takes less."""
LATE_SECONDS: Final = 3_600
"""So long a job may be ready though workers live, or though its queue is paused."""


@dataclass(frozen=True, slots=True)
class Need:
    """One reason why a person is needed: a code for programs, and what is the matter."""

    code: Code
    what: str


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A row of WAITING."""

    in_review: int
    oldest_seconds: float
    uncertain: int
    workers: int


# In the order of the index that holds uncertain failures alone, of however many others.
WAITING = """
SELECT (SELECT count(*) FROM (
        SELECT FROM countersign.review LIMIT %(limit)s
    ) AS capped) AS in_review,
    COALESCE((
        SELECT EXTRACT(EPOCH FROM now() - min(review.entered_at)) FROM countersign.review
    ), 0)::double precision AS oldest_seconds,
    (SELECT count(*) FROM (
        SELECT FROM countersign.ended
        WHERE ended.uncertain AND ended.state = 'failed'
            AND ended.ended_at > now() - make_interval(secs => %(day)s)
        ORDER BY ended.ended_at
        LIMIT %(limit)s
    ) AS capped) AS uncertain,
    (SELECT count(*)
        FROM countersign.workers
        WHERE workers.stopped_at IS NULL
            AND workers.lost_at IS NULL
            AND workers.beat_at > now() - make_interval(secs => %(silent)s)
    ) AS workers
"""


def attention(conn: psycopg.Connection[object]) -> list[Need]:
    """Return why a person is needed, the most urgent first; nothing is the good answer.

    Jobs in review; failures of the last day that may have run in part; jobs ready for five
    minutes without any worker, or for an hour with one; queues paused for an hour that hold
    such jobs. Numbers are capped: it may be asked every minute, whatever the queues hold.
    """
    given = {"limit": CAP + 1, "day": DAY_SECONDS, "silent": SILENT_SECONDS}
    (found,) = rows(conn, WAITING, given, _Waiting, prepare=False)
    queues = list_queues(conn, cap=1)
    return [*_of_queues(queues, found.workers), *_of_jobs(found)]


def _of_queues(queues: list[QueueRow], workers: int) -> Iterator[Need]:
    running = [row for row in queues if row.paused_at is None]
    late = max(running, key=lambda row: row.oldest_ready_seconds, default=None)
    if late and workers == 0 and late.oldest_ready_seconds > WAITED_SECONDS:
        yield Need("worker.none", f"no worker is alive, and {_oldest(late)}")
    elif late and late.oldest_ready_seconds > LATE_SECONDS:
        yield Need("queue.late", f"workers are too few or do not handle it: {_oldest(late)}")
    for row in queues:
        if row.paused_at and row.oldest_ready_seconds > LATE_SECONDS:
            yield Need("queue.paused", f"a queue is paused, and {_oldest(row)}")


def _of_jobs(found: _Waiting) -> Iterator[Need]:
    if found.in_review:
        waits = f"the oldest for {_minutes(found.oldest_seconds)}"
        yield Need("review.waiting", f"{_counted(found.in_review)} in review, {waits}")
    if found.uncertain:
        failed = f"{_counted(found.uncertain)} failed within a day and may have run in part"
        yield Need("failed.uncertain", failed)


def _oldest(row: QueueRow) -> str:
    return f"a job of {row.name!r} has been ready for {_minutes(row.oldest_ready_seconds)}"


def _counted(number: int) -> str:
    if number > CAP:
        return f"over {CAP:,} jobs"
    return "1 job" if number == 1 else f"{number:,} jobs"


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:,.0f} min"
