"""Long queues for tests, of whose tables the statistics know nothing."""

from typing import Any, Final, LiteralString

PLACES: Final = ("ready", "waiting", "blocked")
QUIET: Final = """
SELECT format('ALTER TABLE %s SET (autovacuum_enabled = false)', pg_class.oid::regclass) AS sql
FROM pg_class
WHERE pg_class.relnamespace = 'countersign'::regnamespace AND pg_class.relkind = 'r'
"""
FILL: Final[LiteralString] = """
WITH made AS (
    INSERT INTO countersign.jobs (id, name, queue, args, priority)
    SELECT countersign.new_id(), 'mail.send', %(queue)s, '{}', 0
    FROM generate_series(1, 5000)
    RETURNING jobs.id
)
"""
INSERTS: Final[dict[str, LiteralString]] = {
    "ready": (
        "INSERT INTO countersign.ready (id, queue, name, rank, run_at)"
        " SELECT made.id, %(queue)s, 'mail.send', 0, now() FROM made"
    ),
    "waiting": (
        "INSERT INTO countersign.waiting (id, queue, name, rank, run_at)"
        " SELECT made.id, %(queue)s, 'mail.send', 0, now() + interval '1 h' FROM made"
    ),
    "blocked": (
        "INSERT INTO countersign.blocked (id, queue, name, rank, run_at, serial_key)"
        " SELECT made.id, %(queue)s, 'mail.send', 0, now(), 'account-7' FROM made"
    ),
}
READ: Final = """
SELECT sum(pg_stat_get_xact_tuples_returned(pg_class.oid)) AS read
FROM pg_class
WHERE pg_class.relnamespace = 'countersign'::regnamespace
    AND (pg_class.relname ~ '^(ready|waiting|blocked)')
"""


def quiet(owner: Any) -> None:
    """Keep autovacuum from learning what is in a database's tables."""
    for row in owner.execute(QUIET).fetchall():
        owner.execute(row["sql"])


def fill(owner: Any, place: str) -> None:
    """Put 5,000 jobs into a place, in a queue of its name."""
    owner.execute(FILL + INSERTS[place], {"queue": place})


def read(conn: Any) -> int:
    """Count the rows and index entries of queued jobs that this transaction has read."""
    return int(conn.execute(READ, prepare=False).fetchone()["read"])
