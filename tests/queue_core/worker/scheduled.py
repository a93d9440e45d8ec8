"""Jobs that schedules enqueue, one every second."""

from queue_core import NewJob, Registry, Run

jobs = Registry()


@jobs.job("scheduled.note")
def note(run: Run, text: str) -> str:
    return text


jobs.every("often", seconds=1, job=NewJob("scheduled.note", {"text": "canary-7c1e-do-not-repeat"}))
jobs.every("locked", seconds=1, job=NewJob("scheduled.note", {"text": "b"}, queue="locked"))
