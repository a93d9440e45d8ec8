"""Taking a job that waits, and noting what was found: acts that move nothing."""

import uuid
from typing import Any

import pytest

from queue_core import ContendedError, NotACodeError, NoteError, marks
from queue_core.marks import assign
from queue_core.queries.acts import acts_of
from queue_core.states import MARKS, STATES

SIGNED: dict[str, Any] = {"by": "ops:alice", "reason": "on_call"}
NOTED: dict[str, Any] = {**SIGNED, "note": "The provider has it."}
VERBS = {"assign": (assign, SIGNED), "note": (marks.note, NOTED)}
both = pytest.mark.parametrize(("verb", "signed"), VERBS.values(), ids=VERBS)


@both
@pytest.mark.parametrize("place", STATES)
def test_only_what_waits_for_a_person_is_taken_or_noted_and_nothing_but_the_act_is_written(
    conn, job_in, contents, verb, signed, place
) -> None:
    made = job_in(conn, place)
    before = contents(conn)
    outcome = verb(conn, made.id, **signed)
    after = contents(conn)
    acts = (before.pop("acts"), after.pop("acts"))
    assert after == before
    if place in MARKS["assign"]:
        assert (outcome.applied, outcome.state, outcome.attempt) == (True, place, made.attempt)
        assert len(acts[1]) == len(acts[0]) + 1
    else:
        assert (outcome.applied, outcome.why, outcome.state) == (False, "wrong_state", place)
        assert acts[0] == acts[1]


def test_the_act_says_who_why_and_at_which_attempt(conn, job_in) -> None:
    made = job_in(conn, "needs_review")
    taken, noted = assign(conn, made.id, **SIGNED), marks.note(conn, made.id, **NOTED)
    rows = acts_of(conn, made.id)
    assert [(row.act, row.by, row.reason, row.note, row.attempt) for row in rows] == [
        ("assigned", "ops:alice", "on_call", None, 1),
        ("noted", "ops:alice", "on_call", "The provider has it.", 1),
    ]
    assert [row.id for row in rows] == [taken.act_id, noted.act_id]
    assert {row.subject_name for row in rows} == {"mail.send"}


@both
@pytest.mark.parametrize("saw", [("needs_review", 2), ("failed", 1), ("ready", 1)])
def test_a_job_that_is_not_as_it_was_seen_is_left_alone(
    conn, job_in, contents, verb, signed, saw
) -> None:
    made = job_in(conn, "needs_review")
    before = contents(conn)
    outcome = verb(conn, made.id, **signed, seen={made.id: saw})
    assert (outcome.applied, outcome.why, outcome.state) == (False, "moved_on", "needs_review")
    assert contents(conn) == before


@both
@pytest.mark.parametrize("place", ["needs_review", "failed"])
def test_a_job_that_is_as_it_was_seen_is_taken_or_noted(conn, job_in, verb, signed, place) -> None:
    made = job_in(conn, place)
    assert verb(conn, made.id, **signed, seen={made.id: (place, 1)}).applied


@both
def test_a_job_that_never_was_is_not_found(conn, verb, signed) -> None:
    assert verb(conn, uuid.uuid4(), **signed).why == "not_found"


@both
def test_a_job_whose_body_is_gone_can_be_looked_after(database, job_in, verb, signed) -> None:
    conn = database.connect()
    made = job_in(conn, "needs_review")
    database.owner().execute("DELETE FROM countersign.jobs")
    assert verb(conn, made.id, **signed).applied
    assert acts_of(conn, made.id)[-1].subject_name == "unknown"


@both
@pytest.mark.parametrize("field", ["by", "reason"])
def test_neither_is_done_without_a_signature(conn, job_in, contents, verb, signed, field) -> None:
    made = job_in(conn, "needs_review")
    before = contents(conn)
    with pytest.raises(NotACodeError):
        verb(conn, made.id, **{**signed, field: " "})
    assert contents(conn) == before


@pytest.mark.parametrize("note", ["", " \n\t ", "x" * 2_001, "a\0b"])
def test_a_note_that_says_nothing_is_none(conn, job_in, contents, note) -> None:
    made = job_in(conn, "needs_review")
    before = contents(conn)
    with pytest.raises(NoteError):
        marks.note(conn, made.id, **SIGNED, note=note)
    assert contents(conn) == before


@both
def test_a_stricter_transaction_is_refused_at_once(database, job_in, verb, signed) -> None:
    made = job_in(database.connect(), "needs_review")
    strict = database.connect(autocommit=False)
    strict.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    with pytest.raises(ContendedError):
        verb(strict, made.id, **signed)
    assert acts_of(database.connect(), made.id) == []
