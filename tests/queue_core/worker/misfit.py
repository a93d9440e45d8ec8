"""A schedule whose job does not take the arguments it is given."""

from queue_core import NewJob, Registry, Run

jobs = Registry()


@jobs.job("misfit.note")
def note(run: Run, text: str) -> str:
    return text


jobs.every("often", seconds=1, job=NewJob("misfit.note", {"text": 7}))
