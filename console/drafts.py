"""What somebody had typed to sign an act when their session was over: carried along, signed."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final
from uuid import UUID

from flask import current_app, request
from itsdangerous import BadData, URLSafeSerializer

from console.rights import SIGNS

CHOOSING: Final = "chosen.show"
"""Signs nothing, and what was ticked in its list is worth as much as a reason."""
MOST_CHARACTERS: Final = 4_000
"""Of one field: more than any field may hold, and little enough to be sent along."""
MOST_CHOSEN_CHARACTERS: Final = 50_000
"""A thousand jobs take 43,000 at most."""
KEPT: Final[Mapping[str, int]] = MappingProxyType(
    {
        "operator_code": MOST_CHARACTERS,
        "reason": MOST_CHARACTERS,
        "note": MOST_CHARACTERS,
        "next": MOST_CHARACTERS,
        "seen_state": MOST_CHARACTERS,
        "seen_attempt": MOST_CHARACTERS,
        "kill_after": MOST_CHARACTERS,
        "seen_act": MOST_CHARACTERS,
        "name": MOST_CHARACTERS,
        "code": MOST_CHARACTERS,
        "role": MOST_CHARACTERS,
        "jobs": MOST_CHOSEN_CHARACTERS,
    }
)
"""The fields that are kept, of whatever form. A password is none, nor a code typed in full."""
_TICKED: Final = "job"


@dataclass(frozen=True, slots=True)
class Draft:
    """A form that was sent and not acted on: its route, the job in its address, its fields."""

    endpoint: str
    job_id: str | None
    fields: dict[str, str]

    @property
    def noun(self) -> str:
        """What the form's route belongs to."""
        return self.endpoint.partition(".")[0]

    @property
    def verb(self) -> str:
        """What the form was to do."""
        return self.endpoint.rpartition(".")[2]

    def job(self) -> UUID:
        """Return the job in its address; call it on a draft of a route that has one."""
        return UUID(self.job_id)

    def signed(self) -> str:
        """Return this for a hidden field; read it back with `read`."""
        return _serializer().dumps([self.endpoint, self.job_id, self.fields])


def of_request() -> Draft | None:
    """Return what the request's form holds; None where it is no form that signs an act."""
    endpoint, sent = request.endpoint or "", request.form
    if endpoint not in SIGNS and endpoint != CHOOSING:
        return None
    fields = {name: sent[name][:most] for name, most in KEPT.items() if name in sent}
    if _TICKED in sent:
        fields.setdefault("jobs", " ".join(sent.getlist(_TICKED))[:MOST_CHOSEN_CHARACTERS])
    job_id = (request.view_args or {}).get("job_id")
    return Draft(endpoint, str(job_id) if job_id else None, fields)


def read(text: str | None) -> Draft | None:
    """Return what `signed` made; None for anything that it did not make."""
    if not text:
        return None
    try:
        return Draft(*_serializer().loads(text))
    except (BadData, TypeError, ValueError):
        return None


def _serializer() -> URLSafeSerializer:
    return URLSafeSerializer(current_app.secret_key or "", salt="draft")
