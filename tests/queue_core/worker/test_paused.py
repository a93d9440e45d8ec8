"""A paused queue: workers take nothing from it and go on with all else, until it is resumed."""

from typing import Any

from queue_core import pause_queue, resume_queue

SIGNED: dict[str, Any] = {"by": "ops:alice", "reason": "printer_on_fire"}


def test_a_paused_queues_jobs_stay_while_others_run_and_run_once_it_is_resumed(jobs, start_worker):
    pause_queue(jobs.conn, "paper", **SIGNED)
    stays = jobs.add("sample.echo", {"value": 1}, queue="paper", priority=9)
    start_worker()

    for number in range(3):
        jobs.ended(jobs.add("sample.echo", {"value": number}, queue="mail"), "completed")
    assert (jobs.facts(stays).state, jobs.facts(stays).attempt) == ("ready", 0)

    resume_queue(jobs.conn, "paper", **SIGNED)
    jobs.ended(stays, "completed")


def test_a_run_of_a_queue_that_is_paused_meanwhile_goes_on_and_the_next_one_waits(
    jobs, start_worker
):
    path = jobs.path()
    worker = start_worker()
    runs = jobs.add("sample.sleep", {"seconds": 1.0, "path": str(path)}, queue="paper")
    jobs.begun(path)
    pause_queue(jobs.conn, "paper", **SIGNED)
    stays = jobs.add("sample.echo", {"value": 1}, queue="paper")

    jobs.ended(runs, "completed")
    jobs.ended(jobs.add("sample.echo", {"value": 2}, queue="mail"), "completed")

    assert jobs.facts(stays).state == "ready"
    assert worker.end() == 0
    assert jobs.facts(stays).attempt == 0
