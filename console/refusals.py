"""What is said when something is not done: a sentence for each refusal, a page for each error."""

import logging
import traceback
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from flask import Flask, current_app, g, render_template, request, url_for
from werkzeug.exceptions import HTTPException, MethodNotAllowed

from console.database import CommitUnansweredError, NotWrittenError
from console.dossier import Dossier
from console.filters import FilterError
from console.formats import words
from console.forms.jobs import ActForm
from console.host import IdentifyError
from console.pagination import PlaceError
from queue_core.acts import ActOutcome
from queue_core.errors import (
    CountersignError,
    DatabaseAwayError,
    EmbeddedError,
    SchemaError,
    TookTooLongError,
)
from queue_core.states import QUEUED, kind_of

Answer = tuple[str, int, dict[str, str]]
NOT_FOUND: Final = 404
TOO_LARGE: Final = 413
SERVER_ERROR: Final = 500
FRAMES: Final = 6

log = logging.getLogger("console")

PASTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "cancel": "cancelled",
        "retry": "retried",
        "release": "released",
        "confirm": "confirmed",
        "close": "closed",
        "assign": "assigned",
        "note": "noted",
        "reveal": "revealed",
    }
)


@dataclass(frozen=True, slots=True)
class Notice:
    """What stands on top of a page: why nothing was done, and whether it changed meanwhile."""

    title: str
    sentences: tuple[str, ...] = ()
    changed: bool = False


CONTENDED: Final = Notice(
    "Nothing was done: somebody else is changing this job at this moment",
    ("Look at what it says now, then press the button once more.",),
    changed=True,
)
WRONG_FIELDS: Final = Notice("Nothing was done: the form needs another look")
STALE: Final = Notice(
    "Nothing was done: this page was opened before you signed in again",
    ("Look at what it says now, then press the button once more.",),
)
RESUMED: Final = Notice(
    "You are signed in. Nothing was done yet",
    ("What you had typed is in the form. Look again, then press the button.",),
)


def refused(verb: str, outcome: ActOutcome, form: ActForm) -> Notice:
    """Say why an act was refused by the job as it stands."""
    now = f"It is {place(outcome.state, outcome.attempt)} now."
    match outcome.why:
        case "moved_on":
            saw = place(form.seen_state.data, int(form.seen_attempt.data or 0))
            return Notice(
                "Nothing was done: the job has moved on",
                (f"You saw it {saw}.", now),
                changed=True,
            )
        case "already_asked":
            return Notice("Nothing was done: it has been asked to stop already", (), changed=True)
        case _:
            title = f"Nothing was done: a job cannot be {PASTS[verb]} from where it stands"
            return Notice(title, (now,), changed=True)


def place(state: str | None, attempt: int | None) -> str:
    """Return where a job stands, in words: failed after attempt 2."""
    said = words(state or "unknown").lower()
    if state in QUEUED and not attempt:
        return said
    return f"{said} {'at' if state == 'running' else 'after'} attempt {attempt}"


def has_moved_on(form: ActForm, found: Dossier) -> bool:
    """Say whether the job is not as the form says that it was seen."""
    if found.job is None or not form.seen_state.data:
        return False
    seen = (kind_of(form.seen_state.data), str(form.seen_attempt.data))
    return seen != (kind_of(found.job.state), str(found.job.attempt))


@dataclass(frozen=True, slots=True)
class ErrorPage:
    """The words of a page for a status."""

    title: str
    sentence: str


PAGES: Final[Mapping[int, ErrorPage]] = MappingProxyType(
    {
        400: ErrorPage(
            "That cannot be read",
            "Something in the request is not as it should be. Nothing was done. Open the page "
            "anew and try again.",
        ),
        401: ErrorPage(
            "You are not signed in",
            "Sign in to the service that this console is part of, then open this page again. "
            "Nothing was done.",
        ),
        403: ErrorPage(
            "Not yours to do",
            "Your role does not allow this. Nothing was done. Ask somebody whose role does, or an "
            "admin for another role.",
        ),
        404: ErrorPage(
            "Nothing here",
            "There is no such page or job; or it was deleted by retention and nobody ever acted on "
            "it. Check the address, or search for the job by its id.",
        ),
        405: ErrorPage(
            "Not this way",
            "This address takes only what a form sends. Nothing was done. Open the page that has "
            "the form.",
        ),
        413: ErrorPage(
            "Too large",
            "That is more than any form here can hold. Nothing was done. Write less, or choose "
            "fewer jobs.",
        ),
        500: ErrorPage(
            "Something broke here",
            "The fault is the console's; its log says where. Nothing was half-written. Try again; "
            "if it breaks again, tell whoever runs the console.",
        ),
    }
)
AWAY: Final = ErrorPage(
    "The database does not answer",
    "Nothing can be shown, and nothing was done. Try again in a moment.",
)
UNANSWERED: Final = ErrorPage(
    "It is not known whether that was done",
    "The database went away while the change was being committed. Open the job: its history says. "
    "Doing it again does no harm, since a job that has moved on is left alone.",
)
NOT_WRITTEN: Final = ErrorPage(
    "The database refused the change",
    "Change and act are written together or not at all: nothing was done. Try again; if it is "
    "refused again, tell whoever runs the console: its log says why.",
)
UNSOUND: Final = ErrorPage(
    "The schema is not sound",
    "The console does not run on a database whose ledger could be rewritten, or that it does not "
    "know. On the server, flask queue check says what is wrong and how to mend it.",
)
NOBODY_KNOWN: Final = ErrorPage(
    "It is not known who you are",
    "The service that this console is part of was asked who is signed in, and gave no answer that "
    "can be used. Its log says why. Nothing was done. Try again in a moment.",
)
TOO_LONG: Final = ErrorPage(
    "This took longer than 3 seconds",
    "The reading was ended, so that the queue does not wait for it. Try again, or ask for less.",
)


