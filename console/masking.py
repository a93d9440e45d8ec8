"""A job's arguments as text to be shown, with whatever looks secret masked."""

import json
import re
import unicodedata
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from queue_core.jobs import decode

MASK: Final = "(masked)"
MOST_INDENTED_CHARACTERS: Final = 200_000
"""Laid out, deep arguments can be a hundred times as long as they are."""
_SECRET: Final = re.compile(
    r"pass(word|wd|phrase|code|key)|pwd|secret|token|credential|authorization|cookie|bearer"
    r"|(api|access|private|signing|encryption|license|ssh|master|shared)key"
    r"|signature|connectionstring|cvv|cvc|cardnumber|iban|session(id|key)|seedphrase|mnemonic"
)
"""Looked for in a key's letters and digits alone, in small letters."""
_WHOLE: Final = frozenset({"auth", "oauth", "pin", "otp", "dsn", "pass", "jwt", "pw"})
"""Words too short to be looked for inside others: taken where they are a word of the key."""
_WORD: Final = re.compile(r"[^\W_]+?(?=[A-Z][a-z]|[\W_]|$)|[A-Z]+(?![a-z])")
_IN_URL: Final = re.compile(r"(?<=://)([^/\s?#@:]*):([^/\s?#]*)(?=@)")
_NAMING: Final = ("name", "key", "header", "field")
_NAMED: Final = "value"


def masked(text: str) -> str | None:
    """Return the JSON `text` laid out, secrets masked; None where it cannot be read as JSON."""
    try:
        shown = _masked(decode(text))
        laid_out = json.dumps(shown, ensure_ascii=False, indent=2)
        if len(laid_out) > MOST_INDENTED_CHARACTERS:
            return json.dumps(shown, ensure_ascii=False)
    except (ValueError, RecursionError):
        return None
    return laid_out


def looks_secret(key: str) -> bool:
    """Say whether what stands under `key` is to be masked."""
    plain = unicodedata.normalize("NFKC", key)
    letters = "".join(c for c in plain if c.isalnum()).casefold()
    words = {word.casefold() for word in _WORD.findall(plain)} | {letters}
    return bool(_SECRET.search(letters)) or not words.isdisjoint(_WHOLE)


def _masked(value: Any) -> Any:  # noqa: ANN401 - whatever JSON holds
    match value:
        case dict():
            hidden = _names_a_secret(value)
            return {
                key: MASK
                if looks_secret(key) or (hidden and key.casefold() == _NAMED)
                else _masked(each)
                for key, each in value.items()
            }
        case list():
            return [_masked(each) for each in value]
        case str():
            return _masked_text(value)
        case _:
            return value


def _masked_text(text: str) -> str:
    """Mask a password in a URL, and what is secret in a text that is JSON itself."""
    if text.lstrip()[:1] in {"{", "["}:
        with suppress(ValueError):
            inner: object = json.loads(text)
            shown = _masked(inner)
            return text if shown == inner else json.dumps(shown, ensure_ascii=False)
    return _IN_URL.sub(rf"\1:{MASK}", text)


def _names_a_secret(pair: Mapping[str, object]) -> bool:
    """{"name": "Authorization", "value": …}: the key stands beside, not above."""
    named = [each for key, each in pair.items() if key.casefold() in _NAMING]
    return any(isinstance(each, str) and looks_secret(each) for each in named)
