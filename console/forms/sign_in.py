"""The sign-in form, and what it keeps of another form that a lapsed session interrupted."""

from dataclasses import asdict, dataclass
from typing import Final
from uuid import UUID

from flask import current_app
from itsdangerous import BadData, URLSafeSerializer
from wtforms import Form, HiddenField, PasswordField, StringField

from console.security import safe_next

MOST_KEPT_CHARACTERS: Final = 4_000
"""Of one field: more than any field may hold, and little enough to be sent along."""


class SignInForm(Form):
    """`code` and `password`, where to go on, and what was typed into another form before."""

    code = StringField()
    password = PasswordField()
    next = HiddenField()
    kept = HiddenField()

    def way_on(self) -> str | None:
        """Return where the person wanted to go, if that is a page here."""
        return safe_next(self.next.data)


@dataclass(frozen=True, slots=True)
class Kept:
    """What somebody had typed to sign an act on a job when their session was over."""

    job_id: str
    verb: str
    operator_code: str
    reason: str
    note: str
    seen_state: str
    seen_attempt: str
    next: str

    def typed(self) -> dict[str, str]:
        """Return what had been typed, by the names of the fields."""
        return {key: text for key, text in asdict(self).items() if key not in {"job_id", "verb"}}

    def signed(self) -> str:
        """Return this for a hidden field; read it back with `read`."""
        cut = {key: text[:MOST_KEPT_CHARACTERS] for key, text in asdict(self).items()}
        return _serializer().dumps(cut)

    def job(self) -> UUID:
        """Return the job it was for."""
        return UUID(self.job_id)


def read(text: str | None) -> Kept | None:
    """Return what `signed` made; None for anything that it did not make."""
    if not text:
        return None
    try:
        return Kept(**_serializer().loads(text))
    except (BadData, TypeError, ValueError):
        return None


def _serializer() -> URLSafeSerializer:
    return URLSafeSerializer(current_app.secret_key or "", salt="kept-form")
