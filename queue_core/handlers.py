"""What workers' code declares of each name it handles; written when they begin."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal
from uuid import UUID

import psycopg

from queue_core.database import execute
from queue_core.jobs import TEXTS, check_name, check_text


@dataclass(frozen=True, slots=True)
class Declared:
    """A name as code declares it: its options, and the texts for people who have to decide.

    `time_limit` is in seconds; `limit` is how many of its runs a worker has at once.
    """

    name: str
    queue: str
    attempts: int = 1
    time_limit: float | None = None
    on_lost: Literal["attempts", "review"] = "attempts"
    safe_to_repeat: bool = False
    limit: int | None = None
    effects: str | None = None
    how_to_check: str | None = None
    owner: str | None = None
    runbook: str | None = None

    def __post_init__(self) -> None:
        """Raise OptionError for what the table would not take."""
        check_name(self.name, "a job's name")
        check_name(self.queue, "a queue's name")
        for what in TEXTS:
            check_text(getattr(self, what), what)


# By name, or two workers that begin at once could wait for each other.
DECLARE = """
WITH declared AS (
    SELECT declared.*
    FROM unnest(%(names)s::text[], %(queues)s::text[], %(attempts)s::integer[],
        %(time_limits)s::double precision[], %(on_losts)s::text[], %(safes)s::boolean[],
        %(limits)s::integer[], %(effects)s::text[], %(checks)s::text[], %(owners)s::text[],
        %(runbooks)s::text[])
        AS declared (name, queue, attempts, time_limit, on_lost, safe_to_repeat, most_at_once,
            effects, how_to_check, owner, runbook)
    ORDER BY declared.name
)
INSERT INTO countersign.handlers (name, queue, attempts, time_limit, on_lost, safe_to_repeat,
    most_at_once, effects, how_to_check, owner, runbook, declared_by)
SELECT declared.*, %(worker)s
FROM declared
ON CONFLICT (name) DO UPDATE
SET queue = EXCLUDED.queue, attempts = EXCLUDED.attempts, time_limit = EXCLUDED.time_limit,
    on_lost = EXCLUDED.on_lost, safe_to_repeat = EXCLUDED.safe_to_repeat,
    most_at_once = EXCLUDED.most_at_once, effects = EXCLUDED.effects,
    how_to_check = EXCLUDED.how_to_check, owner = EXCLUDED.owner, runbook = EXCLUDED.runbook,
    declared_at = now(), declared_by = EXCLUDED.declared_by
"""
# Apart, so that the worker's row is not held while others' handlers are waited for: it has to beat.
HANDLES = """
UPDATE countersign.workers
SET handles = %(names)s::text[]
WHERE workers.id = %(worker)s
"""


def declare(conn: psycopg.Connection[object], worker: UUID, declared: Sequence[Declared]) -> None:
    """Say what a worker handles, and how its code declares each name: the last to say so counts."""
    parameters: dict[str, object] = {
        "worker": worker,
        "names": [each.name for each in declared],
        "queues": [each.queue for each in declared],
        "attempts": [each.attempts for each in declared],
        "time_limits": [each.time_limit for each in declared],
        "on_losts": [each.on_lost for each in declared],
        "safes": [each.safe_to_repeat for each in declared],
        "limits": [each.limit for each in declared],
        "effects": [each.effects for each in declared],
        "checks": [each.how_to_check for each in declared],
        "owners": [each.owner for each in declared],
        "runbooks": [each.runbook for each in declared],
    }
    execute(conn, DECLARE, parameters)
    execute(conn, HANDLES, {"worker": worker, "names": parameters["names"]})
