"""Pages for errors, and what the log may say of them."""

import logging
from uuid import uuid4

import pytest

from console import refusals
from console.database import CommitUnansweredError, NotWrittenError
from console.forms.jobs import ActForm
from queue_core.acts import ActOutcome
from queue_core.errors import (
    ContendedError,
    DatabaseAwayError,
    EmbeddedError,
    SchemaError,
    TookTooLongError,
)
from queue_core.queries import overview
from tests.console.people import Person

SECRET = "hunter2-value"


@pytest.fixture
def broken(app_on, shop, scene):
    """Give a console in which a page can be made to raise."""
    app = app_on(shop.url)
    return app, Person(app, "ops:alice")


def raising(error):
    def read(_):
        raise error

    return read


@pytest.mark.parametrize(
    ("error", "status", "title"),
    [
        (DatabaseAwayError(SECRET), 503, "The database does not answer"),
        (EmbeddedError(SECRET), 503, "The database does not answer"),
        (CommitUnansweredError(SECRET), 503, "It is not known whether that was done"),
        (NotWrittenError(SECRET), 503, "The database refused the change"),
        (TookTooLongError(SECRET), 503, "This took longer than 3 seconds"),
        (SchemaError(SECRET), 503, "The schema is not sound"),
        (ContendedError(SECRET), 500, "Something broke here"),
        (ValueError(SECRET), 500, "Something broke here"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_each_fault_has_its_page_and_none_repeats_the_faults_text(
    broken, monkeypatch, error, status, title
):
    _, alice = broken
    monkeypatch.setattr(overview, "overview", raising(error))
    answer = alice.get("/")
    assert (answer.status_code, title in answer.text, SECRET in answer.text) == (
        status,
        True,
        False,
    )
    assert "console.css" in answer.text


def test_the_log_names_what_broke_and_where_and_never_the_text(broken, monkeypatch, caplog):
    _, alice = broken
    monkeypatch.setattr(overview, "overview", raising(ValueError(SECRET)))
    with caplog.at_level(logging.DEBUG):
        alice.get("/?queue=" + SECRET)
    assert "ValueError in overview.show (read:" in caplog.text
    assert SECRET not in caplog.text


def test_acts_leave_neither_who_nor_why_in_the_log(alice, job_at, caplog):
    with caplog.at_level(logging.DEBUG):
        alice.act(job_at("failed"), "retry", reason=SECRET, note=SECRET)
        alice.act(job_at("failed"), "retry", reason=SECRET + "\n", operator_code="ops:bob")
    assert SECRET not in caplog.text
    assert "ops:alice" not in caplog.text


@pytest.mark.parametrize(
    ("state", "attempt", "said"),
    [
        ("ready", 0, "ready"),
        ("waiting", 1, "waiting after attempt 1"),
        ("running", 2, "running at attempt 2"),
        ("failed", 3, "failed after attempt 3"),
        ("needs_review", 1, "needs review after attempt 1"),
        (None, None, "unknown after attempt None"),
    ],
)
def test_a_place_is_said_in_words(state, attempt, said):
    assert refusals.place(state, attempt) == said


def test_a_refusal_for_another_reason_is_said_too():
    refusal = ActOutcome(uuid4(), False, "cancelled", None, "completed", 1, "wrong_state")
    notice = refusals.refused("cancel", refusal, ActForm())
    assert notice.title == "Nothing was done: a job cannot be cancelled from where it stands"
    assert notice.sentences == ("It is completed after attempt 1 now.",)


def test_pages_of_errors_lead_back_into_the_console(alice, person):
    for answer in (alice.get("/nowhere"), person().get("/nowhere"), alice.get("/jobs/?state=x")):
        assert 'href="/jobs/"' in answer.text
