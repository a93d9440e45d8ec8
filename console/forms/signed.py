"""What every act is signed with: who, and why."""

import re
from typing import Final, TypedDict

from flask import g
from wtforms import Field, Form, HiddenField, StringField, TextAreaField
from wtforms.validators import StopValidation

from console.security import safe_next
from queue_core.codes import MAX_NOTE_CHARACTERS, check_code, check_note
from queue_core.errors import NotACodeError, NoteError

_NUMBER: Final = re.compile(r"[0-9]{1,18}", re.ASCII)


class Signed(TypedDict):
    """Who signs an act, why, and how it came."""

    by: str
    reason: str
    note: str | None
    via: str


def _text(value: str | None) -> str | None:
    return value.strip() if value else value


class SignedForm(Form):
    """`operator_code`, `reason` and `note`, and where the person came from.

    `typed_code` is asked for by acts that a hand should know it does; `verb` names the act.
    """

    verb = ""
    operator_code = StringField()
    typed_code = StringField()
    reason = StringField(filters=[_text])
    note = TextAreaField()
    next = HiddenField()

    def validate_operator_code(self, field: Field) -> None:
        """Only who is signed in signs: a tab that somebody else opened is refused."""
        if field.data != g.who.code:
            raise StopValidation(_whose(field.data))

    def validate_typed_code(self, field: Field) -> None:
        """Read-only it is sent by whoever presses a button; typed, the hand knows what it does."""
        why = self.why_typed(self.verb)
        if why and field.data != g.who.code:
            raise StopValidation(f"Type your own operator code in full, {g.who.code}: {why}.")

    def why_typed(self, verb: str) -> str | None:
        """Say why the operator code has to be typed in full for an act; None where it has not."""
        del verb
        return None

    def kill_seconds(self) -> int | None:
        """Return after how many seconds a run is killed that is asked to stop; None where never."""
        return None

    def validate_reason(self, field: Field) -> None:
        """A reason is a code."""
        try:
            check_code(field.data, "reason")
        except NotACodeError:
            raise StopValidation(
                "Give a reason of 1 to 200 characters, on one line, without invisible ones."
            ) from None

    def validate_note(self, field: Field) -> None:
        """A note may be left out."""
        try:
            check_note(field.data)
        except NoteError:
            raise StopValidation(
                f"A note is at most {MAX_NOTE_CHARACTERS:,} characters, without invisible ones."
            ) from None

    def signature(self) -> Signed:
        """Return who signs and why, as acts take it; call it on a valid form."""
        return {
            "by": g.who.code,
            "reason": str(self.reason.data),
            "note": self.note.data,
            "via": f"console:{g.who.id}",
        }

    def way_back(self) -> str | None:
        """Return where the person came from, if that is a page here."""
        return safe_next(self.next.data)

    def say_whose(self) -> None:
        """Say at the field whose page it was, where that is not who is signed in."""
        if self.operator_code.data != g.who.code:
            self.operator_code.errors = [_whose(self.operator_code.data)]


class LastActForm(SignedForm):
    """And the last act on the subject that the page had when it was opened."""

    seen_act = HiddenField()

    def validate_seen_act(self, field: Field) -> None:
        """Without what was seen, nobody could say that somebody was faster."""
        if not _NUMBER.fullmatch(field.data or ""):
            raise StopValidation("The form came without what it was opened for. Look again.")

    def seen(self) -> int:
        """Return the number of the last act that was seen, 0 for none; call it on a valid form."""
        return int(self.seen_act.data or 0)


def _whose(opened_by: str | None) -> str:
    opener = f"opened by {opened_by}" if opened_by else "opened without an operator code"
    return f"This page was {opener}; you are signed in as {g.who.code}. Nothing was done."
