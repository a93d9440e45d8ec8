"""Failed sign-ins, counted so that a guesser has to wait and nobody else does."""

import hashlib
import ipaddress
from dataclasses import dataclass
from typing import Final

import psycopg

from queue_core.database import execute, rows
from queue_core.errors import TooManyTriesError

FREE_TRIES: Final = 5
"""Failures of one code from one address before the next try has to wait."""
FREE_TRIES_OF_ADDRESS: Final = 30
LONGEST_WAIT_SECONDS: Final = 900.0
FORGOTTEN_AFTER_SECONDS: Final = 3_600
_WHOLE_ADDRESS: Final = ""
_MOST_DOUBLINGS: Final = 10
_MOST_LOOKS: Final = 100


@dataclass(frozen=True, slots=True)
class Tries:
    """A row of failures: `code` is a digest, since people type passwords into the wrong field."""

    code: str
    address: str
    free: int


@dataclass(frozen=True, slots=True)
class _Failures:
    failures: int
    age: float


def tries(code: str, address: str | None) -> tuple[Tries, Tries]:
    """Return what a try is counted by: its address, and its code from there."""
    place = _place(address)
    return (
        Tries(_WHOLE_ADDRESS, place, FREE_TRIES_OF_ADDRESS),
        Tries(digest(code), place, FREE_TRIES),
    )


def _place(address: str | None) -> str:
    """An IPv6 customer has 2**64 addresses: they are one place."""
    try:
        parsed = ipaddress.ip_address((address or "").strip())
    except ValueError:
        return "unknown"
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped:
        return str(parsed.ipv4_mapped)
    if isinstance(parsed, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((int(parsed), 64), strict=False))
    return str(parsed)


def _wait(row: Tries, seen: _Failures) -> float:
    """Seconds still to wait after `seen.failures`: 2, 4, 8 … up to 900 past the free ones."""
    if seen.failures < row.free:
        return 0.0
    doublings = min(seen.failures - row.free + 1, _MOST_DOUBLINGS)
    return max(min(2.0**doublings, LONGEST_WAIT_SECONDS) - seen.age, 0.0)


def count(conn: psycopg.Connection[object], tries: tuple[Tries, Tries]) -> None:
    """Count a failure before the password is looked at: a hundred tries at once are a hundred.

    Raises TooManyTriesError, counting nothing, where either row has to wait.
    """
    for row in tries:
        _require_no_wait(row, _look(conn, row))
    for row in tries:
        _add(conn, row)


def _require_no_wait(row: Tries, seen: _Failures) -> None:
    seconds = _wait(row, seen)
    if seconds > 0:
        raise TooManyTriesError(max(seconds, 1.0))


def _add(conn: psycopg.Connection[object], row: Tries) -> None:
    for _ in range(_MOST_LOOKS):
        seen = _look(conn, row)
        _require_no_wait(row, seen)
        if _add_to(conn, row, seen.failures):
            return
    raise TooManyTriesError(1.0)


LOOK = """
SELECT sign_in_failures.failures,
    EXTRACT(EPOCH FROM now() - sign_in_failures.last_at)::double precision AS age
FROM countersign.sign_in_failures
WHERE sign_in_failures.code = %(code)s
    AND sign_in_failures.address = %(address)s
    AND sign_in_failures.last_at > now() - make_interval(secs => %(forgotten)s)
"""


def _look(conn: psycopg.Connection[object], row: Tries) -> _Failures:
    given: dict[str, object] = {"code": row.code, "address": row.address}
    found = rows(conn, LOOK, {**given, "forgotten": FORGOTTEN_AFTER_SECONDS}, _Failures)
    return found[0] if found else _Failures(0, 0.0)


# Only on top of what was seen: of two tries at once one finds the other's and looks again.
ADD_TO = """
INSERT INTO countersign.sign_in_failures AS counted (code, address, failures, last_at)
VALUES (%(code)s, %(address)s, 1, now())
ON CONFLICT (code, address) DO UPDATE
SET failures = %(seen)s + 1,
    last_at = now()
WHERE counted.failures = %(seen)s
    OR counted.last_at <= now() - make_interval(secs => %(forgotten)s)
"""


def _add_to(conn: psycopg.Connection[object], row: Tries, seen: int) -> int:
    given: dict[str, object] = {"code": row.code, "address": row.address, "seen": seen}
    return execute(conn, ADD_TO, {**given, "forgotten": FORGOTTEN_AFTER_SECONDS})


# Only the pair's: were the address's forgotten too, one good account would let an address guess
# for ever.
FORGET = """
DELETE FROM countersign.sign_in_failures
WHERE sign_in_failures.code = %(code)s
    AND sign_in_failures.address = %(address)s
"""
TAKE_BACK = """
UPDATE countersign.sign_in_failures
SET failures = sign_in_failures.failures - 1
WHERE sign_in_failures.code = %(code)s
    AND sign_in_failures.address = %(address)s
    AND sign_in_failures.failures > 0
"""
TIDY = """
DELETE FROM countersign.sign_in_failures
WHERE ctid = ANY(ARRAY(
    SELECT sign_in_failures.ctid
    FROM countersign.sign_in_failures
    WHERE sign_in_failures.last_at < now() - interval '1 day'
    LIMIT 1000
    FOR UPDATE SKIP LOCKED
))
"""


def uncount(conn: psycopg.Connection[object], tries: tuple[Tries, Tries]) -> None:
    """Take a try back that was right, and forget the failures of its code from there."""
    whole_address, pair = tries
    execute(conn, TAKE_BACK, {"code": whole_address.code, "address": whole_address.address})
    execute(conn, FORGET, {"code": pair.code, "address": pair.address})
    execute(conn, TIDY, {})


def digest(code: str) -> str:
    """Return what is kept of what was typed as a code."""
    return hashlib.sha256(code.encode(errors="surrogatepass")).hexdigest()
