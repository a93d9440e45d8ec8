"""The forms behind every act on an operator: whom it is done to, who signs, and why."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from wtforms import Field, StringField
from wtforms.validators import StopValidation

from console.forms.signed import LastActForm, SignedForm
from queue_core.codes import check_code
from queue_core.errors import NotACodeError
from queue_core.operators import SETUP
from queue_core.queries.operators import ROLES, Role

REASONS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "add": ("new_colleague", "joins_on_call", "covers_for_somebody"),
        "change_role": ("new_duties", "joins_on_call", "covers_for_somebody", "duties_ended"),
        "disable": ("left", "duties_ended", "device_lost"),
        "reset": ("forgotten", "seen_by_others", "device_lost"),
    }
)
"""The catalogue offered for each act; any other code can be typed."""
_ROLES: Final[Mapping[str, Role]] = {role: role for role in ROLES}


class OperatorForm(SignedForm):
    """Whose account it is: `code`."""

    code = StringField()

    def validate_code(self, field: Field) -> None:
        """A code is what acts are signed with, so it is one for ever."""
        try:
            code = check_code(field.data, "code")
        except NotACodeError:
            raise StopValidation(
                "Give a code of 1 to 200 characters, on one line, without invisible ones."
            ) from None
        if code.startswith(SETUP):
            raise StopValidation(f"Codes that begin with {SETUP} are kept for setting up.")


class ResetForm(OperatorForm, LastActForm):
    """And the last act on them that was seen: a second reset is one of a page opened since."""


class RoleForm(OperatorForm):
    """And what they may do: `role`."""

    role = StringField()

    def validate_role(self, field: Field) -> None:
        """A role is one of three."""
        if field.data not in _ROLES:
            raise StopValidation(f"Choose a role: {', '.join(ROLES)}.")

    def chosen(self) -> Role:
        """Return the role; call it on a valid form."""
        return _ROLES[str(self.role.data)]
