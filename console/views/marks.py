"""Acts that move no job: looking after one, noting what was found, revealing its arguments."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from flask import Blueprint, request

from console import refusals
from console.database import Connection, reading
from console.forms.jobs import ActForm, NoteForm
from console.masking import masked
from console.views import jobs
from console.views.jobs import Answer, Revealed
from queue_core import marks
from queue_core.acts import ActOutcome
from queue_core.errors import DatabaseAwayError, TookTooLongError
from queue_core.queries import arguments

pages = Blueprint("marks", __name__, url_prefix="/jobs")


@pages.post("/<uuid:job_id>/assign")
def assign(job_id: UUID) -> Answer:
    """Let whoever signs look after a job that waits for a person."""
    return jobs.act(job_id, "assign", ActForm(request.form), _of_one(marks.assign))


@pages.post("/<uuid:job_id>/note")
def note(job_id: UUID) -> Answer:
    """Put a note beside a job that waits for a person."""
    return jobs.act(job_id, "note", NoteForm(request.form), _of_one(marks.note))


@pages.post("/<uuid:job_id>/reveal")
def reveal(job_id: UUID) -> Answer:
    """Sign, and then show a job's arguments: the one form that is answered with a page."""
    outcome = jobs.sign(job_id, "reveal", ActForm(request.form), _of_one(marks.reveal))
    if not isinstance(outcome, ActOutcome):
        return outcome
    act_id = outcome.act_id or 0
    try:
        with reading() as conn:
            text = arguments.revealed(conn, job_id, act_id)
        return jobs.page(job_id, revealed=Revealed(act_id, masked(text) if text else None))
    except (DatabaseAwayError, TookTooLongError):
        return refusals.signed_not_shown(act_id)


def _of_one(verb: Callable[..., ActOutcome]) -> Callable[..., list[ActOutcome]]:
    """Let an act on one job be called as those on many are."""

    def change(conn: Connection, ids: list[UUID], /, **signed: Any) -> list[ActOutcome]:  # noqa: ANN401 - as the acts take them
        return [verb(conn, job_id, **signed) for job_id in ids]

    return change
