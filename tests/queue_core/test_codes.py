"""Codes and notes: what may sign an act."""

import re
import sys
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queue_core import NotACodeError
from queue_core.codes import check_code, check_note
from queue_core.errors import NoteError

PLANES = [*range(0x1_FFFF), *range(0xE_0000, 0xE_1000), 0xF_0000, sys.maxunicode]
EVERYTHING = [*map(chr, PLANES)]  # without the planes of ideographs and those that are empty
REFUSED_BY_THE_TABLE = """
SELECT given.text
FROM unnest(%(texts)s::text[]) AS given (text)
WHERE NOT countersign.is_code(given.text)
"""
GOOD = [
    "x",
    "x" * 200,
    "é" * 200,
    "ops:alice",
    "Grüße – ok",
    "a b",
    "日本語",
    "👍🏽",
    "a\u00a0b",
    "%s",
]
BAD = {
    "nothing": "",
    "blanks": " \u3000\u2003",
    "201 characters": "x" * 201,
    "a line break": "two\nlines",
    "a tab": "a\ttab",
    "NUL": "a\0",
    "an escape": "\x1b[31m",
    "a C1 control": "a\x85",
    "an override": "ops:\u202eecila",
    "an isolate": "a\u2066b",
    "a zero-width space": "ops:\u200balice",
    "a joiner": "👩\u200d💻",
    "a byte-order mark": "\ufeffops",
    "a soft hyphen": "a\u00adb",
    "a line separator": "a\u2028b",
    "a tag": "a\U000e0061",
    "a variation selector": "ops:alice\ufe0f",
    "a far variation selector": "ops:alice\U000e0100",
    "a Mongolian selector": "ops:alice\u180b",
    "a blank letter": "\u3164",
    "a Braille blank": "\u2800",
    "an unassigned character": "a\u0378",
    "a private character": "a\ue000",
    "half a surrogate pair": "a\ud800",
}


def is_code(text: str) -> bool:
    try:
        return check_code(text, "by") == text
    except NotACodeError:
        return False


@pytest.mark.parametrize("text", GOOD)
def test_a_code_is_returned_as_it_is(text: str) -> None:
    assert check_code(text, "by") == text


@pytest.mark.parametrize("text", [*BAD.values(), None, 7, b"ops:alice", ["ops:alice"]])
@pytest.mark.parametrize("what", ["by", "reason"])
def test_what_is_no_code_is_refused_by_field_and_never_repeated(text: Any, what: str) -> None:
    with pytest.raises(NotACodeError) as refused:
        check_code(text, what)
    assert refused.value.what == what
    assert f"`{what}`" in str(refused.value)
    assert "alice" not in str(refused.value) + repr(refused.value)


def test_no_character_that_hides_or_turns_the_text_passes() -> None:
    hidden = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
    assert not [c for c in EVERYTHING if unicodedata.category(c) in hidden and is_code(f"a{c}b")]


def test_no_text_of_blanks_alone_passes() -> None:
    assert not [c for c in EVERYTHING if c.isspace() and is_code(c * 3)]


def test_whatever_passes_here_passes_the_table(conn) -> None:
    alone = [c for c in EVERYTHING if is_code(c)]
    within = [f"a{c}b" for c in EVERYTHING if is_code(f"a{c}b")]
    assert len(within) > 70_000
    for texts in (alone, within, [*GOOD]):
        assert conn.execute(REFUSED_BY_THE_TABLE, {"texts": texts}).fetchall() == []


@pytest.mark.parametrize(
    "text",
    [
        each
        for name, each in BAD.items()
        if name
        not in {"NUL", "half a surrogate pair", "an unassigned character", "a private character"}
    ],
)
def test_what_is_refused_here_is_refused_by_the_table_too(conn, text: str) -> None:
    assert conn.execute(REFUSED_BY_THE_TABLE, {"texts": [text]}).fetchall() == [{"text": text}]


@given(st.text(max_size=210))
def test_any_text_is_a_code_or_refused(text: str) -> None:
    assert is_code(text) in {True, False}


# Notes


@pytest.mark.parametrize(
    ("note", "kept"),
    [
        (None, None),
        ("", None),
        (" \r\n\t ", None),
        ("They rang.\r\nTwice.", "They rang.\nTwice."),
        ("  a\tb\n\n- c  ", "a\tb\n\n- c"),
        ("x" * 2_000, "x" * 2_000),
        ("é" * 2_000, "é" * 2_000),
    ],
)
def test_a_note_is_kept_without_its_margins(note: str | None, kept: str | None) -> None:
    assert check_note(note) == kept


@pytest.mark.parametrize(
    "note", ["x" * 2_001, "a\0", "a\rb", "a\x07", "a\u202eb", "a\u200bb", "\ud800", "a\u2028b"]
)
def test_a_note_that_cannot_be_kept_is_refused_and_never_repeated(note: str) -> None:
    with pytest.raises(NoteError, match=r"^a note must be at most 2,000 characters"):
        check_note(note)


@given(st.text())
def test_any_note_is_kept_or_refused(note: str) -> None:
    try:
        kept = check_note(note)
    except NoteError:
        return
    assert kept is None or (1 <= len(kept) <= 2_000 and not re.search(r"[\0\r\x1b\u202e]", kept))
