"""Passwords of operators: what may be one, how it is kept, how it is compared."""

import secrets
import unicodedata
from functools import cache
from typing import Final

import argon2

from queue_core.errors import OperatorRefusedError

FEWEST_CHARACTERS: Final = 10
MOST_CHARACTERS: Final = 200
RANDOM_GROUPS: Final = 4
RANDOM_GROUP_LENGTH: Final = 5
_ALPHABET: Final = "abcdefghjkmnpqrstuvwxyz23456789"  # no i, l, o, 0 or 1: they are misread
_UNFIT: Final = frozenset({"Cc", "Cs"})
# About 36 ms and 19 MiB a try, the lighter of the settings that OWASP gives for argon2id.
_HASHER: Final = argon2.PasswordHasher(time_cost=2, memory_cost=19_456, parallelism=1)


def hashed(password: str) -> str:
    """Return the text to store for `password`, its salt and settings included.

    Raises OperatorRefusedError, which never repeats it, unless it is 10 to 200
    characters long and holds no control character.
    """
    if not _fit(password):
        raise OperatorRefusedError(
            f"a password must be {FEWEST_CHARACTERS} to {MOST_CHARACTERS} characters long, "
            "of any kind but control characters"
        )
    return _HASHER.hash(_normal(password))


def matches(stored: str | None, password: str) -> bool:
    """Say whether `password` is the one behind `stored`; `None` is nobody's, so it never is.

    Takes as long either way: a guesser learns nothing from the time.
    """
    known = stored is not None and _fit(password)
    try:
        same = _HASHER.verify(
            stored if stored is not None and known else _nobodys(),
            _normal(password) if known else "",
        )
    except (argon2.exceptions.VerificationError, argon2.exceptions.InvalidHashError):
        same = False
    return known and same


def is_outdated(stored: str) -> bool:
    """Say whether `stored` was made with other settings than today's."""
    return _HASHER.check_needs_rehash(stored)


def random_password() -> str:
    """Return a new password that a person can read aloud: four groups of five, 99 bits."""
    groups = (_group() for _ in range(RANDOM_GROUPS))
    return "-".join(groups)


def prepare() -> None:
    """Make what a comparison needs, so that the first one takes no longer than the others."""
    _nobodys()


def _group() -> str:
    return "".join(secrets.choice(_ALPHABET) for _ in range(RANDOM_GROUP_LENGTH))


def _fit(password: str) -> bool:
    return FEWEST_CHARACTERS <= len(password) <= MOST_CHARACTERS and not any(
        unicodedata.category(character) in _UNFIT for character in password
    )


def _normal(password: str) -> str:
    """One spelling for what keyboards and systems encode in several ways (NIST SP 800-63B)."""
    return unicodedata.normalize("NFKC", password)


@cache
def _nobodys() -> str:
    return _HASHER.hash(secrets.token_urlsafe())
