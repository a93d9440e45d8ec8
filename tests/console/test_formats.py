"""How values are written on pages."""

import sys
import unicodedata
from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID

import pytest

from console import formats

NOW = datetime(2026, 11, 29, 3, 12, 44, 260_000, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "0 s"),
        (0.04, "under 0.1 s"),
        (0.44, "0.4 s"),
        (1.9, "1 s"),
        (59.9, "59 s"),
        (60, "1 min"),
        (3_599, "59 min"),
        (3_600, "1 h"),
        (86_399, "23 h"),
        (86_400, "1 day"),
        (172_800, "2 days"),
        (3e8, "3,472 days"),
    ],
)
def test_a_span_is_said_in_its_largest_unit(seconds, said):
    assert formats.span(seconds) == said


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.5, "now"),
        (-0.5, "now"),
        (2, "2 s ago"),
        (2_460, "41 min ago"),
        (-300, "in 5 min"),
        (-90_000, "in 1 day"),
    ],
)
def test_a_moment_is_said_from_now(seconds, said):
    assert formats.ago(NOW - timedelta(seconds=seconds), NOW) == said


def test_moments_are_written_in_utc_whatever_their_zone():
    tokyo = NOW.astimezone(timezone(timedelta(hours=9)))
    assert formats.utc(tokyo) == "29 Nov 2026 03:12:44 UTC"
    assert formats.iso(tokyo) == "2026-11-29T03:12:44Z"
    assert formats.clock(tokyo) == "03:12:44.2"
    assert formats.day(tokyo) == "29 Nov 2026"


@pytest.mark.parametrize(
    ("number", "said"), [(0, "0"), (9_999, "9,999"), (10_000, "10,000"), (10_001, "10,000+")]
)
def test_a_number_past_the_cap_is_the_cap_and_a_plus(number, said):
    assert formats.count(number, 10_000) == said


def test_a_short_id_tells_jobs_of_one_millisecond_apart():
    one, other = (
        UUID("0199f2c4-7d1e-7b02-9f11-5c1f0a6ce0d4"),
        UUID("0199f2c4-7d1e-7b02-9f11-5c1f0a6c1111"),
    )
    assert (formats.short_id(one), formats.short_id(other)) == (
        "0199f2c4-7d1e…e0d4",
        "0199f2c4-7d1e…1111",
    )


@pytest.mark.parametrize(
    "code",
    [
        0x00,
        0x08,
        0x1B,
        0x7F,
        0x9B,
        0xAD,
        0x061C,
        0x200B,
        0x200E,
        0x202E,
        0x2066,
        0x2069,
        0xFEFF,
        0x2028,
        0xE000,
        0xE0001,
    ],
)
def test_what_hides_or_turns_the_line_round_is_written_as_its_number(code):
    assert formats.shown(f"a{chr(code)}b") == f"a⟨U+{code:04X}⟩b"


@pytest.mark.parametrize(
    "text", ["a\n\tb", "Grüße, 東京, עברית, सत्य", "👩\u200d👧", "می\u200cخواهم", "", "<b>&"]
)
def test_everything_else_is_shown_as_it_is(text):
    assert formats.shown(text) == text


def test_no_character_that_is_shown_at_once_hides_anything():
    at_once = filter(str.isprintable, map(chr, range(sys.maxunicode + 1)))
    kinds = set(map(unicodedata.category, at_once))
    assert kinds.isdisjoint({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})


def test_nothing_is_shown_as_nothing():
    assert formats.shown(None) == ""


def test_a_reason_or_an_act_of_later_is_still_said():
    assert formats.why("gone_missing") == "Gone missing"
    assert formats.did("put_elsewhere") == "put elsewhere"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (1.0, "1 s"),
        (1.5, "1.5 s"),
        (90.0, "1 min 30 s"),
        (900.0, "15 min"),
        (5_400.0, "1 h 30 min"),
        (86_400.0, "1 day"),
        (172_800.0, "2 days"),
        (90_061.0, "1 day 1 h 1 min 1 s"),
    ],
)
def test_an_interval_is_written_whole(seconds, text):
    assert formats.every(seconds) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (0.2, "under 1"), (1, "1.0"), (9.94, "9.9"), (10, "10"), (12_345.6, "12,346")],
)
def test_a_rate_is_as_exact_as_it_is_large(number, text):
    assert formats.per_minute(number) == text


@pytest.mark.parametrize(
    ("address", "is_one"),
    [
        ("https://a.example/b?c#d", True),
        ("http://localhost:8000/", True),
        ("javascript:alert(1)", False),
        ("JAVASCRIPT://a.example/%0aalert(1)", False),
        ("data:text/html,x", False),
        ("//a.example", False),
        ("https:///x", False),
        ("https://[", False),
        ("https://a.example/ b", False),
        ("https://a.example/\nb", False),
        ("see the wiki", False),
        ("", False),
    ],
)
def test_only_an_address_of_http_is_a_link(address, is_one):
    assert formats.web_address(address) is is_one
