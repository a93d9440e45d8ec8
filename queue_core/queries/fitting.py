"""What a list of jobs is narrowed by, and the clauses that say whether a row fits."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, Literal, LiteralString, TypedDict, get_args
from uuid import UUID

Field = Literal["queue", "name", "error_type", "error_place", "worker", "schedule", "operator"]
FIELDS: Final[tuple[Field, ...]] = get_args(Field)

_ID_START: Final = re.compile(r"01[0-9a-f]{6,30}")
_EIGHT_DIGITS: Final = re.compile(r"[0-9a-fA-F]{1,8}")
"""Ids made from 2004 to 2039 begin so; eight digits are those of about a minute."""


class Filters(TypedDict, total=False):
    """What a list is narrowed by; None and absent are the same, and so is an empty `without`.

    `search` is part of a name, of an id or of a serial key, in any case. `worker` is the id,
    name or host of one that had a run of the job; `operator` the code of one who acted on
    it. `since` (inclusive) and `until` (exclusive) are of the time that the list shows.
    `without` leaves out jobs with one of these values.
    """

    search: str | None
    queue: str | None
    name: str | None
    error_type: str | None
    error_place: str | None
    worker: str | None
    schedule: str | None
    operator: str | None
    since: datetime | None
    until: datetime | None
    without: Mapping[Field, Sequence[str]]


# Each look-up beside a row has a LIMIT or an ARRAY: a join could become a hash of all bodies.
BODY: Final[LiteralString] = """
LEFT JOIN LATERAL (
    SELECT jobs.id, jobs.name, jobs.queue, jobs.schedule
    FROM countersign.jobs
    WHERE jobs.id = looked.id
    LIMIT 1
) AS body ON true
"""
NO_BODY: Final[LiteralString] = """
CROSS JOIN (
    SELECT NULL::uuid AS id, NULL::text AS name, NULL::text AS queue, NULL::text AS schedule
) AS body
"""
LAST: Final[LiteralString] = """
LEFT JOIN LATERAL (
    SELECT runs.error_type, runs.error_place
    FROM countersign.runs
    WHERE runs.job_id = looked.id AND looked.attempt > 0 AND runs.error IS NOT NULL
    ORDER BY runs.attempt DESC, runs.ended_at DESC
    LIMIT 1
) AS last ON true
"""
NO_LAST: Final[LiteralString] = """
CROSS JOIN (SELECT NULL::text AS error_type, NULL::text AS error_place) AS last
"""
HAD: Final[LiteralString] = """
CROSS JOIN LATERAL (
    SELECT ARRAY(
        SELECT unnest(ARRAY[had.worker::text, known.name, known.host])
        FROM (
            SELECT looked.worker
            UNION ALL
            SELECT runs.worker
            FROM countersign.runs
            WHERE runs.job_id = looked.id AND runs.worker IS DISTINCT FROM looked.worker
        ) AS had
        LEFT JOIN LATERAL (
            SELECT workers.name, workers.host
            FROM countersign.workers
            WHERE workers.id = had.worker
            LIMIT 1
        ) AS known ON true
        WHERE had.worker IS NOT NULL
    ) AS words
) AS had
"""
ACTED: Final[LiteralString] = """
CROSS JOIN LATERAL (
    SELECT ARRAY(
        SELECT acts.by FROM countersign.acts WHERE acts.subject_id = looked.id
    ) AS codes
) AS acted
"""
ONLY: Final[dict[Field, LiteralString]] = {
    "queue": "    AND COALESCE(body.queue, looked.queue) = %(queue)s\n",
    "name": "    AND COALESCE(body.name, looked.name) = %(name)s\n",
    "error_type": "    AND COALESCE(looked.error_type, last.error_type) = %(error_type)s\n",
    "error_place": "    AND COALESCE(looked.error_place, last.error_place) = %(error_place)s\n",
    "worker": "    AND %(worker)s = ANY(had.words)\n",
    "schedule": "    AND body.schedule = %(schedule)s\n",
    "operator": "    AND %(operator)s = ANY(acted.codes)\n",
}
"""Said of a row only where it is asked: a look-up beside it is made again for each clause."""
LEAVING_OUT: Final[dict[Field, LiteralString]] = {
    "queue": """
    AND COALESCE(body.queue, looked.queue, 'unknown') <> ALL(%(not_queue)s::text[])
""",
    "name": """
    AND COALESCE(body.name, looked.name, 'unknown') <> ALL(%(not_name)s::text[])
""",
    "error_type": """
    AND COALESCE(looked.error_type, last.error_type, '') <> ALL(%(not_error_type)s::text[])
""",
    "error_place": """
    AND COALESCE(looked.error_place, last.error_place, '') <> ALL(%(not_error_place)s::text[])
""",
    "worker": "    AND NOT had.words && %(not_worker)s::text[]\n",
    "schedule": "    AND COALESCE(body.schedule, '') <> ALL(%(not_schedule)s::text[])\n",
    "operator": "    AND NOT acted.codes && %(not_operator)s::text[]\n",
}
SEARCHED: Final[LiteralString] = """
    AND (strpos(looked.id::text, %(search)s) > 0
        OR strpos(lower(COALESCE(body.name, looked.name)), %(search)s) > 0
        OR strpos(lower(looked.key), %(search)s) > 0)
"""
ID_ENDS: Final[LiteralString] = (
    "    AND right(replace(looked.id::text, '-', ''), %(ending)s) = %(end)s\n"
)
SINCE_LOOKED: Final[LiteralString] = "    AND looked.at >= %(since)s\n"
UNTIL_LOOKED: Final[LiteralString] = "    AND looked.at < %(until)s\n"


def id_range(text: str | None) -> tuple[UUID, UUID, str] | None:
    """Return the ids that begin as `text` does, and how they end; None where it begins no id.

    An id may be cut in its middle, as lists show it: 0199f2c4-7d1e…9f11. Eight digits alone
    can be its end as well.
    """
    if text and _EIGHT_DIGITS.fullmatch(text.strip()):
        return None
    start, _, end = (text or "").strip().lower().replace("...", "…").partition("…")
    start, end = start.replace("-", ""), end.replace("-", "")
    if not _ID_START.fullmatch(start) or not re.fullmatch("[0-9a-f]{0,12}", end):
        return None
    return UUID(start.ljust(32, "0")), UUID(start.ljust(32, "f")), end
