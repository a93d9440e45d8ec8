"""What waits for a person: jobs in review, and failed ones that may have run in part."""

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final, Literal, LiteralString
from uuid import UUID

import psycopg

from queue_core.database import rows, value

Kind = Literal["needs_review", "uncertain"]

PAGE: Final = 50
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
NOBODY: Final = UUID(int=0)
"""Stands for an unknown worker in the order of the list."""
_SPOT: Final = re.compile(r"(-?\d{1,18})_([0-9a-f]{32})_([0-9a-f]{32})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Spot:
    """A place in the list: a row's time, worker and id, so that no row of equal time is skipped."""

    at: datetime
    worker: UUID
    id: UUID

    def encode(self) -> str:
        """Return the spot as it stands in a URL."""
        micros = (self.at - EPOCH) // timedelta(microseconds=1)
        return f"{micros}_{self.worker.hex}_{self.id.hex}"

    @classmethod
    def decode(cls, text: str) -> "Spot":
        """Read a spot from a URL. Raises ValueError for anything that `encode` did not make."""
        match = _SPOT.fullmatch(text)
        if not match:
            message = "not a spot"
            raise ValueError(message)
        try:
            at = EPOCH + timedelta(microseconds=int(match[1]))
        except OverflowError:
            message = "not a spot"
            raise ValueError(message) from None
        return cls(at, UUID(match[2]), UUID(match[3]))


@dataclass(frozen=True, slots=True)
class ReviewRow:
    """One job that waits for a person, with what is known of the run that left it so.

    `at` is when it entered review, or failed; `why` is None where nobody recorded it. Who
    looks after it and the note are the newest of its present attempt. `repr` leaves out what
    a person or a handler wrote.
    """

    id: UUID
    name: str
    queue: str
    state: Literal["needs_review", "failed"]
    attempt: int
    attempts: int | None
    has_body: bool
    at: datetime
    why: str | None
    worker: UUID | None
    claimed_at: datetime | None
    started_at: datetime | None
    child_pid: int | None
    signal: int | None
    error: str | None = field(repr=False)
    assignee: str | None = field(repr=False)
    assigned_at: datetime | None
    note: str | None = field(repr=False)
    noted_by: str | None = field(repr=False)
    noted_at: datetime | None

    def spot(self) -> Spot:
        """Return where this row stands in the list."""
        return Spot(self.at, self.worker or NOBODY, self.id)


@dataclass(frozen=True, slots=True)
class ReviewPage:
    """One page of the list, oldest first; a spot is None where there is no more that way."""

    rows: list[ReviewRow]
    previous: Spot | None
    next: Spot | None


# The order is that of the index review_by_worker, so that a page is a walk along it.
IN_REVIEW: Final[LiteralString] = """
WITH listed AS (
    SELECT review.id, 'needs_review' AS state, review.attempt, review.entered_at AS at, review.why,
        review.worker, review.claimed_at, review.started_at, review.child_pid, review.signal,
        review.error,
        COALESCE(review.worker, '00000000-0000-0000-0000-000000000000'::uuid) AS lost_by
    FROM countersign.review
"""
REVIEW_BEYOND: Final[LiteralString] = """
    WHERE (review.entered_at, COALESCE(review.worker, '00000000-0000-0000-0000-000000000000'::uuid),
        review.id) > (%(at)s, %(worker)s, %(id)s)
"""
REVIEW_BEFORE: Final[LiteralString] = """
    WHERE (review.entered_at, COALESCE(review.worker, '00000000-0000-0000-0000-000000000000'::uuid),
        review.id) < (%(at)s, %(worker)s, %(id)s)
"""
# Likewise that of ended_uncertain, which holds these alone. The run says more than `ended` keeps.
UNCERTAIN: Final[LiteralString] = """
WITH head AS (
    SELECT ended.id, ended.attempt, ended.ended_at AS at, ended.worker, ended.started_at,
        ended.error,
        COALESCE(ended.worker, '00000000-0000-0000-0000-000000000000'::uuid) AS lost_by
    FROM countersign.ended
    WHERE ended.uncertain AND ended.state = 'failed'
"""
UNCERTAIN_BEYOND: Final[LiteralString] = """
        AND (ended.ended_at, COALESCE(ended.worker, '00000000-0000-0000-0000-000000000000'::uuid),
            ended.id) > (%(at)s, %(worker)s, %(id)s)
"""
UNCERTAIN_BEFORE: Final[LiteralString] = """
        AND (ended.ended_at, COALESCE(ended.worker, '00000000-0000-0000-0000-000000000000'::uuid),
            ended.id) < (%(at)s, %(worker)s, %(id)s)
"""
RISING: Final[LiteralString] = "    ORDER BY at, lost_by, id\n    LIMIT %(limit)s\n"
FALLING: Final[LiteralString] = "    ORDER BY at DESC, lost_by DESC, id DESC\n    LIMIT %(limit)s\n"
WITH_RUN: Final[LiteralString] = """
),
listed AS (
    SELECT head.id, 'failed' AS state, head.attempt, head.at, run.outcome AS why, head.worker,
        run.claimed_at, head.started_at, run.child_pid, run.signal, head.error, head.lost_by
    FROM head
    LEFT JOIN LATERAL (
        SELECT runs.outcome, runs.claimed_at, runs.child_pid, runs.signal
        FROM countersign.runs
        WHERE runs.job_id = head.id AND runs.attempt = head.attempt
            AND runs.outcome IN ('lost', 'crashed')
        LIMIT 1
    ) AS run ON true
"""
TOLD: Final[LiteralString] = """
)
SELECT listed.id, COALESCE(body.name, 'unknown') AS name, COALESCE(body.queue, 'unknown') AS queue,
    listed.state, listed.attempt, body.attempts, body.name IS NOT NULL AS has_body, listed.at,
    listed.why, listed.worker, listed.claimed_at, listed.started_at, listed.child_pid,
    listed.signal, listed.error, assigned.by AS assignee, assigned.at AS assigned_at, noted.note,
    noted.by AS noted_by, noted.at AS noted_at
FROM listed
LEFT JOIN LATERAL (
    SELECT jobs.name, jobs.queue, jobs.attempts
    FROM countersign.jobs WHERE jobs.id = listed.id LIMIT 1
) AS body ON true
LEFT JOIN LATERAL (
    SELECT acts.by, acts.at
    FROM countersign.acts
    WHERE acts.subject_id = listed.id AND acts.act = 'assigned' AND acts.attempt = listed.attempt
    ORDER BY acts.id DESC LIMIT 1
) AS assigned ON true
LEFT JOIN LATERAL (
    SELECT acts.by, acts.at, acts.note
    FROM countersign.acts
    WHERE acts.subject_id = listed.id AND acts.act = 'noted' AND acts.attempt = listed.attempt
    ORDER BY acts.id DESC LIMIT 1
) AS noted ON true
ORDER BY listed.at, listed.lost_by, listed.id
"""


def list_review(
    conn: psycopg.Connection[object],
    kind: Kind,
    *,
    spot: Spot | None = None,
    direction: Literal["next", "previous"] = "next",
    limit: int = PAGE,
) -> ReviewPage:
    """Return the page of what waits for a person after `spot`, or with `direction` before it.

    Oldest first; what was lost in one moment stands together by its worker.
    """
    backward = direction == "previous" and spot is not None
    parameters: dict[str, object] = {"limit": limit + 1}
    if spot:
        parameters |= {"at": spot.at, "worker": spot.worker, "id": spot.id}
    statement = _statement(kind, beyond=spot is not None, backward=backward)
    found = rows(conn, statement, parameters, ReviewRow)
    return _page(found, limit, backward=backward, began=spot is None)


def _statement(kind: Kind, *, beyond: bool, backward: bool) -> LiteralString:
    order = FALLING if backward else RISING
    if kind == "needs_review":
        side = REVIEW_BEFORE if backward else REVIEW_BEYOND
        return IN_REVIEW + (side if beyond else "") + order + TOLD
    side = UNCERTAIN_BEFORE if backward else UNCERTAIN_BEYOND
    return UNCERTAIN + (side if beyond else "") + order + WITH_RUN + TOLD


def _page(found: list[ReviewRow], limit: int, *, backward: bool, began: bool) -> ReviewPage:
    """Leave out the row too many and say where the list goes on, both ways."""
    more = len(found) > limit
    kept = found[-limit:] if backward else found[:limit]
    if not kept:
        return ReviewPage([], None, None)
    has_previous = more if backward else not began
    return ReviewPage(
        kept,
        kept[0].spot() if has_previous else None,
        kept[-1].spot() if more or backward else None,
    )


@dataclass(frozen=True, slots=True)
class Waiting:
    """How many jobs wait for a person, each up to the cap asked for and one more."""

    needs_review: int
    uncertain: int


WAITING = """
SELECT (SELECT count(*) FROM (
        SELECT FROM countersign.review LIMIT %(limit)s
    ) AS capped) AS needs_review,
    (SELECT count(*) FROM (
        SELECT FROM countersign.ended WHERE ended.uncertain AND ended.state = 'failed'
        LIMIT %(limit)s
    ) AS capped) AS uncertain
"""


def waiting(conn: psycopg.Connection[object], *, cap: int) -> Waiting:
    """Count what waits for a person, each kind up to `cap`; `cap + 1` means more."""
    return rows(conn, WAITING, {"limit": cap + 1}, Waiting)[0]


IN_REVIEW_ALONE = """
SELECT count(*) FROM (
    SELECT FROM countersign.review LIMIT %(limit)s
) AS capped
"""


def count_in_review(conn: psycopg.Connection[object], *, cap: int) -> int:
    """Count the jobs in review up to `cap`; `cap + 1` means more. For every page, so cheap."""
    return int(str(value(conn, IN_REVIEW_ALONE, {"limit": cap + 1})))
