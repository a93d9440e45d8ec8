"""A job as it is asked for, and what of its arguments can be kept."""

import enum
import json
import math
import sys
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from queue_core import ArgumentsError, NewJob, OptionError
from queue_core.jobs import (
    LONGEST_SECONDS,
    MAX_ARGS_BYTES,
    MAX_ARGS_DEPTH,
    MAX_NUMBER_BITS,
    check_name,
    decode,
    encode,
    shown,
)
from tests.conftest import CANARY
from tests.hostile import HOSTILE, Catalogue, nested, shared

# What can be kept


@pytest.mark.parametrize(("args", "field"), HOSTILE.values(), ids=HOSTILE)
def test_hostile_arguments_are_refused_by_field_and_never_by_value(args: Any, field: str) -> None:
    with pytest.raises(ArgumentsError) as refused:
        encode("mail.send", args)
    assert list(refused.value.fields) == [field]
    assert "'mail.send'" in str(refused.value)
    assert CANARY not in str(refused.value) + repr(refused.value)
    assert len(str(refused.value)) < 200


def test_every_field_that_cannot_be_kept_is_named() -> None:
    with pytest.raises(ArgumentsError) as refused:
        encode("mail.send", {"a": "\0", "good": 1, "b": math.nan, "c": b""})
    assert refused.value.fields == {
        "a": "holds a NUL character",
        "b": "not a finite number",
        "c": "holds a value of type bytes, which JSON has not",
    }


class Word(str):
    __slots__ = ()


class Colour(enum.StrEnum):
    RED = "red"


class Size(enum.IntEnum):
    LARGE = 3


class Fields(dict[str, object]):
    pass


KEPT: dict[str, tuple[Any, dict[str, object]]] = {
    "nothing": ({}, {}),
    "an empty key": ({"": 1}, {"": 1}),
    "keys like placeholders": (
        {"%s": "%(name)s", "{0}": "%", "$1": ":x"},
        {"%s": "%(name)s", "{0}": "%", "$1": ":x"},
    ),
    "quotes and backslashes": ({"a": "\"'\\\b\f\n"}, {"a": "\"'\\\b\f\n"}),
    "text that looks like a wide float": ({"a": '1e+23 "1e+23" \\"'}, {"a": '1e+23 "1e+23" \\"'}),
    "markup": ({"a": "<img src=x onerror=alert(1)>"}, {"a": "<img src=x onerror=alert(1)>"}),
    "far planes": ({"ключ": "👍🏽\U0010ffff"}, {"ключ": "👍🏽\U0010ffff"}),
    "non-characters": ({"a": "\ufffe\uffff\ufffd"}, {"a": "\ufffe\uffff\ufffd"}),
    "true is not one": ({"a": [True, 1, False, 0]}, {"a": [True, 1, False, 0]}),
    "a tuple becomes a list": ({"a": (1, (2,))}, {"a": [1, [2]]}),
    "a mapping that is no dict": (Catalogue({"a": 1}), {"a": 1}),
    "a dict of a kind of its own": (Fields(a=Fields(b=1)), {"a": {"b": 1}}),
    "a text of a kind of its own": ({Word("a"): Word("b")}, {"a": "b"}),
    "an enum's value": ({"a": Colour.RED, "b": Size.LARGE}, {"a": "red", "b": 3}),
    "the largest of numbers": (
        {"a": 2**MAX_NUMBER_BITS - 1, "b": 1 - 2**MAX_NUMBER_BITS},
        {"a": 2**MAX_NUMBER_BITS - 1, "b": 1 - 2**MAX_NUMBER_BITS},
    ),
    "more than a browser can count": ({"a": 2**53 + 1}, {"a": 2**53 + 1}),
    "floats that JSON writes without a point": (
        {"a": [1e16, 1e23, -1e23, 1.5e300, sys.float_info.max]},
        {"a": [1e16, 1e23, -1e23, 1.5e300, sys.float_info.max]},
    ),
    "the smallest of floats": ({"a": [5e-324, 1e-7]}, {"a": [5e-324, 1e-7]}),
    "64 levels": ({"a": nested(MAX_ARGS_DEPTH - 1)}, {"a": nested(MAX_ARGS_DEPTH - 1)}),
    "lists shared within reason": ({"a": shared(3)}, {"a": [[[[CANARY]] * 2] * 2] * 2}),
}


