"""Filters are read from the URL and written back into it."""

import pytest

from console.filters import FilterError, JobFilter, job_filter
from queue_core.states import STATES


@pytest.mark.parametrize("state", STATES)
def test_what_is_read_is_written_back(state):
    query = {"state": state, "queue": "a b", "name": "c/d"}
    assert job_filter(query).query() == query
    assert job_filter(query).query(after="1_2") == {**query, "after": "1_2"}


def test_blank_filters_do_not_count():
    assert job_filter({"state": "", "queue": "", "name": ""}) == JobFilter("failed")
    assert not JobFilter("failed").narrows
    assert JobFilter("failed", queue="q").narrows
    assert JobFilter("failed", name="n").narrows


def test_another_tab_keeps_the_filters():
    assert JobFilter("failed", "q", "n").of("ready") == JobFilter("ready", "q", "n")


def test_a_state_that_there_is_not_is_refused_with_those_that_there_are():
    with pytest.raises(FilterError, match="needs_review, ready"):
        job_filter({"state": "done"})


def test_values_that_no_job_has_are_faults_of_their_field():
    assert JobFilter("failed", "q" * 200, "n" * 200).faults() == {}
    assert set(JobFilter("failed", "q" * 201, "n\0").faults()) == {"queue", "name"}
