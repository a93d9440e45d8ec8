"""Many want the same rows: a worker that finishes, and people who cancel by the thousand."""

import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any
from uuid import UUID

import pytest

from queue_core import NewJob, cancel, enqueue_many, retry
from queue_core.acts import ActOutcome, Change
from queue_core.outcomes import Completed, Failed
from queue_core.worker.books import Key
from tests.conftest import Database
from tests.databases import Pool
from tests.queue_core.worker.conftest import Jobs, wait_for
from tests.queue_core.worker.desk import Desk

pytestmark = pytest.mark.xdist_group("contention")  # they share a database
SHARED = 500
BULKS = (slice(0, 1_000), slice(SHARED, None))
"""Two thousand jobs are chosen, five hundred of them twice."""


@pytest.fixture(scope="module")
def database(databases: Pool) -> Iterator[Database]:
    with databases.lend() as made:
        yield made


@pytest.fixture
def desk(database: Database) -> Iterator[Desk]:
    made = Desk(database)
    yield made
    made.clerk.close(lambda _: None, time.monotonic() + 1)
    made.clerk.join(5)
    assert not made.clerk.is_alive()


def asked_for(jobs: Jobs, number: int, queue: str) -> list[UUID]:
    made = enqueue_many(jobs.conn, [NewJob("sample.echo", queue=queue)] * number)
    return [each.id for each in made]


STATES = """
SELECT job_states.id, job_states.state, (
    SELECT count(*) FROM countersign.acts WHERE acts.subject_id = job_states.id
) AS acts
FROM countersign.job_states
WHERE job_states.id = ANY(%s)
"""


def states(jobs: Jobs, made: Sequence[UUID]) -> dict[UUID, Any]:
    """Return state and number of acts by id, each job in one place."""
    rows = jobs.conn.execute(STATES, [list(made)]).fetchall()
    assert sorted(row["id"] for row in rows) == sorted(made)  # pyright: ignore[reportArgumentType]
    return {row["id"]: row for row in rows}  # pyright: ignore[reportReturnType]


# Of many that end at once


def test_of_fifty_that_end_at_once_the_one_that_cannot_be_stored_fails_and_says_so(
    desk: Desk, jobs: Jobs
) -> None:
    asked_for(jobs, 50, desk.line)
    runs = desk.claim(50)
    desk.store(*((run, Completed("{" if run is runs[31] else "1")) for run in runs))
    desk.stored()
    told = states(jobs, [run.id for run in runs])
    assert Counter(row["state"] for row in told.values()) == {"completed": 49, "failed": 1}
    assert jobs.facts(runs[31].id).error == "result could not be stored"


def test_of_a_hundred_that_end_at_once_only_the_one_that_a_person_holds_is_late(
    desk: Desk, jobs: Jobs, database: Database
) -> None:
    made = asked_for(jobs, 101, desk.line)
    runs = desk.claim(100)
    person = database.connect(autocommit=False)
    cancel(person, [runs[41].id], by="ops:alice", reason="not_needed")
    (following,) = desk.claim(1, ended=[(run, Completed()) for run in runs])
    assert following.id == made[-1]
    wait_for(lambda: desk.clerk.keys() == {Key(runs[41].id, 1)})
    told = states(jobs, [run.id for run in runs])
    assert Counter(row["state"] for row in told.values()) == {"completed": 99, "running": 1}
    person.commit()
    desk.stored()
    assert jobs.facts(runs[41].id).state == "completed"


# Two bulks beside a worker


def bulks(
    database: Database, pool: ThreadPoolExecutor, made: Sequence[UUID], verbs: Sequence[Change]
) -> list[Future[list[ActOutcome]]]:
    """Have two people do these to a thousand jobs each, in opposite orders, both at once."""
    together = threading.Barrier(2)

    def acts(chosen: Sequence[UUID]) -> list[ActOutcome]:
        conn = database.connect()
        together.wait()
        signed: dict[str, Any] = {"by": "ops:alice", "reason": "not_needed"}
        return [told for verb in verbs for told in verb(conn, chosen, **signed)]

    first, second = (made[bulk] for bulk in BULKS)
    return [pool.submit(acts, first), pool.submit(acts, second[::-1])]


def got_through(jobs: Jobs, made: Sequence[UUID], told: Sequence[ActOutcome]) -> None:
    """See that every act that was told is there and no other, and each job where it ended."""
    found = states(jobs, made)
    assert {row["state"] for row in found.values()} <= {"completed", "failed", "cancelled"}
    applied = Counter(each.job_id for each in told if each.applied)
    assert applied == Counter({job: row["acts"] for job, row in found.items()})
    assert applied
    assert {each.why for each in told} <= {None, "wrong_state", "already_asked"}


def test_case_62_two_bulks_that_share_jobs_get_through_beside_a_worker_that_ends_them(
    desk: Desk, jobs: Jobs, database: Database
) -> None:
    made = asked_for(jobs, 1_500, desk.line)
    runs = desk.claim(64)
    with ThreadPoolExecutor(2) as pool:
        acting = bulks(database, pool, made, [cancel, retry, cancel, retry, cancel])
        while runs or not all(each.done() for each in acting):
            half = len(runs) // 2
            ended = [(run, Completed()) for run in runs[half:]]
            ended += [(run, Failed("no", retryable=False)) for run in runs[:half]]
            runs = desk.claim(64, ended=ended)
        told = [outcome for each in acting for outcome in each.result()]
    desk.stored()
    got_through(jobs, made, told)


def test_case_62_two_bulks_that_share_jobs_get_through_beside_a_real_worker(
    start_worker, jobs: Jobs, database: Database
) -> None:
    made = asked_for(jobs, 1_500, "default")
    worker = start_worker(processes=2)
    wait_for(lambda: jobs.conn.execute(ENDED, [made]).rowcount)
    with ThreadPoolExecutor(2) as pool:
        acting = bulks(database, pool, made, [cancel])
        told = [outcome for each in acting for outcome in each.result()]
    wait_for(lambda: jobs.conn.execute(ENDED, [made]).rowcount == len(made))
    got_through(jobs, made, told)
    assert worker.end() == 0


ENDED = "SELECT FROM countersign.ended WHERE id = ANY(%s)"
