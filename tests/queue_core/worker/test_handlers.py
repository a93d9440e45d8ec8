"""Workers say what their code handles when they begin, and that they drain when they do."""

import signal
from uuid import UUID

from queue_core.queries.handlers import handler
from queue_core.queries.workers import WorkerRow, worker
from tests.queue_core.worker import sample
from tests.queue_core.worker.conftest import wait_for


def found(jobs, worker_id: UUID) -> WorkerRow:
    row = worker(jobs.conn, worker_id)
    assert row
    return row


def test_a_worker_says_what_it_handles_when_it_begins(start_worker, jobs):
    began = start_worker().id()
    assert wait_for(lambda: found(jobs, began).handles) == sample.jobs.handled()
    row = handler(jobs.conn, "sample.raise")
    assert row
    assert (row.attempts, row.declared_by, row.workers) == (3, began, 1)


def test_a_worker_that_drains_says_so_while_its_runs_end(start_worker, jobs):
    path = jobs.path()
    process = start_worker(grace=30)
    jobs.add("sample.sleep", {"seconds": 60, "path": str(path)})
    jobs.begun(path)
    assert found(jobs, process.id()).draining_at is None
    process.send(signal.SIGTERM)
    wait_for(lambda: found(jobs, process.id()).draining_at)
    row = handler(jobs.conn, "sample.sleep")
    assert row
    assert row.workers == 0
    assert found(jobs, process.id()).stopped_at is None
    assert process.end(signal.SIGTERM) == 4
