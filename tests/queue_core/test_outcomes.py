"""Outcomes: texts as they can be stored, cut where they may be, and never shown in a repr."""

import uuid
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queue_core.outcomes import (
    MAX_ERROR_BYTES,
    MAX_TRACEBACK_BYTES,
    Completed,
    Deferred,
    Ending,
    Failed,
    RunReport,
    Stopped,
    Unreadable,
    cut,
    cut_middle,
    failure_columns,
    report_columns,
    storable,
)
from tests.conftest import CANARY

anything = st.text() | st.text(st.characters(categories=["Cs"]) | st.just("\0"))


def report(ending: Ending, **known: float) -> RunReport:
    return RunReport(uuid.uuid4(), 1, ending, **known)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("plain ✓ 👍🏽", "plain ✓ 👍🏽"),
        ("a\0b\0", "a\ufffdb\ufffd"),
        ("\ud800", "\ufffd\ufffd\ufffd"),
        ("a\udfffb", "a\ufffd\ufffd\ufffdb"),
    ],
)
def test_what_postgres_refuses_is_replaced_and_marked(text: str, stored: str) -> None:
    assert storable(text) == stored


@given(anything)
def test_any_text_can_be_stored_afterwards(text: str) -> None:
    assert "\0" not in storable(text)
    assert storable(storable(text)) == storable(text)
    storable(text).encode()


@pytest.mark.parametrize("character", ["x", "é", "€", "👍", "\0", "\ud800"])
@pytest.mark.parametrize("before", range(5))
def test_a_text_is_cut_between_characters(character: str, before: int) -> None:
    kept = cut("x" * before + character * MAX_ERROR_BYTES)
    whole = storable(character)[0]
    assert MAX_ERROR_BYTES - 4 < len(kept.encode()) <= MAX_ERROR_BYTES
    assert set(kept[before:]) == {whole}


def test_a_short_text_is_left_alone() -> None:
    assert cut("short") == "short"
    assert cut("x" * MAX_ERROR_BYTES) == "x" * MAX_ERROR_BYTES
    assert cut("") == ""


@given(anything, st.integers(min_value=0, max_value=50))
def test_a_cut_text_is_the_beginning_of_the_whole(text: str, limit: int) -> None:
    kept = cut(text, limit)
    assert storable(text).startswith(kept)
    assert len(kept.encode()) <= limit


@pytest.mark.parametrize("character", ["x", "é", "€", "👍"])
@pytest.mark.parametrize("extra", range(4))
def test_of_a_long_traceback_head_and_tail_are_kept(character: str, extra: int) -> None:
    kept = cut_middle(f"first{'y' * extra}{character * 5_000_000}{'y' * extra}last")
    assert MAX_TRACEBACK_BYTES - 9 < len(kept.encode()) <= MAX_TRACEBACK_BYTES
    assert kept.startswith("first")
    assert kept.endswith("last")
    assert kept.count("… cut …") == 1
    assert set(kept) <= set(f"firstlasty\n… cut{character}")


def test_a_traceback_that_fits_is_left_whole() -> None:
    whole = "é" * (MAX_TRACEBACK_BYTES // 2)
    assert cut_middle(whole) == whole
    assert cut_middle(f"{whole}x") != f"{whole}x"


@given(anything, st.integers(min_value=40, max_value=80))
def test_any_traceback_is_cut_to_its_limit(text: str, limit: int) -> None:
    assert len(cut_middle(text, limit).encode()) <= limit


def test_endings_are_shown_without_what_jobs_said() -> None:
    endings = (
        Completed(CANARY),
        Failed(CANARY, traceback=CANARY),
        Unreadable(CANARY),
        Stopped(CANARY),
        Deferred(5),
    )
    for ending in endings:
        assert CANARY not in repr(ending) + repr(report(ending))


def test_what_is_bound_fits_the_columns() -> None:
    failed = Failed(
        "é" * 2_000, error_type="T" * 500, error_place="p" * 900, traceback="\0" * 99_999
    )
    columns = failure_columns([report(failed)])
    error, kind, place, trace = (
        cast("list[str]", columns[name])[0]
        for name in ("errors", "error_types", "error_places", "tracebacks")
    )
    assert (len(error.encode()), len(kind), len(place)) == (1_024, 200, 400)
    assert len(trace.encode()) <= MAX_TRACEBACK_BYTES
    assert "\0" not in trace


def test_a_handlers_own_wait_replaces_the_backoff_and_zero_is_a_wait() -> None:
    reports = [
        report(Failed("x"), wait=33.0),
        report(Failed("x", retry_after=5.0), wait=33.0),
        report(Failed("x", retry_after=0.0), wait=33.0),
    ]
    assert failure_columns(reports)["waits"] == [33.0, 5.0, 0.0]


def test_every_ending_has_its_word() -> None:
    endings = (
        Failed("x", "crashed", signal=9),
        Unreadable("x"),
        Stopped("half"),
        Deferred(1),
        Completed(),
    )
    columns = failure_columns([report(each) for each in endings])
    assert columns["outcomes"] == ["crashed", "failed", "stopped", "deferred", "completed"]
    assert columns["signals"] == [9, None, None, None, None]
    assert columns["errors"] == ["x", "x", "half", "put its job back", None]


def test_reports_are_bound_in_their_order() -> None:
    worker = uuid.uuid4()
    reports = [report(Completed(), seconds=n) for n in range(3)]
    columns = report_columns(worker, reports)
    assert columns["worker"] == worker
    assert columns["ids"] == [each.id for each in reports]
    assert columns["seconds"] == [0, 1, 2]
