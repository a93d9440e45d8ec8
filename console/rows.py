"""What stands in each row of a long list, and is made once for a page."""

from collections.abc import Callable, Hashable
from typing import Final
from uuid import UUID

from flask import Flask, g, url_for

from console.filters import JobFilter
from queue_core.queries.fitting import Field

_SOME_JOB: Final = UUID(int=0)
_SOME_ACT: Final = 0


def job_url(job_id: UUID, way_back: str | None = None, form: str | None = None) -> str:
    """Return the address of a job's page, with one of its forms open, and the way back in it."""
    made = _made(("job", way_back, form))
    if not made:
        whole = url_for("jobs.show", job_id=_SOME_JOB, form=form, next=way_back, _anchor=form)
        made.extend(_around(whole, str(_SOME_JOB)))
    return f"{made[0]}{job_id}{made[1]}"


def act_url(act_id: int) -> str:
    """Return the address of an act's page."""
    made = _made(("act",))
    if not made:
        made.extend(_around(url_for("ledger.show", act_id=_SOME_ACT), str(_SOME_ACT)))
    return f"{made[0]}{act_id}{made[1]}"


class Narrowing:
    """The addresses of a list of jobs with more filters, each made once."""

    def __init__(self, wanted: JobFilter) -> None:
        self._wanted = wanted
        self._made: dict[tuple[tuple[Field, str], ...], str] = {}

    def to(self, *only: tuple[Field, str]) -> str:
        """Return where only the jobs with these values stand."""
        if only not in self._made:
            narrowed = self._wanted
            for what, value in only:
                narrowed = narrowed.with_only(what, value)
            self._made[only] = url_for("jobs.index", **narrowed.query())
        return self._made[only]


class Once:
    """Calls a template's macro the first time, and gives what it wrote whenever it is asked again.

    For macros that write the same for the same values, in one page.
    """

    def __init__(self) -> None:
        self._written: dict[tuple[object, ...], str] = {}

    def __call__(self, macro: Callable[..., str], *values: Hashable) -> str:
        """Return what the macro writes for these values."""
        key = (macro, *values)
        if key not in self._written:
            self._written[key] = macro(*values)
        return self._written[key]


def init_app(app: Flask) -> None:
    """Give every template `job_url` and `act_url`."""
    app.jinja_env.globals.update(job_url=job_url, act_url=act_url)


def _made(what: tuple[str | None, ...]) -> list[str]:
    """Return what stands before and after the number in such an address; empty the first time."""
    made: dict[tuple[str | None, ...], list[str]] = g.setdefault("countersign_addresses", {})
    return made.setdefault(what, [])


def _around(address: str, number: str) -> tuple[str, str]:
    path, mark, query = address.partition("?")
    return path.removesuffix(number), mark + query
