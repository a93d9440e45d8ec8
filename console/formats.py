"""How values are written on pages: times, spans, counts, ids, and text that hides nothing."""

import unicodedata
from collections.abc import Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final
from urllib.parse import urlsplit
from uuid import UUID

from flask import Flask

MINUTE: Final = 60
HOUR: Final = 3_600
DAY: Final = 86_400
WHY: Final[Mapping[str, str]] = MappingProxyType(
    {
        "lost": "Its worker was lost while it ran",
        "crashed": "Its process died while it ran",
        "crashed_again": "Its process died a second time while it ran",
        "disputed": "A run that was given up on reported after all",
        "unreadable": "Its arguments cannot be read, so its code was not entered",
    }
)
DID: Final[Mapping[str, str]] = MappingProxyType(
    {
        "enqueued": "asked for it",
        "cancelled": "cancelled it",
        "cancel_requested": "asked it to stop",
        "retried": "gave it one more attempt",
        "released": "released it to run again",
        "confirmed": "confirmed that it did run",
        "closed": "closed it, never to run",
        "revealed": "was shown its arguments",
        "assigned": "took it on",
        "noted": "noted something",
        "paused": "paused it",
        "resumed": "resumed it",
        "run_now": "had it run at once",
        "added": "added an operator",
        "role_changed": "changed an operator’s role",
        "disabled": "disabled an operator",
        "password_reset": "reset an operator’s password",
    }
)
LOST: Final[Mapping[str, str]] = MappingProxyType(
    {
        "stale": "not heard from in time",
        "same_host": "its process was gone",
        "gave_up": "it gave itself up",
    }
)
_LAID_OUT: Final = "\n\t"
_HIDDEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
_JOINERS: Final = "\u200c\u200d"
"""Invisible, and needed to write Persian, Hindi and some emoji."""


def span(seconds: float) -> str:
    """Return a length of time in its largest fitting unit: 0.4 s, 12 s, 9 min, 3 h, 2 days."""
    seconds = abs(seconds)
    if 0 < seconds < 1:
        return f"{seconds:.1f} s" if seconds >= 0.1 else "under 0.1 s"  # noqa: PLR2004
    if seconds < MINUTE:
        return f"{int(seconds)} s"
    if seconds < HOUR:
        return f"{int(seconds // MINUTE)} min"
    if seconds < DAY:
        return f"{int(seconds // HOUR)} h"
    days = int(seconds // DAY)
    return f"{days:,} day" if days == 1 else f"{days:,} days"


def every(seconds: float) -> str:
    """Return an interval whole, in the units that people give it in: 1 day, 90 s, 2 h 30 min."""
    left, parts = seconds, list[str]()
    for unit, length in (("day", DAY), ("h", HOUR), ("min", MINUTE)):
        number, left = divmod(left, length)
        plural = "s" if unit == "day" and number != 1 else ""
        parts += [f"{number:,.0f} {unit}{plural}"] if number else []
    parts += [f"{left:g} s"] if left or not parts else []
    return " ".join(parts)


def web_address(text: str | None) -> bool:
    """Say whether `text` is the address of a page, and nothing that a browser would run."""
    if not text or not text.isprintable() or " " in text:
        return False
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and bool(parts.hostname)


def ago(moment: datetime, now: datetime) -> str:
    """Return `moment` as seen from `now`: 41 min ago, in 5 min, now."""
    seconds = (now - moment).total_seconds()
    if abs(seconds) < 1:
        return "now"
    return f"{span(seconds)} ago" if seconds > 0 else f"in {span(seconds)}"


def utc(moment: datetime) -> str:
    """Return a time in full: 29 Nov 2026 02:31:12 UTC."""
    return f"{moment.astimezone(UTC):%d %b %Y %H:%M:%S} UTC"


def clock(moment: datetime) -> str:
    """Return a time of day with tenths, for steps that follow fast: 02:31:12.4."""
    return f"{moment.astimezone(UTC):%H:%M:%S.%f}"[:-5]


def day(moment: datetime) -> str:
    """Return a date: 29 Nov 2026."""
    return f"{moment.astimezone(UTC):%d %b %Y}"


def iso(moment: datetime) -> str:
    """Return a time for machines: 2026-11-29T02:31:12Z."""
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def count(number: int, cap: int) -> str:
    """Return a number with its thousands apart; past the cap it is the cap and a plus."""
    return f"{cap:,}+" if number > cap else f"{number:,}"


def per_minute(number: float) -> str:
    """Return how many there were a minute: 0, under 1, 1.4, 12,345."""
    if number == 0:
        return "0"
    if number < 1:
        return "under 1"
    return f"{number:.1f}" if number < 10 else f"{number:,.0f}"  # noqa: PLR2004


def short_id(job_id: UUID) -> str:
    """Return enough of an id to tell jobs of one moment apart: their first half is the clock's."""
    text = str(job_id)
    return f"{text[:13]}…{text[-4:]}"


def words(code: str) -> str:
    """Return a state, act or outcome as words: Needs review."""
    return code.replace("_", " ").capitalize()


def shown(text: str | None) -> str:
    """Return `text` with all that is invisible or turns the line round written as its number."""
    if not text or text.isprintable():  # as nearly all is, and long lists have much of it
        return text or ""
    return "".join(map(_shown, text))


def _shown(character: str) -> str:
    if character in _LAID_OUT + _JOINERS or unicodedata.category(character) not in _HIDDEN:
        return character
    return f"⟨U+{ord(character):04X}⟩"


def why(code: str) -> str:
    """Return why a job is in review, as a sentence without its full stop."""
    return WHY.get(code, words(code))


def lost(rule: str) -> str:
    """Return by which rule a worker was declared lost, as a sentence without its full stop."""
    return LOST.get(rule, words(rule).lower())


def did(act: str) -> str:
    """Return an act as the verb of a sentence."""
    return DID.get(act, words(act).lower())


def init_app(app: Flask) -> None:
    """Give the templates these as filters."""
    app.add_template_test(web_address)
    for each in (
        span,
        every,
        ago,
        utc,
        clock,
        day,
        iso,
        count,
        per_minute,
        short_id,
        words,
        shown,
        why,
        did,
        lost,
    ):
        app.add_template_filter(each)
