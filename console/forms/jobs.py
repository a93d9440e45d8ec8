"""The form behind every act on a job: who signs, why, and what they saw."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final
from uuid import UUID

from flask import g
from wtforms import Field, HiddenField, StringField
from wtforms.validators import StopValidation

from console.forms.signed import SignedForm
from queue_core.acts import MOST_KILL_SECONDS
from queue_core.queries.facts import JobFacts
from queue_core.queries.unseen import Unseen
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
        "confirm": (
            "checked_outside_effect",
            "finished_by_hand",
            "customer_has_it",
        ),
        "close": (
            "no_longer_needed",
            "duplicate",
            "customer_asked",
            "asked_for_anew",
        ),
        "assign": (
            "on_call",
            "owner_of_this_job",
            "handed_over",
        ),
        "note": (
            "checked_outside_effect",
            "asked_the_provider",
            "handed_over",
        ),
        "reveal": (
            "looking_for_the_cause",
            "checking_outside_effect",
            "customer_asked",
        ),
    }
)
"""The catalogue offered for each act; any other code can be typed."""
_NUMBER: Final = re.compile(r"[0-9]{1,9}")


class ActForm(SignedForm):
    """The signature, and the state and attempt that the person saw.

    `unseen` is the run of the job that was given up on and may still be at work, if there is one.
    """

    unseen: Unseen | None = None
    seen_state = HiddenField()
    seen_attempt = HiddenField()
    kill_after = StringField()

    def validate_kill_after(self, field: Field) -> None:
        """A box that is ticked sends its seconds; somebody may send others."""
        if field.data and self.kill_seconds() is None:
            raise StopValidation(
                f"A run can be killed after 1 to {MOST_KILL_SECONDS:,} seconds, in whole ones."
            )

    def kill_seconds(self) -> int | None:
        """Return the seconds; None where there are none, or none that can be."""
        typed = self.kill_after.data or ""
        seconds = int(typed) if _is_number(typed) else 0
        return seconds if 1 <= seconds <= MOST_KILL_SECONDS else None

    def validate_seen_state(self, field: Field) -> None:
        """Without what was seen, nobody could say that the job has moved on."""
        if field.data not in STATES or not _is_number(self.seen_attempt.data):
            raise StopValidation("The form came without the state it was opened for. Look again.")

    def why_typed(self, verb: str) -> str | None:
        """A release beside a run that goes on does the work twice, at the same time."""
        if verb != "release" or not self.unseen:
            return None
        return f"attempt {self.unseen.attempt} may still be at work, since nobody has seen its end"

    def seen(self, job_id: UUID) -> dict[UUID, tuple[str, int]]:
        """Return what was seen, as acts take it; call it on a valid form."""
        return {job_id: (str(self.seen_state.data), int(self.seen_attempt.data or 0))}

    def opened_for(self, job: JobFacts | None, unseen: Unseen | None = None) -> "ActForm":
        """Fill in who is signed in and the job as it stands; what was typed stays."""
        self.unseen = unseen
        self.operator_code.data = g.who.code
        self.seen_state.data = job.state if job else ""
        self.seen_attempt.data = str(job.attempt) if job else ""
        return self


class NoteForm(ActForm):
    """An act form whose note is what the act is for."""

    def validate_note(self, field: Field) -> None:
        """A note that says nothing is none."""
        super().validate_note(field)
        if not (field.data or "").strip():
            raise StopValidation("Write the note: what you found, or what comes next.")


def _is_number(text: str | None) -> bool:
    return _NUMBER.fullmatch(text or "") is not None
