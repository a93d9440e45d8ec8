"""What is asked of the staff: jobs of every kind, in a mix that leaves nobody idle."""

from random import Random
from typing import Any, Final

import psycopg

from queue_core import NewJob
from queue_core.errors import DatabaseAwayError
from tests.chaos.books import Books
from tests.queue_core.worker.conftest import wait_for

MIX: Final[tuple[tuple[int, str], ...]] = (
    (500, "chaos.quick"),
    (250, "chaos.plain"),
    (50, "chaos.once"),
    (70, "chaos.long"),
    (2, "chaos.limited"),  # each costs a child its life
    (50, "chaos.deferring"),
    (50, "chaos.failing"),
    (28, "chaos.reviewed"),
)
TAKES_SECONDS: Final = frozenset({"chaos.once", "chaos.long", "chaos.reviewed"})
AWAY: Final = (psycopg.OperationalError, psycopg.InterfaceError, psycopg.InternalError,
               DatabaseAwayError)  # fmt: skip
"""How a database says that it is not there, or may not be written to."""


def mixed(dice: Random, count: int, *, longest: float = 0.3) -> list[NewJob]:
    """Return jobs of every kind; those that take a time take up to `longest` seconds."""
    names = dice.choices([name for _, name in MIX], [weight for weight, _ in MIX], k=count)
    return [
        NewJob(
            name,
            {"seconds": round(dice.uniform(0, longest), 3)} if name in TAKES_SECONDS else {},
            priority=dice.randrange(3),
            delay=dice.uniform(0, 0.5) if dice.random() < 0.1 else None,
        )
        for name in names
    ]


class Load:
    """Asks for jobs over a connection that may break, and asks on over another."""

    def __init__(self, url: str, books: Books, dice: Random) -> None:
        self._url, self._books, self._dice = url, books, dice
        self._conn: psycopg.Connection[Any] | None = None

    def ask(self, count: int, **options: Any) -> bool:
        """Ask for so many jobs; False where the database was away, and they may exist or not."""
        try:
            if self._conn is None:
                self._conn = psycopg.connect(self._url, autocommit=True, connect_timeout=2)
            self._books.ask(self._conn, *mixed(self._dice, count, **options))
        except AWAY:
            self.close()
            return False
        return True

    def ask_until_answered(self, count: int) -> None:
        """Ask until the database answers, as somebody does who needs these jobs."""
        wait_for(lambda: self.ask(count))

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._conn is not None:
            self._conn.close()
        self._conn = None
