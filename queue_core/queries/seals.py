"""The seals, as they stand in the chain and as their heads are kept outside the database."""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import psycopg

from queue_core.database import rows
from queue_core.errors import OptionError


@dataclass(frozen=True, slots=True)
class Head:
    """A seal as it is kept outside the database: its number, and its hash in hexadecimal."""

    number: int
    sha256: str

    def __str__(self) -> str:
        """Write it as it is kept: `NUMBER:HASH`."""
        return f"{self.number}:{self.sha256}"


_HEAD: Final = re.compile(r"([1-9][0-9]{0,17}):([0-9a-fA-F]{64})", re.ASCII)


def read_head(text: str) -> Head:
    """Return the head that `NUMBER:HASH` names. Raises OptionError where it is not so written."""
    found = _HEAD.fullmatch(text.strip())
    if not found:
        message = (
            "a head is the number of a seal, a colon and the 64 hexadecimal digits of its hash"
        )
        raise OptionError(message)
    return Head(int(found[1]), found[2].lower())


@dataclass(frozen=True, slots=True)
class SealRow:
    """A seal as lists show one; `sha256` and `previous` in hexadecimal."""

    number: int
    at: datetime
    count: int
    rebase: bool
    sha256: str
    previous: str

    @property
    def head(self) -> Head:
        """What to keep outside the database."""
        return Head(self.number, self.sha256)


NEWEST = """
SELECT seals.number, seals.at, seals.count, seals.rebase, encode(seals.sha256, 'hex') AS sha256,
    encode(seals.previous, 'hex') AS previous
FROM countersign.seals
ORDER BY seals.number DESC
LIMIT %(most)s
"""


def newest(conn: psycopg.Connection[object], most: int = 20) -> list[SealRow]:
    """Return the newest seals, the head of the chain first."""
    return rows(conn, NEWEST, {"most": most}, SealRow)


ONE = """
SELECT seals.number, seals.at, seals.count, seals.rebase, encode(seals.sha256, 'hex') AS sha256,
    encode(seals.previous, 'hex') AS previous
FROM countersign.seals
WHERE seals.number = %(number)s
"""


def seal(conn: psycopg.Connection[object], number: int) -> SealRow | None:
    """Return the seal of this number, or None where there is none."""
    found = rows(conn, ONE, {"number": number}, SealRow)
    return found[0] if found else None
