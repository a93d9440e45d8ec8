"""Queues and schedules: what people did to one, and acts on it that nobody was faster with."""

from dataclasses import dataclass
from typing import Final, Protocol

from flask import flash, redirect, request, url_for
from werkzeug.wrappers import Response

from console import refusals, twice
from console.database import Connection, acting, reading
from console.drafts import Draft
from console.forms.named import NameForm
from console.refusals import Notice
from queue_core.errors import (
    ContendedError,
    CountersignError,
    QueueRefusedError,
    ScheduleRefusedError,
)
from queue_core.queries.acts import ActRow, NamedKind, acts_on

MOST_ACTS: Final = 20
"""Shown of one queue or schedule, the newest; the ledger has all."""

Answer = Response | tuple[str, int]


class Change(Protocol):
    """A core function that changes a queue or schedule for a person."""

    def __call__(  # noqa: D102 - as the core functions say
        self, conn: Connection, name: str, /, *, by: str, reason: str, note: str | None, via: str
    ) -> object: ...


class Page(Protocol):
    """Shows one queue or schedule; what was typed in `form` for `verb` stays there."""

    def __call__(  # noqa: D102 - as the class says
        self,
        name: str,
        form: NameForm | None = None,
        verb: str | None = None,
        notice: Notice | None = None,
        status: int = 200,
        /,
    ) -> Answer: ...


@dataclass(frozen=True, slots=True)
class History:
    """The last acts on a queue or schedule, newest first; `more` says that there are older ones."""

    acts: list[ActRow]
    more: bool

    @property
    def last_act(self) -> int:
        """The number of the newest act, 0 where there is none."""
        return self.acts[0].id if self.acts else 0

    @property
    def last_pause(self) -> ActRow | None:
        """The newest act that paused it."""
        return next((act for act in self.acts if act.act == "paused"), None)


class FasterError(Exception):
    """Somebody else acted on it after the page was read; raised to undo what was done."""


def history(conn: Connection, kind: NamedKind, name: str) -> History:
    """Read what people did to a queue or schedule last."""
    found = acts_on(conn, kind, name, limit=MOST_ACTS + 1)
    return History(found[:MOST_ACTS], len(found) > MOST_ACTS)


def act(kind: NamedKind, verb: str, change: Change, page: Page) -> Answer:
    """Sign and do what was posted, and go back with a word of it, or show the page with why not."""
    form = NameForm(request.form)
    name = form.name.data or ""
    if not form.validate():
        return page(name, form, verb, refusals.WRONG_FIELDS, 400)
    notice = _perform(kind, name, form, change)
    if notice:
        return page(name, form, verb, notice, 409)
    return redirect(form.way_back() or url_for(".show", name=name), 303)


def again(page: Page, draft: Draft, notice: Notice, status: int) -> Answer:
    """Show the page whose act a session that is over interrupted, with what had been typed."""
    form = NameForm(data=draft.fields)
    form.say_whose()
    return page(form.name.data or "", form, draft.verb, notice, status)


def _perform(kind: NamedKind, name: str, form: NameForm, change: Change) -> Notice | None:
    """Sign and do it, and say so on the next page; or return why nothing was done.

    `change` makes the act; that no other came between it and the page is looked for after it,
    in its transaction, which holds what it changed. What an earlier press of the same button
    did is done: the next page says so, too.
    """
    try:
        with acting() as conn:
            change(conn, name, **form.signature())
            done = _require_first(conn, kind, name, form.seen())
    except ContendedError:
        title = f"Nothing was done: somebody else is changing this {kind} at this moment"
        return Notice(title, ("Look at what it says now, then press the button once more.",))
    except (FasterError, QueueRefusedError, ScheduleRefusedError) as error:
        first = _first_press(kind, name, form)
        if first is None:
            return Notice(f"Nothing was done: {_why_not(kind, error)}", changed=True)
        twice.tell(first)
        return None
    flash(f"{kind} {done.act} {done.id}", "act on name")
    return None


def _why_not(kind: NamedKind, error: CountersignError | FasterError) -> str:
    match error:
        case ScheduleRefusedError():
            return error.because
        case FasterError():
            return f"somebody else has acted on this {kind} since you opened it"
        case _:
            return "it is so already"


def _first_press(kind: NamedKind, name: str, form: NameForm) -> ActRow | None:
    """Return the act that came after what the form saw, where the same form left it."""
    with reading() as conn:
        newest = acts_on(conn, kind, name, limit=1)
    first = twice.first_press(newest[0] if newest else None, request.endpoint or "", form)
    return first if first and first.id > form.seen() else None


def _require_first(conn: Connection, kind: NamedKind, name: str, seen: int) -> ActRow:
    """Return the act just made. Raises FasterError where another stands between it and `seen`."""
    done, *before = acts_on(conn, kind, name, limit=2)
    if (before[0].id if before else 0) != seen:
        raise FasterError
    return done
