"""Mounted in a host service: where the console begins, and who the host says is there."""

import secrets
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from io import BytesIO
from typing import TYPE_CHECKING, Final

from flask import Flask, Request, abort, current_app, request, session
from werkzeug.exceptions import Forbidden, Unauthorized

from console import database
from console.patience import LateError, Patience
from console.proxies import PATH
from queue_core.codes import check_code
from queue_core.errors import CountersignError, NotACodeError
from queue_core.operators import SETUP
from queue_core.queries import operators
from queue_core.queries.operators import ROLES, Role

if TYPE_CHECKING:
    from collections.abc import Iterable

    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

Identify = Callable[[Request], "tuple[str, Role] | None"]
_KEY: Final = "countersign_host"
_CODE: Final = "code"
_ID: Final = "id"
FRAMES: Final = 4
NOT_HERE: Final = "The service around this console does not let you in here. Nothing was done."
DISABLED: Final = "Your operator code was disabled here. Nothing was done."


class IdentifyError(CountersignError):
    """`identify` gave no answer, or one that is neither None nor an operator code and a role.

    The text says which, and never what was answered.
    """


@dataclass(frozen=True, slots=True)
class Guest:
    """Somebody whom the host signed in; `id` is for their acts' `via`."""

    id: str
    code: str
    role: Role


@dataclass(frozen=True, slots=True)
class Host:
    """The service around a console, and its word on who is there."""

    app: Flask
    prefix: str
    identify: Identify
    patience: Patience = field(default_factory=Patience)

    def who(self) -> Guest | None:
        """Return whom the host names for this request, None for nobody.

        Answers 403 where the code is a disabled operator's, or where `identify` does. Raises
        IdentifyError where it raises something else, takes longer than 5 s, or returns what no
        host should.
        """
        told = self._told()
        if told is None:
            _forget()
            return None
        code, role = told
        with database.session() as conn:
            known = operators.find(conn, code)
        if known is not None and known.disabled_at is not None:
            _forget()
            abort(403, DISABLED)
        return Guest(_session_of(code), code, role)

    def _told(self) -> tuple[str, Role] | None:
        outside = self._outside(request.environ)
        try:
            return self.patience.call(lambda: self._asked(outside))
        except IdentifyError:
            raise
        except LateError:
            message = "identify did not answer in time, or too many calls of it hang already"
            raise IdentifyError(message) from None
        except Forbidden:
            abort(403, NOT_HERE)
        except Unauthorized:
            return None
        except Exception as error:  # noqa: BLE001 - it is the host's, and may raise anything
            raise IdentifyError(_raised(error)) from None

    def _asked(self, outside: "WSGIEnvironment") -> tuple[str, Role] | None:
        """Ask in a request of the host's own, so that its session and its log-in are there."""
        with self.app.request_context(outside) as context:
            return _checked(self.identify(context.request))

    def _outside(self, inside: "WSGIEnvironment") -> "WSGIEnvironment":
        """Return the request as it came to the host, but for the form: that is the console's."""
        return {
            **inside,
            "SCRIPT_NAME": inside.get("SCRIPT_NAME", "").removesuffix(self.prefix),
            "PATH_INFO": self.prefix + inside.get("PATH_INFO", ""),
            "wsgi.input": BytesIO(),
            "CONTENT_LENGTH": "0",
        }


class Mounted:
    """Sends what lies under the prefix to the console, and all else to the host, untouched."""

    def __init__(self, host: "WSGIApplication", prefix: str, console: "WSGIApplication") -> None:
        self._host = host
        self._prefix = prefix
        self._console = console

    def __call__(
        self, environ: "WSGIEnvironment", start_response: "StartResponse"
    ) -> "Iterable[bytes]":
        """Answer the request by whoever it is for."""
        path = environ.get("PATH_INFO", "")
        if path != self._prefix and not path.startswith(f"{self._prefix}/"):
            return self._host(environ, start_response)
        environ["SCRIPT_NAME"] = environ.get("SCRIPT_NAME", "") + self._prefix
        environ["PATH_INFO"] = path.removeprefix(self._prefix)
        return self._console(environ, start_response)


def mount(console: Flask, app: Flask, prefix: str, identify: Identify | None) -> None:
    """Put `console` under `prefix` of `app`.

    Raises ValueError for a prefix that is none, or under which the host has routes.
    """
    if not PATH.fullmatch(prefix):
        message = f"a prefix is a path such as /ops, without a slash at its end, not {prefix!r}"
        raise ValueError(message)
    hidden = [
        rule.rule for rule in app.url_map.iter_rules() if f"{rule.rule}/".startswith(f"{prefix}/")
    ]
    if hidden:
        message = f"the console under {prefix} would hide {', '.join(sorted(hidden))}"
        raise ValueError(message)
    if identify is not None:
        console.extensions[_KEY] = Host(app, prefix, identify)
    app.wsgi_app = Mounted(app.wsgi_app, prefix, console)


def host() -> Host | None:
    """Return the host service that says who is there; None where the console asks itself."""
    return current_app.extensions.get(_KEY)


def _checked(told: object) -> tuple[str, Role] | None:
    match told:
        case None:
            return None
        case (str(code), role) if role in ROLES and _is_code(code):
            return str(code), ROLES[ROLES.index(role)]
        case _:
            message = f"identify must return None or (code, role), role one of {ROLES}"
            raise IdentifyError(message)


def _is_code(code: str) -> bool:
    try:
        return not check_code(code, "by").startswith(SETUP)
    except NotACodeError:
        return False


def _raised(error: Exception) -> str:
    """Say what broke in `identify` and where, without its text: it can repeat anything."""
    frames = traceback.extract_tb(error.__traceback__)
    places = " < ".join(f"{frame.name}:{frame.lineno}" for frame in reversed(frames[-FRAMES:]))
    return f"identify raised {type(error).__name__} ({places})"


def _session_of(code: str) -> str:
    """Return what names this browser's session; another person in it begins a new one.

    With the old one go its form tokens, so that no form of one person is sent by the next.
    """
    if session.get(_CODE) != code:
        session.clear()
        session.update({_CODE: code, _ID: f"host:{secrets.token_hex(8)}"})
    return session[_ID]


def _forget() -> None:
    if session:
        session.clear()
