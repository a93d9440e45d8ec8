"""Cases from the field: what stands in a claim's way costs it nothing."""

from typing import Any, LiteralString
from uuid import uuid4

import psycopg
import pytest

from queue_core import pause_queue
from queue_core.lanes import Lanes
from queue_core.transitions.claim import Claimable, claim

MANY = 20_000
NAMES = [Claimable("mail.send", limit=1), Claimable("audit.file")]
READ = """
SELECT pg_stat_xact_user_tables.idx_tup_fetch + pg_stat_xact_user_tables.seq_tup_read AS rows
FROM pg_stat_xact_user_tables
WHERE pg_stat_xact_user_tables.relname = 'ready'
"""
MINE = """
INSERT INTO countersign.ready (id, queue, name, rank, run_at)
SELECT countersign.new_id(), 'q', 'audit.file', 0, now() FROM generate_series(1, 8)
"""
FAILED = """
INSERT INTO countersign.ended (id, state, attempt)
SELECT countersign.new_id(), 'failed', 1 FROM generate_series(1, %(many)s)
"""
IN_THE_WAY: dict[str, LiteralString] = {
    "unknown names": """
        INSERT INTO countersign.ready (id, queue, name, rank, run_at)
        SELECT countersign.new_id(), 'q', 'name-' || n %% 20, -9, now()
        FROM generate_series(1, %(many)s) AS n""",
    "a paused queue": """
        INSERT INTO countersign.ready (id, queue, name, rank, run_at)
        SELECT countersign.new_id(), 'paused', 'audit.file', -9, now()
        FROM generate_series(1, %(many)s)""",
    "a name at its limit": """
        INSERT INTO countersign.ready (id, queue, name, rank, run_at)
        SELECT countersign.new_id(), 'q', 'mail.send', -9, now()
        FROM generate_series(1, %(many)s)""",
    "work of the future": """
        INSERT INTO countersign.waiting (id, queue, name, rank, run_at)
        SELECT countersign.new_id(), 'q', 'audit.file', -9, now() + interval '1 h'
        FROM generate_series(1, %(many)s)""",
    "what failed for good": FAILED,
}


def rows_read(conn: psycopg.Connection[dict[str, Any]]) -> int:
    (found,) = conn.execute(READ).fetchall()
    return found["rows"] or 0


@pytest.mark.parametrize("crowd", IN_THE_WAY.values(), ids=IN_THE_WAY)
def test_case_81_a_claim_reads_none_of_what_it_may_not_take(conn, crowd: LiteralString) -> None:
    conn.execute(crowd, {"many": MANY})
    conn.execute(MINE)
    pause_queue(conn, "paused", by="ops:alice", reason="seen_in_test")
    before = rows_read(conn)
    for lanes in (Lanes(), Lanes()):
        how: dict[str, Any] = {"names": NAMES, "count": 4, "lanes": lanes}
        runs = claim(conn, worker=uuid4(), capacities={"mail.send": 0}, **how)
        assert [run.name for run in runs] == ["audit.file"] * 4
    assert rows_read(conn) - before <= 100


def test_case_83_a_claim_of_a_worker_with_nothing_to_do_is_one_statement(conn, monkeypatch) -> None:
    said: list[object] = []
    honest = psycopg.Cursor.execute

    def overheard(cursor: Any, query: Any, *args: Any, **known: Any) -> Any:
        said.append(query)
        return honest(cursor, query, *args, **known)

    monkeypatch.setattr(psycopg.Cursor, "execute", overheard)
    lanes = Lanes()
    for number in (1, 2, 3):
        lanes.forget()
        assert claim(conn, worker=uuid4(), names=NAMES, count=8, lanes=lanes) == []
        assert len(said) == number
