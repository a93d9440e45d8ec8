"""A button that was pressed twice: what the first press did is told, and not called a refusal."""

from collections.abc import Iterable

from flask import flash

from console.forms.signed import SignedForm
from console.rights import SIGNS
from queue_core.codes import check_note
from queue_core.queries.acts import ActRow

FLASH = "pressed twice"


class PressedTwiceError(Exception):
    """The same form was sent before, and acted on; raised to undo what was done for it again."""

    def __init__(self, first: ActRow) -> None:
        self.first = first
        super().__init__("the form was sent twice")


def first_press(
    newest: ActRow | None, endpoint: str, form: SignedForm, attempt: int | None = None
) -> ActRow | None:
    """Return the newest act on a subject where an earlier press of the same form left it.

    That is one of this very session, of the form's kind, with its reason, its note and its
    seconds, and at the attempt that it was opened for.
    """
    if newest is None or newest.act not in SIGNS[endpoint] or newest.attempt != attempt:
        return None
    signed = form.signature()
    if (newest.by, newest.reason, newest.via) != (signed["by"], signed["reason"], signed["via"]):
        return None
    same = _noted(newest, form) and newest.kill_after == form.kill_seconds()
    return newest if same else None


def _noted(act: ActRow, form: SignedForm) -> bool:
    """Say whether an act has the note of a form; one on an operator notes their new role."""
    if act.subject_kind != "operator":
        return act.note == check_note(form.note.data)
    role = form.data.get("role")
    return act.note is None or not role or act.note.endswith(f" {role}")


def require_one_press(
    acts: Iterable[ActRow], endpoint: str, form: SignedForm, attempt: int | None
) -> None:
    """Look at the acts on a subject after one was made, oldest first.

    Raises PressedTwiceError where the one before it, of its kind, is the same.
    """
    *before, _ = [act for act in acts if act.act in SIGNS[endpoint]]
    first = first_press(before[-1] if before else None, endpoint, form, attempt)
    if first:
        raise PressedTwiceError(first)


def tell(first: ActRow) -> None:
    """Say on the next page that it was done, once, and by which act."""
    flash(str(first.id), FLASH)