@pytest.mark.parametrize(("args", "read"), KEPT.values(), ids=KEPT)
def test_what_can_be_kept_is_read_back_as_it_was(args: Any, read: dict[str, object]) -> None:
    again = decode(encode("mail.send", args))
    assert again == read
    assert json.dumps(again) == json.dumps(read)  # True is not 1, and 1.0 not 1, there


def test_arguments_may_fill_256_kib_to_the_last_byte() -> None:
    room = MAX_ARGS_BYTES - len('{"address":""}')
    assert len(encode("mail.send", {"address": "x" * room})) == MAX_ARGS_BYTES
    assert len(encode("mail.send", {"address": "é" * (room // 2)}).encode()) == MAX_ARGS_BYTES
    with pytest.raises(ArgumentsError, match="larger than 256 KiB"):
        encode("mail.send", {"address": "é" * (room // 2 + 1)})


def test_a_mapping_is_read_once_so_what_was_checked_is_what_is_kept() -> None:
    assert encode("mail.send", Catalogue({"a": 1}, {"a": f"{CANARY}\0"})) == '{"a":1}'


def test_a_number_that_this_process_may_not_write_is_refused() -> None:
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(640)
    try:
        with pytest.raises(ArgumentsError, match="cannot be written as JSON") as refused:
            encode("mail.send", {"a": 10**700})
    finally:
        sys.set_int_max_str_digits(before)
    assert refused.value.__suppress_context__


json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.characters(),
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text() | st.integers(), inner)
    ),
    max_leaves=20,
)


def as_read(value: Any) -> Any:
    """Return a value as JSON gives it back: tuples as lists, and no minus on a zero."""
    match value:
        case list() | tuple():
            return [as_read(each) for each in value]
        case dict():
            return {key: as_read(each) for key, each in value.items()}
        case float():
            return value + 0.0
        case _:
            return value


@settings(max_examples=60)
@given(st.dictionaries(st.text() | st.integers(), json_values))
@example({"a": 1e23})
@example({"a": '1e+23"'})
def test_any_value_is_read_back_the_same_or_refused(args: Any) -> None:
    try:
        text = encode("mail.send", args)
    except ArgumentsError:
        return
    assert repr(as_read(decode(text))) == repr(as_read(args))


@settings(max_examples=30)
@given(st.recursive(st.binary() | st.dates() | st.complex_numbers(), st.frozensets))
def test_any_value_that_json_has_not_is_refused(value: Any) -> None:
    with pytest.raises(ArgumentsError):
        encode("mail.send", {"a": value})


# Reading


@pytest.mark.parametrize(
    "text",
    [
        "[1]",
        "1",
        "null",
        '"text"',
        "",
        f'{{"a": "{CANARY}',
        '{"a": 1' + "0" * 5_000 + "}",
        '{"a":' + "[" * 100_000,
    ],
    ids=["list", "number", "null", "text", "empty", "torn", "5,000 digits", "100,000 levels"],
)
def test_what_cannot_be_read_is_a_value_error_without_the_value(text: str) -> None:
    with pytest.raises(ValueError, match=r"^the arguments (cannot be read|are not)") as refused:
        decode(text)
    assert refused.value.__suppress_context__ or refused.value.__context__ is None
    assert CANARY not in str(refused.value)


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("address", "address"),
        (7, "int"),
        ("a\x1b[31m\u202eb\ud800", "a\ufffd[31m\ufffdb\ufffd"),
        ("x" * 61, "x" * 60),
    ],
)
def test_fields_are_named_short_and_printable(key: object, text: str) -> None:
    assert shown(key) == text


# Options

OPTIONS: dict[str, list[object]] = {
    "name": ["", " ", "x" * 201, "a\nb", "a\0b", "\ud800", "a\u202eb", "a\u200bb", None, 7, b"a"],
    "queue": ["", " ", "x" * 201, "a\tb", "a\0b", 7, b"a"],
    "priority": [-32_769, 32_768, 2**31, -(2**31) - 1, 10**400, True, False, 1.5, 1.0, "1", None],
    "attempts": [0, -1, 1_000_001, 2**31, True, 1.5, "1", math.nan],
    "delay": [-1, -1e-9, math.nan, math.inf, -math.inf, LONGEST_SECONDS + 1, 10**400, True, "1"],
    "time_limit": [0, 0.0, -1, math.nan, math.inf, LONGEST_SECONDS + 1, 10**400, True, "1", b"1"],
    "run_at": [
        datetime(2026, 1, 1),  # noqa: DTZ001 - naive on purpose
        date(2026, 1, 1),
        "2026-01-01T00:00:00Z",
        1_767_225_600,
        datetime(1969, 12, 31, tzinfo=UTC),
        datetime.max.replace(tzinfo=timezone(timedelta(hours=-12))),
        datetime.min.replace(tzinfo=timezone(timedelta(hours=12))),
    ],
}


@pytest.mark.parametrize(
    ("option", "value"),
    [(option, value) for option, values in OPTIONS.items() for value in values],
    ids=lambda value: ascii(value)[:24],
)
def test_an_option_out_of_range_is_refused_before_the_database_is_asked(
    option: str, value: Any
) -> None:
    with pytest.raises(OptionError) as refused:
        NewJob(**{"name": "mail.send", option: value})
    assert option in str(refused.value)
    assert len(str(refused.value)) < 100


@pytest.mark.parametrize(
    "options",
    [
        {"name": "x" * 200, "queue": "x" * 200},
        {"name": "日本 mail%s", "queue": "a b"},
        {"priority": -32_768},
        {"priority": 32_767},
        {"priority": Size.LARGE},
        {"attempts": 1},
        {"attempts": 1_000_000},
        {"delay": 0},
        {"delay": 0.001},
        {"delay": LONGEST_SECONDS},
        {"time_limit": 0.001},
        {"time_limit": LONGEST_SECONDS},
        {"run_at": datetime(1970, 1, 1, tzinfo=UTC)},
        {"run_at": datetime(9998, 12, 31, tzinfo=timezone(timedelta(hours=-12)))},
    ],
    ids=str,
)
def test_options_may_go_to_the_end_of_their_range(options: dict[str, Any]) -> None:
    job = NewJob(**{"name": "mail.send", **options})
    assert {name: getattr(job, name) for name in options} == options


def test_delay_and_run_at_exclude_each_other() -> None:
    with pytest.raises(OptionError, match="not both"):
        NewJob("mail.send", delay=0, run_at=datetime(2026, 1, 1, tzinfo=UTC))


def test_a_job_is_shown_without_its_arguments() -> None:
    job = NewJob("mail.send", {"address": CANARY}, queue="slow")
    assert repr(job).startswith("NewJob(name='mail.send', queue='slow'")
    assert "address" not in repr(job)
    assert CANARY not in f"{job} {job!r} {[job]}"


def test_each_job_has_arguments_of_its_own() -> None:
    assert NewJob("mail.send").args is not NewJob("mail.send").args


@given(st.text(max_size=201))
def test_a_name_that_passes_is_printable_and_of_1_to_200_characters(text: str) -> None:
    try:
        name = check_name(text, "a name")
    except OptionError:
        assert not text.isprintable() or not text.strip() or len(text) > 200
    else:
        assert name == text
        assert 1 <= len(name) <= 200
        assert "\0" not in name
