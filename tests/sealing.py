"""A ledger with a past: acts and seals of earlier days, and ways to tamper with both."""

from typing import Any

from queue_core import seals

ACT = """
INSERT INTO countersign.acts (by, act, subject_kind, subject_id, subject_name, attempt, reason, via)
SELECT 'ops:alice', 'cancelled', 'job', gen_random_uuid(), 'mail.send', 1, 'why_not', 'code'
FROM generate_series(1, %s)
RETURNING acts.id
"""


def sign(conn: Any, count: int = 1) -> list[int]:
    """Write acts without the jobs they would be about, and return their ids."""
    return [row["id"] for row in conn.execute(ACT, [count]).fetchall()]


def seal_all(conn: Any) -> list[int]:
    """Seal until nothing is left to seal; return how many acts each seal took."""
    counts: list[int] = []
    while count := seals.seal(conn):
        counts.append(count)
    return counts


def sealed(conn: Any) -> list[list[int]]:
    """Return the ids that each seal holds, the oldest seal first."""
    found = conn.execute("SELECT ids FROM countersign.seals ORDER BY number").fetchall()
    return [row["ids"] for row in found]


OFF = """
ALTER TABLE countersign.acts DISABLE TRIGGER USER;
ALTER TABLE countersign.seals DISABLE TRIGGER USER
"""
ON = "; ".join(
    f"ALTER TABLE countersign.{table} ENABLE ALWAYS TRIGGER {table}_{trigger}"
    for table in ("acts", "seals")
    for trigger in ("stamp", "refuse_row", "refuse_statement")
)


def tamper(owner: Any, statement: str) -> None:
    """Execute statements past the ledger's triggers, which are as they were afterwards."""
    owner.execute(OFF)
    owner.execute(statement)
    owner.execute(ON)


RECHAIN = """
DO $$
DECLARE
    link countersign.seals;
    before bytea := decode(repeat('00', 32), 'hex');
BEGIN
    FOR link IN SELECT * FROM countersign.seals ORDER BY number LOOP
        UPDATE countersign.seals
        SET previous = before,
            digests = ARRAY(
                SELECT countersign.act_digest(acts)
                FROM unnest(link.ids) WITH ORDINALITY AS each (id, position)
                JOIN countersign.acts ON acts.id = each.id
                ORDER BY each.position
            )
        WHERE number = link.number;
        UPDATE countersign.seals SET sha256 = countersign.seal_digest(seals)
        WHERE number = link.number
        RETURNING sha256 INTO before;
    END LOOP;
END
$$
"""
"""What somebody can do who owns the database: the whole chain anew, whole in itself."""
AGE = """
UPDATE countersign.acts SET at = at - make_interval(hours => 24 - id::integer);
UPDATE countersign.seals SET at = at - make_interval(hours => 24 - ids[cardinality(ids)]::integer)
"""


def with_a_past(conn: Any, owner: Any) -> None:
    """Leave 20 acts in 10 seals, an hour between two acts; id 5 was never used."""
    for number in range(10):
        sign(conn, 2)
        seals.seal(conn)
        if number == 1:
            owner.execute("SELECT nextval('countersign.acts_id')")
    tamper(owner, AGE + ";" + RECHAIN)
