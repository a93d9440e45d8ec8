"""What stands round every page: how many jobs wait for a person, and how old the numbers are."""

import time
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from flask import Flask, g

from console import rights
from console.database import Connection
from console.formats import count
from queue_core.queries import clock, review
from queue_core.states import STATES

MOST_ON_BADGE: Final = 99


@dataclass(frozen=True, slots=True)
class Frame:
    """The database's clock as the page was read, and the number on the badge of Review."""

    now: datetime
    waiting_for_review: str
    read_at: float

    @property
    def age(self) -> int:
        """Seconds since the numbers were read, on this process's monotonic clock."""
        return int(time.monotonic() - self.read_at)


def frame(conn: Connection) -> Frame:
    """Read what stands round the page; first, so that its numbers are the oldest of the page."""
    read_at = time.monotonic()
    waiting = review.count_in_review(conn, cap=MOST_ON_BADGE)
    badge = count(waiting, MOST_ON_BADGE) if waiting else ""
    return Frame(clock.now(conn), badge, read_at)


def init_app(app: Flask, instance: str) -> None:
    """Give every template who is signed in, what they may do, and the instance's name."""
    app.jinja_env.globals.update(may=_may, instance=instance, STATES=STATES)
    app.context_processor(lambda: {"who": g.get("who")})


def _may(what: str) -> bool:
    return rights.may(g.get("who"), what)
