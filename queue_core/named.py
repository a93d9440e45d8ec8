"""Acts on what bears a name, a queue or a schedule: signed in the statement that changes it."""

from collections.abc import Callable
from typing import LiteralString

import psycopg

from queue_core.acts import LOOKS, Signature
from queue_core.crossings import require_read_committed
from queue_core.database import contention, transaction, value
from queue_core.errors import ContendedError, CountersignError
from queue_core.queries.acts import NamedKind


def perform(  # noqa: PLR0917 - called by the acts alone
    conn: psycopg.Connection[object],
    statement: LiteralString,
    kind: NamedKind,
    name: str,
    act: str,
    signature: Signature,
    refusal: Callable[[], CountersignError | None],
) -> int:
    """Run an act's statement until it changed what bears the name; returns the act's id.

    What is put back by one transaction is another row, which whoever waited for the first does
    not see: having changed nothing means to look. `refusal` does, and returns the error to be
    raised where the act does not apply. Raises ContendedError, with nothing written, after 20
    looks, for lock time-outs and in transactions stricter than READ COMMITTED.
    """
    given = {"subject_kind": kind, "name": name, "act": act}
    with contention(), transaction(conn):
        require_read_committed(conn)
        for _ in range(LOOKS):
            act_id = value(conn, statement, signature.parameters() | given)
            if isinstance(act_id, int):
                return act_id
            if error := refusal():
                raise error
    raise ContendedError(f"the {kind} kept changing; nothing was written, so look again and retry")
