"""The form behind every act on a job: who signs, why, and what they saw."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, TypedDict
from uuid import UUID

from flask import g
from wtforms import Field, Form, HiddenField, StringField, TextAreaField
from wtforms.validators import StopValidation

from console.security import safe_next
from queue_core.codes import MAX_NOTE_CHARACTERS, check_code, check_note
from queue_core.errors import NotACodeError, NoteError
from queue_core.queries.jobs import JobFacts
from queue_core.states import STATES

REASONS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "cancel": (
            "customer_asked",
            "duplicate",
            "no_longer_needed",
            "wrong_arguments",
            "takes_too_long",
        ),
        "retry": (
            "deploy_error",
            "provider_outage",
            "data_mended",
            "customer_asked",
            "cancelled_by_mistake",
        ),
        "release": (
            "checked_outside_effect",
            "never_took_effect",
            "harmless_to_repeat",
            "customer_asked",
        ),
    }
)
"""The catalogue offered for each act; any other code can be typed."""
_ATTEMPT: Final = re.compile(r"[0-9]{1,9}")


class Signed(TypedDict):
    """Who signs an act, why, and how it came."""

    by: str
    reason: str
    note: str | None
    via: str


def _text(value: str | None) -> str | None:
    return value.strip() if value else value


class ActForm(Form):
    """`operator_code`, `reason`, `note`, and the state and attempt that the person saw."""

    operator_code = StringField()
    reason = StringField(filters=[_text])
    note = TextAreaField()
    seen_state = HiddenField()
    seen_attempt = HiddenField()
    next = HiddenField()

    def validate_operator_code(self, field: Field) -> None:
        """Only who is signed in signs: a tab that somebody else opened is refused."""
        if field.data != g.who.code:
            raise StopValidation(_whose(field.data))

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

    def validate_seen_state(self, field: Field) -> None:
        """Without what was seen, nobody could say that the job has moved on."""
        if field.data not in STATES or not _is_attempt(self.seen_attempt.data):
            raise StopValidation("The form came without the state it was opened for. Look again.")

    def seen(self, job_id: UUID) -> dict[UUID, tuple[str, int]]:
        """Return what was seen, as acts take it; call it on a valid form."""
        return {job_id: (str(self.seen_state.data), int(self.seen_attempt.data or 0))}

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

    def opened_for(self, job: JobFacts | None) -> "ActForm":
        """Fill in who is signed in and the job as it stands; what was typed stays."""
        self.operator_code.data = g.who.code
        self.seen_state.data = job.state if job else ""
        self.seen_attempt.data = str(job.attempt) if job else ""
        return self


def _whose(opened_by: str | None) -> str:
    opener = f"opened by {opened_by}" if opened_by else "opened without an operator code"
    return f"This page was {opener}; you are signed in as {g.who.code}. Nothing was done."


def _is_attempt(text: str | None) -> bool:
    return _ATTEMPT.fullmatch(text or "") is not None
