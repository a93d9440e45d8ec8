"""The form behind every act on a queue or schedule: who signs, why, and the last act they saw."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from flask import g
from wtforms import Field, HiddenField
from wtforms.validators import StopValidation

from console.forms.signed import LastActForm
from queue_core.errors import OptionError
from queue_core.jobs import check_name

REASONS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "queues.pause": ("provider_outage", "deploy", "too_many_failures", "maintenance"),
        "queues.resume": ("provider_is_back", "mended", "maintenance_over", "paused_by_mistake"),
        "schedules.pause": ("provider_outage", "maintenance", "not_needed_now"),
        "schedules.resume": ("provider_is_back", "maintenance_over", "needed_again"),
        "schedules.run_now": ("missed_its_time", "data_mended", "customer_asked"),
    }
)
"""The catalogue offered for each act; any other code can be typed."""


class NameForm(LastActForm):
    """The signature, the name of what the act is on, and the last act on it that was seen."""

    name = HiddenField()

    def validate_name(self, field: Field) -> None:
        """What cannot be a name is none of ours."""
        try:
            check_name(field.data, "the name")
        except OptionError:
            raise StopValidation("The form came without a name. Look again.") from None

    def opened_for(self, name: str, last_act: int) -> "NameForm":
        """Fill in who is signed in and what is there now; what was typed stays."""
        self.operator_code.data = g.who.code
        self.name.data = name
        self.seen_act.data = str(last_act)
        return self
