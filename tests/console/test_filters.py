"""Filters are read from the URL and written back into it."""

from datetime import UTC, datetime
from uuid import UUID

import pytest
from werkzeug.datastructures import MultiDict

from console.filters import MOST_LEFT_OUT, FilterError, JobFilter, job_filter
from queue_core.queries.fitting import FIELDS
from queue_core.states import STATES

EVERYTHING = {
    "q": "0199f2c4",
    **{field: f"one {field}" for field in FIELDS},
    **{f"not_{field}": [f"no {field}", "a/b&c"] for field in FIELDS},
    "from": "2026-11-29T02:31",
    "to": "2026-11-30T00:00",
    "rows": "200",
}


@pytest.mark.parametrize("state", STATES)
def test_what_is_read_is_written_back(state):
    query = {"state": state, **EVERYTHING}
    assert job_filter(MultiDict(query)).query() == query
    assert job_filter(MultiDict(query)).query(after="1_2") == {**query, "after": "1_2"}


def test_blank_filters_do_not_count():
    blank = dict.fromkeys(("state", *EVERYTHING), "")
    assert job_filter(MultiDict(blank)) == JobFilter("failed")
    assert not JobFilter("failed").narrows


@pytest.mark.parametrize("name", [name for name in EVERYTHING if name != "rows"])
def test_each_filter_narrows_and_is_handed_on_and_taken_off_again(name):
    wanted = job_filter(MultiDict({name: EVERYTHING[name]}))
    assert wanted.narrows
    assert wanted.fitting() != JobFilter("failed").fitting()
    assert wanted.whole().query() == {"state": "failed"}
    chips = list(wanted.chips())
    assert [chip.leaves_out for chip in chips] == [name.startswith("not_")] * len(chips)
    assert len(chips) == (2 if name.startswith("not_") else 1)
    if len(chips) == 1:
        assert chips[0].removed == {"state": "failed"}


def test_a_filter_is_turned_round_and_back():
    (chip,) = JobFilter("failed", only={"name": "n"}).chips()
    assert chip.turned == {"state": "failed", "not_name": ["n"]}
    (chip,) = job_filter(MultiDict(chip.turned)).chips()
    assert chip.leaves_out
    assert chip.turned == {"state": "failed", "name": "n"}


def test_another_tab_keeps_the_filters():
    wanted = JobFilter("failed", "s", {"queue": "q"}, {"name": ("n",)}, rows=200)
    assert wanted.of("ready") == JobFilter("ready", "s", {"queue": "q"}, {"name": ("n",)}, rows=200)


def test_a_state_that_there_is_not_is_refused_with_those_that_there_are():
    with pytest.raises(FilterError, match="needs_review, ready"):
        job_filter(MultiDict({"state": "done"}))


@pytest.mark.parametrize("name", ["q", *FIELDS, *(f"not_{field}" for field in FIELDS)])
def test_values_that_no_job_has_are_faults_of_their_field(name):
    field = name.removeprefix("not_")
    most = 1_000 if "error" in name else 200
    assert job_filter(MultiDict({name: "x" * most})).faults() == {}
    for value in ("x" * (most + 1), "a\0b"):
        assert set(job_filter(MultiDict({name: value})).faults()) == {field}


def test_so_many_values_can_be_left_out_and_no_more():
    values = [str(n) for n in range(MOST_LEFT_OUT + 1)]
    assert job_filter(MultiDict({"not_name": values[:-1]})).faults() == {}
    assert set(job_filter(MultiDict({"not_name": values})).faults()) == {"name"}


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("2026-11-29", datetime(2026, 11, 29, tzinfo=UTC)),
        ("2026-11-29T02:31", datetime(2026, 11, 29, 2, 31, tzinfo=UTC)),
        ("2026-11-29 02:31:59", datetime(2026, 11, 29, 2, 31, tzinfo=UTC)),
        ("2026-11-29T02:31Z", datetime(2026, 11, 29, 2, 31, tzinfo=UTC)),
        ("2026-11-29T02:31+02:00", datetime(2026, 11, 29, 0, 31, tzinfo=UTC)),
    ],
)
def test_times_are_read_in_utc_unless_they_say_otherwise(text, read):
    wanted = job_filter(MultiDict({"from": text, "to": text}))
    assert wanted.faults() == {}
    assert wanted.fitting().get("since") == wanted.fitting().get("until") == read


@pytest.mark.parametrize(
    "text", ["yesterday", "-1", "9" * 500, "2026-13-01", "0001-01-01T00:00+14:00", "a\0"]
)
def test_what_is_no_time_is_a_fault_and_stays_as_typed(text):
    wanted = job_filter(MultiDict({"from": text}))
    assert set(wanted.faults()) == {"from"}
    assert wanted.since == text


def test_a_whole_id_is_told_from_a_part_of_one():
    job = UUID("0199f2c4-7d1e-7b02-9f11-5c1f0a6ce0d4")
    for text in (str(job), job.hex, str(job).upper(), f" {job} "):
        assert job_filter(MultiDict({"q": text})).asked_id() == job
    for text in (str(job)[:-1], "x" * 32, "", "٣" * 32):
        assert job_filter(MultiDict({"q": text})).asked_id() is None
