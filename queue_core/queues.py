"""Pausing and resuming queues: workers take nothing from a paused one; each change is signed."""

from typing import LiteralString

import psycopg

from queue_core.acts import Signature
from queue_core.clauses import SIGNED_BY_NAME
from queue_core.database import value
from queue_core.errors import QueueRefusedError
from queue_core.jobs import check_name
from queue_core.named import perform
from queue_core.states import QueueAct

PAUSE = (
    """
WITH changed AS (
    INSERT INTO countersign.queues (name)
    VALUES (%(name)s)
    ON CONFLICT (name) DO NOTHING
    RETURNING queues.name
)
"""
    + SIGNED_BY_NAME
)


def pause_queue(
    conn: psycopg.Connection[object],
    name: str,
    *,
    by: str,
    reason: str,
    note: str | None = None,
    via: str = "code",
) -> int:
    """Stop workers from taking jobs out of a queue; returns the id of the act `paused`.

    Runs under way go on, and jobs can still be enqueued. Never commits. Raises OptionError
    for what cannot name a queue, NotACodeError, NoteError, ContendedError, and, with nothing
    written, QueueRefusedError where the queue is paused already.
    """
    signature = Signature(by, reason, note, via)
    return _perform(conn, PAUSE, name, "paused", signature)


IS_PAUSED = "SELECT EXISTS (SELECT FROM countersign.queues WHERE queues.name = %(name)s)"

RESUME = (
    """
WITH changed AS (
    DELETE FROM countersign.queues
    WHERE queues.name = %(name)s
    RETURNING queues.name
)
"""
    + SIGNED_BY_NAME
)


def resume_queue(
    conn: psycopg.Connection[object],
    name: str,
    *,
    by: str,
    reason: str,
    note: str | None = None,
    via: str = "code",
) -> int:
    """Let workers take jobs out of a paused queue again; returns the id of the act `resumed`.

    Never commits. Errors as for `pause_queue`; QueueRefusedError where it is not paused.
    """
    signature = Signature(by, reason, note, via)
    return _perform(conn, RESUME, name, "resumed", signature)


def _perform(
    conn: psycopg.Connection[object],
    statement: LiteralString,
    name: str,
    act: QueueAct,
    signature: Signature,
) -> int:
    def refusal() -> QueueRefusedError | None:
        is_paused = value(conn, IS_PAUSED, {"name": name})
        if is_paused != (act == "paused"):
            return None
        what = "paused already" if is_paused else "not paused"
        return QueueRefusedError(f"the queue {name!r} is {what}")

    check_name(name, "a queue's name")
    return perform(conn, statement, "queue", name, act, signature, refusal)