def init_app(app: Flask) -> None:
    """Answer every error with a page of ours."""
    app.register_error_handler(HTTPException, of_http)
    app.register_error_handler(CountersignError, of_ours)


def of_http(error: HTTPException) -> Answer:
    """Return the page for a status; what we ourselves said of it stands on it."""
    status = error.code or 500
    known = PAGES.get(status, ErrorPage(error.name, "Nothing was done."))
    ours = error.description != type(error).description and status != SERVER_ERROR
    sentence = (error.description if ours else None) or known.sentence
    allowed = error.valid_methods if isinstance(error, MethodNotAllowed) else None
    headers = {"Allow": ", ".join(sorted(allowed))} if allowed else {}
    return _page(ErrorPage(known.title, sentence), status), status, headers


def of_ours(error: CountersignError) -> Answer:
    """Return the page for what queue_core or the database refused."""
    match error:
        case FilterError() | PlaceError():
            return _answer(ErrorPage(PAGES[400].title, str(error)), 400)
        case CommitUnansweredError():
            shown = UNANSWERED
        case DatabaseAwayError() | EmbeddedError():
            shown = AWAY
        case TookTooLongError():
            shown = TOO_LONG
        case SchemaError():
            shown = UNSOUND
        case NotWrittenError():
            shown = NOT_WRITTEN
        case IdentifyError():
            log.error("%s: %s", type(error).__name__, error)
            return _answer(NOBODY_KNOWN, 503)
        case _:
            log_safely(error)
            return _answer(PAGES[SERVER_ERROR], SERVER_ERROR)
    log.warning("%s: %s", type(error).__name__, error)
    return _answer(shown, 503)


def signed_not_shown(act_id: int) -> tuple[str, int]:
    """Say that an act stands though what it was for cannot be shown now."""
    sentence = (
        f"You signed act {act_id}, which stands, but the database no longer answers. Nothing was "
        "shown; to look at the arguments, reveal them once more, which is another act."
    )
    return _page(ErrorPage("Signed, but not shown", sentence), 503), 503


def log_safely(error: BaseException | None) -> None:
    """Log what broke and where, without the error's text: it can repeat values and reasons."""
    frames = traceback.extract_tb(error.__traceback__) if error else []
    places = " < ".join(f"{frame.name}:{frame.lineno}" for frame in reversed(frames[-FRAMES:]))
    log.error("%s in %s (%s)", type(error).__name__, request.endpoint, places)


def _answer(shown: ErrorPage, status: int) -> Answer:
    return _page(shown, status), status, {}


def _page(shown: ErrorPage, status: int) -> str:
    typed = g.get("typed") or (_sent() if status != TOO_LARGE else {})
    return render_template(
        "errors/page.html",
        status=status,
        page=shown,
        reason=typed.get("reason"),
        note=typed.get("note"),
        back=None if status == NOT_FOUND else _way_back(),
    )


def _sent() -> Mapping[str, str]:
    return request.form if request.method == "POST" else {}


def _way_back() -> str | None:
    """Return the page of the job that the request was about."""
    job_id = _asked_for().get("job_id")
    return url_for("jobs.show", job_id=job_id) if job_id else None


def _asked_for() -> Mapping[str, object]:
    """Return the values in the address; of a form's address opened as a page, too."""
    if isinstance(request.routing_exception, MethodNotAllowed):
        adapter = current_app.create_url_adapter(request)
        with suppress(HTTPException):
            return adapter.match(method="POST")[1] if adapter else {}
    return request.view_args or {}
