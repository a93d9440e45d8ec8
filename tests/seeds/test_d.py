"""Of the jobs with steps: what of them stands already."""

import uuid
from typing import Any

import pytest

from queue_core import ArgumentsError, Run, enqueue
from queue_core.jobs import decode
from queue_core.outcomes import Failed, RunReport
from queue_core.queries.facts import job as facts
from queue_core.queries.runs import runs_of
from queue_core.registry import find
from queue_core.transitions.claim import Claimable, claim
from queue_core.transitions.fail import fail
from queue_core.worker.execute import execute
from queue_core.worker.messages import JobMessage
from tests.conftest import CANARY


def test_d01_a_job_takes_delay_priority_attempts_and_queue(conn, registry) -> None:
    made = enqueue(conn, "mail.send", delay=60, priority=3, attempts=4, queue="slow").id
    found = facts(conn, made)
    assert found
    assert (found.state, found.priority, found.attempts, found.queue) == ("waiting", 3, 4, "slow")


def test_d04_the_key_of_a_run_is_the_same_at_every_attempt() -> None:
    job = uuid.uuid4()
    assert Run(job, "mail.send", 1).key == Run(job, "mail.send", 9).key


@pytest.mark.parametrize(
    ("args", "field"), [({"address": CANARY}, "template"), ({"template": 7}, "template")]
)
def test_d06_arguments_that_no_longer_fit_fail_for_good_naming_the_field(
    conn, registry, make_worker, args: dict[str, Any], field: str
) -> None:
    @registry.job("mail.send", attempts=9)
    def anything(run: object, **values: object) -> None:
        del run, values

    job = enqueue(conn, "mail.send", args, attempts=9).id

    @registry.job("mail.send", attempts=9)  # the deploy that adds a field
    def send(run: object, template: str, address: str = "") -> None:
        pytest.fail(f"ran with {template!r} for {address!r} in {run!r}")

    worker = make_worker(conn)
    (run,) = claim(conn, worker=worker, names=[Claimable("mail.send")], count=1)
    assert run.args
    with pytest.raises(ArgumentsError) as refused:
        find("mail.send").validate(decode(run.args))
    assert list(refused.value.fields) == [field]
    ending = execute(JobMessage(run.id, run.name, run.attempt, run.args), registry)
    assert isinstance(ending, Failed)
    assert not ending.retryable
    fail(conn, worker, [RunReport(job, 1, ending, wait=30)])
    found = facts(conn, job)
    (told,) = runs_of(conn, job)
    assert found
    assert found.error
    assert (found.state, found.attempt) == ("failed", 1)
    assert field in found.error
    assert CANARY not in found.error + (told.traceback or "")
