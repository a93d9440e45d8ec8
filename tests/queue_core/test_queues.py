"""Pausing and resuming a queue: one change, one act, or neither."""

import threading
import time
from typing import Any

import psycopg
import pytest

from queue_core import list_queues, pause_queue, resume_queue
from queue_core.errors import (
    ContendedError,
    NotACodeError,
    NoteError,
    OptionError,
    QueueRefusedError,
)

SIGNED: dict[str, Any] = {"by": "ops:alice", "reason": "card_fault"}
CHANGES = {"paused": pause_queue, "resumed": resume_queue}


def acts(conn) -> list[tuple[Any, ...]]:
    found = conn.execute(
        "SELECT by, act, subject_kind, subject_name, reason, note, via"
        " FROM countersign.acts ORDER BY id"
    ).fetchall()
    return [tuple(row.values()) for row in found]


def paused(conn) -> list[str]:
    return [row.name for row in list_queues(conn) if row.paused_at]


def test_pausing_a_queue_leaves_its_act(conn) -> None:
    act_id = pause_queue(conn, "mail", **SIGNED, note="printer on fire", via="cli:alice@pay-3")

    assert paused(conn) == ["mail"]
    assert acts(conn) == [
        ("ops:alice", "paused", "queue", "mail", "card_fault", "printer on fire", "cli:alice@pay-3")
    ]
    assert conn.execute("SELECT id FROM countersign.acts").fetchone() == {"id": act_id}


def test_resuming_a_queue_leaves_its_act(conn) -> None:
    pause_queue(conn, "mail", **SIGNED)
    act_id = resume_queue(conn, "mail", by="ops:bob", reason="mended")

    assert paused(conn) == []
    assert acts(conn)[1:] == [("ops:bob", "resumed", "queue", "mail", "mended", None, "code")]
    assert conn.execute("SELECT max(id) AS id FROM countersign.acts").fetchone() == {"id": act_id}


def test_a_queue_can_be_paused_again_after_it_was_resumed(conn) -> None:
    for change in (pause_queue, resume_queue, pause_queue):
        change(conn, "mail", **SIGNED)

    assert paused(conn) == ["mail"]
    assert [act[1] for act in acts(conn)] == ["paused", "resumed", "paused"]


def test_other_queues_stay_as_they_are(conn) -> None:
    for name in ("mail", "pdf"):
        pause_queue(conn, name, **SIGNED)
    resume_queue(conn, "mail", **SIGNED)

    assert paused(conn) == ["pdf"]


def test_a_paused_queue_is_not_paused_again_and_nothing_is_written(conn, contents) -> None:
    pause_queue(conn, "mail", **SIGNED)
    before = contents(conn)

    with pytest.raises(QueueRefusedError, match="'mail' is paused already"):
        pause_queue(conn, "mail", **SIGNED)

    assert contents(conn) == before


def test_a_queue_that_is_not_paused_is_not_resumed_and_nothing_is_written(conn, contents) -> None:
    before = contents(conn)

    with pytest.raises(QueueRefusedError, match="'mail' is not paused"):
        resume_queue(conn, "mail", **SIGNED)

    assert contents(conn) == before


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize(
    ("name", "wrong", "error"),
    [
        ("", {}, OptionError),
        ("m" * 201, {}, OptionError),
        ("mail\n", {}, OptionError),
        ("mail", {"by": " "}, NotACodeError),
        ("mail", {"reason": ""}, NotACodeError),
        ("mail", {"note": "n" * 2_001}, NoteError),
        ("mail", {"via": ""}, OptionError),
    ],
)
def test_what_cannot_be_kept_is_refused_before_anything_is_written(
    conn, contents, change, name: str, wrong: dict[str, str], error: type[Exception]
) -> None:
    before = contents(conn)

    with pytest.raises(error):
        change(conn, name, **SIGNED | wrong)

    assert contents(conn) == before


@pytest.mark.parametrize("act", CHANGES)
def test_two_operators_at_once_make_one_change_and_one_act(database, act: str) -> None:
    first, second = database.connect(autocommit=False), database.connect()
    if act == "resumed":
        pause_queue(second, "mail", **SIGNED)
    before = len(acts(second))
    CHANGES[act](first, "mail", **SIGNED)
    refused: list[Exception] = []

    def change() -> None:
        try:
            CHANGES[act](second, "mail", by="ops:bob", reason="seen_too")
        except QueueRefusedError as error:
            refused.append(error)

    thread = threading.Thread(target=change)
    thread.start()
    wait_for_lock(database.connect())
    first.commit()
    thread.join(30)

    assert len(refused) == 1
    assert [(row[0], row[1]) for row in acts(second)[before:]] == [("ops:alice", act)]


@pytest.mark.parametrize("act", CHANGES)
def test_where_the_first_operator_takes_it_back_the_second_one_acts(database, act: str) -> None:
    first, second = database.connect(autocommit=False), database.connect()
    if act == "resumed":
        pause_queue(second, "mail", **SIGNED)
    before = len(acts(second))
    CHANGES[act](first, "mail", **SIGNED)
    thread = threading.Thread(
        target=CHANGES[act], args=(second, "mail"), kwargs={"by": "ops:bob", "reason": "seen"}
    )
    thread.start()
    wait_for_lock(database.connect())
    first.rollback()
    thread.join(30)

    assert [(row[0], row[1]) for row in acts(second)[before:]] == [("ops:bob", act)]


def test_a_pause_that_was_lifted_and_set_again_meanwhile_is_lifted_by_who_waited(database) -> None:
    first, second = database.connect(autocommit=False), database.connect()
    pause_queue(second, "mail", **SIGNED)
    resume_queue(first, "mail", **SIGNED)
    pause_queue(first, "mail", **SIGNED)
    thread = threading.Thread(
        target=resume_queue, args=(second, "mail"), kwargs={"by": "ops:bob", "reason": "seen"}
    )
    thread.start()
    wait_for_lock(database.connect())
    first.commit()
    thread.join(30)

    assert paused(second) == []
    assert [row[1] for row in acts(second)] == ["paused", "resumed", "paused", "resumed"]
    assert acts(second)[-1][0] == "ops:bob"


def wait_for_lock(conn: psycopg.Connection[dict[str, object]]) -> None:
    waiting = (
        "SELECT count(*) AS sessions FROM pg_stat_activity"
        " WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    until = time.monotonic() + 30
    while time.monotonic() < until:
        if conn.execute(waiting).fetchone() == {"sessions": 1}:
            return
    pytest.fail("nobody waits for a lock")


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_lock_that_is_not_given_in_time_is_contention(database, change) -> None:
    holder, other = database.connect(autocommit=False), database.connect()
    if change is resume_queue:
        pause_queue(other, "mail", **SIGNED)
    change(holder, "mail", **SIGNED)
    other.execute("SET lock_timeout = '20ms'")
    with pytest.raises(ContendedError):
        change(other, "mail", **SIGNED)


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_stricter_transaction_cannot_change_a_queue(database, change) -> None:
    strict = database.connect(autocommit=False)
    strict.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    with pytest.raises(ContendedError, match="READ COMMITTED"):
        change(strict, "mail", **SIGNED)


def test_nothing_is_committed_that_the_caller_did_not_commit(database) -> None:
    caller = database.connect(autocommit=False)
    pause_queue(caller, "mail", **SIGNED)
    caller.rollback()

    assert paused(database.connect()) == []
    assert acts(database.connect()) == []
