"""Revealing arguments: the act first, and the arguments by that act alone."""

import json
import uuid
from typing import Any

import psycopg
import pytest

from queue_core import ContendedError, NotACodeError, cancel
from queue_core.marks import reveal
from queue_core.queries.acts import acts_of
from queue_core.queries.arguments import revealed
from queue_core.states import STATES
from tests.conftest import CANARY

SIGNED: dict[str, Any] = {"by": "ops:alice", "reason": "checking_the_address"}


@pytest.mark.parametrize("place", [*STATES, "due"])
def test_in_every_state_the_act_and_nothing_else_is_written(conn, job_in, contents, place) -> None:
    made = job_in(conn, place)
    state = "ready" if place == "due" else place
    before = contents(conn)
    outcome = reveal(conn, made.id, **SIGNED, seen={made.id: (state, made.attempt)})
    after = contents(conn)
    assert len(after.pop("acts")) == len(before.pop("acts")) + 1
    assert after == before
    assert (outcome.applied, outcome.act, outcome.state) == (True, "revealed", state)
    assert outcome.act_id
    text = revealed(conn, made.id, outcome.act_id)
    assert text
    assert json.loads(text) == {"address": CANARY}
    assert CANARY not in repr(outcome)


def test_a_request_to_stop_does_not_stand_in_the_way(conn, job_in) -> None:
    made = job_in(conn, "running")
    cancel(conn, [made.id], **SIGNED)
    assert reveal(conn, made.id, **SIGNED).applied


def test_without_an_act_that_reveals_just_this_job_there_are_no_arguments(conn, job_in) -> None:
    one, other = job_in(conn, "failed"), job_in(conn, "failed")
    shown = reveal(conn, one.id, **SIGNED)
    (cancelled,) = cancel(conn, [job_in(conn, "ready").id], **SIGNED)
    assert shown.act_id
    assert cancelled.act_id
    assert revealed(conn, other.id, shown.act_id) is None
    assert revealed(conn, cancelled.job_id, cancelled.act_id) is None
    assert revealed(conn, one.id, 0) is None


def test_an_act_that_was_rolled_back_reveals_nothing(database, job_in) -> None:
    conn = database.connect()
    made = job_in(conn, "failed")
    with conn.transaction(force_rollback=True):
        outcome = reveal(conn, made.id, **SIGNED)
    assert outcome.act_id
    assert revealed(conn, made.id, outcome.act_id) is None
    assert acts_of(conn, made.id) == []


@pytest.mark.parametrize(
    ("place", "saw"),
    [
        ("failed", ("failed", 2)),
        ("failed", ("ready", 1)),
        ("ready", ("ready", 1)),
        ("running", ("ready", 1)),
        ("completed", ("running", 1)),
    ],
)
def test_a_job_that_moved_on_is_not_revealed(conn, job_in, contents, place, saw) -> None:
    made = job_in(conn, place)
    before = contents(conn)
    assert reveal(conn, made.id, **SIGNED, seen={made.id: saw}).why == "moved_on"
    assert contents(conn) == before


def test_where_the_body_is_gone_there_is_nothing_to_reveal(database, job_in) -> None:
    conn = database.connect()
    made = job_in(conn, "needs_review")
    database.owner().execute("DELETE FROM countersign.jobs")
    assert reveal(conn, made.id, **SIGNED).why == "not_found"
    assert reveal(conn, uuid.uuid4(), **SIGNED).why == "not_found"
    assert acts_of(conn, made.id) == []


@pytest.mark.parametrize("field", ["by", "reason"])
def test_nobody_is_shown_anything_without_a_signature(conn, job_in, field) -> None:
    made = job_in(conn, "failed")
    with pytest.raises(NotACodeError):
        reveal(conn, made.id, **{**SIGNED, field: "\u200b"})
    assert acts_of(conn, made.id) == []


def test_a_stricter_transaction_is_refused_at_once(database, job_in) -> None:
    made = job_in(database.connect(), "failed")
    strict = database.connect(autocommit=False)
    strict.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
    with pytest.raises(ContendedError):
        reveal(strict, made.id, **SIGNED)
