"""The form behind an act on many jobs at once: who signs, why, and which jobs as they were seen."""

import re
from collections.abc import Iterable, Mapping
from typing import Final
from uuid import UUID

from flask import g
from wtforms import Field, HiddenField
from wtforms.validators import StopValidation

from console.forms.signed import SignedForm
from queue_core.acts import MOST_JOBS
from queue_core.states import STATES, legal_verbs

TYPED_ABOVE: Final = 100
"""Above so many jobs the operator code is typed in full."""
_CHOSEN: Final = re.compile(r"([0-9a-f]{32})\.([0-9]{1,9})", re.ASCII)
_VERBS: Final[Mapping[str, tuple[str, ...]]] = {state: legal_verbs(state) for state in STATES}


class ChosenForm(SignedForm):
    """The signature, the chosen jobs with their attempts, and the state that all were seen in.

    `jobs` holds them as the list's checkboxes do, with a space between: an id's digits, a dot
    and the attempt. `unseen` is how many of them have a run that may still be at work.
    """

    unseen = 0
    seen_state = HiddenField()
    jobs = HiddenField()

    def validate_jobs(self, field: Field) -> None:
        """At least one job and at most a thousand."""
        if not field.data:
            raise StopValidation("No job was chosen. Go back to the list and tick some.")
        if not 1 <= len(self.chosen()) <= MOST_JOBS:
            raise StopValidation(f"Choose 1 to {MOST_JOBS:,} jobs; go back to the list.")

    def validate_seen_state(self, field: Field) -> None:
        """Offered or not, an act applies to some states alone."""
        del field
        if self.verb not in self.verbs():
            raise StopValidation("That cannot be done to jobs in this state. Go back to the list.")

    def why_typed(self, verb: str) -> str | None:
        """Of many jobs nobody looks at each; and a release may be of a run that goes on."""
        if len(self.chosen()) > TYPED_ABOVE:
            return f"this is for more than {TYPED_ABOVE} jobs"
        if verb != "release" or not self.unseen:
            return None
        runs = "a run" if self.unseen == 1 else f"{self.unseen:,} runs"
        return f"{runs} of them may still be at work, since nobody has seen the end"

    def verbs(self) -> tuple[str, ...]:
        """Name the acts that apply to the state that the jobs were seen in."""
        return _VERBS.get(self.seen_state.data or "", ())

    def chosen(self) -> dict[UUID, int]:
        """Return the chosen jobs with the attempt that each was seen at; none if one is none."""
        found = [_CHOSEN.fullmatch(each) for each in (self.jobs.data or "").split()]
        return {UUID(hex=each[1]): int(each[2]) for each in found if each} if all(found) else {}

    def seen(self) -> dict[UUID, tuple[str, int]]:
        """Return what was seen of each job, as acts take it; call it on a valid form."""
        state = str(self.seen_state.data)
        return {job_id: (state, attempt) for job_id, attempt in self.chosen().items()}

    def opened(self) -> "ChosenForm":
        """Fill in who is signed in; what was typed stays."""
        self.operator_code.data = g.who.code
        return self


def joined(ticked: Iterable[str]) -> str:
    """Return the values of a list's checkboxes as one field holds them."""
    return " ".join(ticked)
