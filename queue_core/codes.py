"""Codes: who did an act and why, checked before anything is written."""

import re
import unicodedata
from typing import Final

from queue_core.errors import NotACodeError, NoteError

MAX_CODE_CHARACTERS: Final = 200
MAX_NOTE_CHARACTERS: Final = 2_000
_INVISIBLE: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_BLANK_LETTERS: Final = frozenset("\u115f\u1160\u3164\uffa0\u034f\u17b4\u17b5\u2800")
_VARIATIONS: Final = re.compile("[\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef]")
"""Zero-width marks that change how the letter before them is drawn, if at all."""


def check_code(text: object, what: str) -> str:
    """Return `text` where it is a code, for the field named `what`.

    A code is 1 to 200 characters, not blank, and holds no control, bidirectional,
    zero-width or unassigned character and no lone surrogate.

    Raises NotACodeError, which names the field and never the text.
    """
    if not isinstance(text, str) or not 1 <= len(text) <= MAX_CODE_CHARACTERS:
        raise NotACodeError(what)
    if not text.strip() or not all(map(_visible, text)):
        raise NotACodeError(what)
    return text


def check_note(text: str | None) -> str | None:
    """Return the note, or None where it is absent or blank.

    A note is free text of at most 2,000 characters with line breaks and tabs, but no
    other control character. Raises NoteError.
    """
    if text is None or not text.strip():
        return None
    text = text.strip().replace("\r\n", "\n")
    if len(text) > MAX_NOTE_CHARACTERS or not all(c in "\n\t" or _visible(c) for c in text):
        raise NoteError
    return text


def _visible(character: str) -> bool:
    return (
        unicodedata.category(character) not in _INVISIBLE
        and character not in _BLANK_LETTERS
        and not _VARIATIONS.match(character)
    )
