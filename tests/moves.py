"""Moves that several tests make: a claim of their one job name, and the loss of a worker."""

from typing import Any
from uuid import UUID

from queue_core import fleet
from queue_core.queries.places import locate
from queue_core.transitions.claim import Claimable, claim


def take(conn: Any, worker: UUID, count: int = 1, **defaults: Any) -> list[UUID]:
    """Claim jobs of `mail.send` and return their ids, in the order claimed."""
    names = [Claimable("mail.send", **defaults)]
    return [run.id for run in claim(conn, worker=worker, names=names, count=count)]


def state(conn: Any, job: UUID) -> str:
    """Return the state that a job is in."""
    return locate(conn, [job])[job].state


SILENCE = """
UPDATE countersign.workers SET beat_at = beat_at - interval '2 min' WHERE workers.id = %s
"""


def lose(conn: Any, worker: UUID) -> None:
    """Let another worker declare this one lost: it has not beaten for the stale time."""
    conn.execute(SILENCE, [worker])
    other = fleet.register(conn, fleet.Identity("pay-4", 1, "boot-2", "pid:[2]", "0.1.0", [], 1))
    assert fleet.bury_stale(conn, other, 60) == [worker]
