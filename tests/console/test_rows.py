"""What stands in the rows of long lists: as Flask writes it, and made once for a page."""

import re
from uuid import UUID, uuid4

import pytest
from flask import url_for

from console import rows
from console.filters import JobFilter
from console.rows import Narrowing, Once, act_url, job_url
from queue_core.queries.fitting import Field

JOBS = [UUID(int=0), UUID("0199f2c4-7d1e-7b02-9f11-5c1f0a6ce0d4"), uuid4()]
WAYS_BACK = [
    None,
    "/jobs/?state=failed&q=a%2Fb&name=é",
    "/jobs/?q=00000000-0000-0000-0000-000000000000",
]
FILTERS: list[tuple[Field, str]] = [("queue", "a/b&c"), ("queue", "é"), ("error_type", "E")]
prefixes = pytest.mark.parametrize(
    "prefix", ["", "/ops", "/ops/00000000-0000-0000-0000-000000000000", "/0"]
)


@prefixes
@pytest.mark.parametrize("form", [None, "retry"])
@pytest.mark.parametrize("way_back", WAYS_BACK)
def test_each_job_has_the_address_that_flask_gives_it(app, prefix, way_back, form):
    with app.test_request_context("/", base_url=f"http://localhost{prefix}"):
        for job in JOBS:
            one = url_for("jobs.show", job_id=job, form=form, next=way_back, _anchor=form)
            assert job_url(job, way_back, form) == one


@prefixes
def test_each_act_has_the_address_that_flask_gives_it(app, prefix):
    with app.test_request_context("/", base_url=f"http://localhost{prefix}"):
        for act in (1, 10, 2**63 - 1):
            assert act_url(act) == url_for("ledger.show", act_id=act)


def test_a_list_narrowed_is_where_its_filters_say(app):
    wanted = JobFilter("failed", "s", {"queue": "q"}, {"name": ("n",)}, rows=200)
    with app.test_request_context():
        made = Narrowing(wanted)
        for only in FILTERS:
            there = url_for("jobs.index", **wanted.with_only(*only).query())
            assert made.to(only) == made.to(only) == there
        both = wanted.with_only("error_type", "E").with_only("error_place", "p:1")
        there = url_for("jobs.index", **both.query())
        assert made.to(("error_type", "E"), ("error_place", "p:1")) == there


def test_a_page_of_another_console_has_its_own_addresses(app):
    for prefix in ("", "/ops"):
        with app.test_request_context("/", base_url=f"http://localhost{prefix}"):
            assert job_url(JOBS[1]).startswith(f"{prefix}/jobs/")


def test_a_job_has_another_address_for_each_of_its_forms(app):
    with app.test_request_context():
        forms = [None, "retry", "note", None, "retry"]
        made = [job_url(JOBS[1], "/jobs/", form) for form in forms]
        assert made == [
            url_for("jobs.show", job_id=JOBS[1], form=form, next="/jobs/", _anchor=form)
            for form in forms
        ]


def test_a_macro_writes_once_for_the_same_values_and_again_for_others():
    written = []

    def macro(*values):
        written.append(values)
        return "|".join(map(str, values))

    once = Once()
    assert [once(macro, "a", 1), once(macro, "a", 2), once(macro, "a", 1)] == ["a|1", "a|2", "a|1"]
    assert written == [("a", 1), ("a", 2)]
    assert once(lambda *_: "of another", "a", 1) == "of another"


def test_however_many_rows_a_list_has_its_addresses_are_made_once(alice, monkeypatch):
    asked = []

    def ask(endpoint, **values):
        asked.append(endpoint)
        return url_for(endpoint, **values)

    monkeypatch.setattr(rows, "url_for", ask)
    page = alice.get("/jobs/?state=completed&rows=200").text
    assert page.count('<a href="/jobs/0') > 100
    assert asked.count("jobs.show") == 1
    narrowed = re.findall(r'<a class="plain[^"]*" href="([^"]+)"', page)
    assert asked.count("jobs.index") == len(set(narrowed)) < len(narrowed)
