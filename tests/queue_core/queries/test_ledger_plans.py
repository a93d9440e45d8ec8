"""Plans of the ledger's pages: walks along indexes, in a full ledger believed empty."""

import uuid
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import psycopg
import pytest
from psycopg.rows import DictRow, dict_row

from queue_core.check import unsealed
from queue_core.queries.bulks import acts_of_bulk
from queue_core.queries.ledger import Cursor, Wanted, list_acts
from queue_core.queries.sealing import sealing
from queue_core.queries.sign_ins import failed_lately
from tests.databases import Database, Pool
from tests.queue_core.test_plans import QUIET, Loaded, compared, explained, pages
from tests.sealing import tamper

ACTS = 120_000
SEALS = 300
BULK = uuid.UUID(int=7)
JOB = uuid.UUID(int=9)
MIDDLE = Cursor(ACTS // 2)

FILL = f"""
INSERT INTO countersign.acts (id, at, by, act, subject_kind, subject_id, subject_name, attempt,
    reason, bulk_id, via, xid)
SELECT i, now() - ({ACTS} - i) * interval '1 minute', 'ops:' || i % 40, 'retried', 'job',
    CASE WHEN i = {ACTS // 4} THEN '{JOB}'::uuid ELSE gen_random_uuid() END, 'mail.send', 1,
    'reason_' || i % 17, CASE WHEN i BETWEEN 500 AND 520 THEN '{BULK}'::uuid END,
    'console:' || gen_random_uuid(), (3 + i / 400)::text::xid8
FROM generate_series(1, {ACTS}) AS i;
INSERT INTO countersign.acts (id, at, by, act, subject_kind, subject_name, reason, via, xid)
SELECT {ACTS} + i, now(), 'ops:rare', 'paused', 'queue',
    CASE i WHEN 1 THEN 'mail' ELSE 'q' || i END, 'x', 'code', '900000'
FROM generate_series(1, 2000) AS i;
INSERT INTO countersign.seals (number, previous, at, xid, system_identifier, rebase, horizon, base,
    count, ids, digests, sha256)
SELECT n, sha256(n::text::bytea), now(), '900', control.system_identifier, false,
    (3 + n)::text::xid8, 0, 400, ARRAY(SELECT generate_series((n - 1) * 400, n * 400 - 1)),
    array_fill('x'::bytea, ARRAY[400]), sha256('x')
FROM generate_series(1, {SEALS}) AS n, pg_control_system() AS control;
INSERT INTO countersign.sign_in_failures (code, address, last_at)
SELECT md5(i::text), '203.0.113.' || i, now() - i * interval '1 second'
FROM generate_series(1, 50000) AS i
"""


@pytest.fixture(scope="module")
def shared_database(databases: Pool) -> Iterator[Database]:
    """Give a database whose files hold nothing of any other test."""
    with databases.make() as made:
        yield made


@pytest.fixture(scope="module")
def full(shared_database: Any) -> Iterator[Loaded]:
    """Fill a ledger, and say so to no planner."""
    owner = shared_database.owner()
    for row in owner.execute(QUIET).fetchall():
        owner.execute(row["format"])
    owner.execute("ANALYZE")
    (now,) = owner.execute("SELECT now() AS now").fetchall()
    tamper(owner, FILL)
    with psycopg.Connection[DictRow].connect(
        shared_database.url, autocommit=True, row_factory=dict_row
    ) as conn:
        yield Loaded(conn, conn, owner, now["now"])


def kinds(plan: dict[str, Any]) -> set[str]:
    """Return the kinds of the nodes of a plan that read a table."""
    own = {f"{plan['Node Type']} of {plan['Relation Name']}"} if "Relation Name" in plan else set()
    return own.union(*(kinds(each) for each in plan.get("Plans", [])))


NOW = datetime.now().astimezone()
LISTS = {
    "the newest": (Wanted(), None, 20),
    "deep": (Wanted(), MIDDLE, 20),
    "one job": (Wanted(subject=JOB), None, 20),
    "one job, by somebody": (Wanted(subject=JOB, by="ops:rare"), None, 20),
    "one queue": (Wanted(kind="queue", name="mail"), None, 20),
    "a bulk": (Wanted(bulk=BULK), None, 20),
    "an hour": (
        Wanted(since=NOW - timedelta(hours=500), until=NOW - timedelta(hours=499)),
        None,
        300,
    ),
    "by somebody": (Wanted(by="ops:3"), None, 6_000),
    "by somebody rare": (Wanted(by="ops:rare"), MIDDLE, 6_000),
}


@pytest.mark.parametrize("direction", ["next", "previous"])
@pytest.mark.parametrize("name", LISTS)
def test_a_page_of_the_ledger_is_a_walk_along_an_index(
    full: Loaded, monkeypatch: pytest.MonkeyPatch, name: str, direction: Any
) -> None:
    wanted, cursor, most = LISTS[name]
    call = partial(list_acts, full.conn, wanted, cursor=cursor, direction=direction)
    plans = explained(full, monkeypatch, call)
    assert plans
    for plan in plans:
        assert not {kind for kind in kinds(plan) if kind.startswith("Seq Scan")}
    assert sum(map(pages, plans)) <= most


@pytest.mark.parametrize("cursor", [None, MIDDLE, Cursor(60)])
def test_seals_of_a_page_are_looked_up(
    full: Loaded, monkeypatch: pytest.MonkeyPatch, cursor: Cursor | None
) -> None:
    ids = [row.id for row in list_acts(full.conn, Wanted(), cursor=cursor).rows]
    plans = explained(full, monkeypatch, lambda: sealing(full.conn, ids))
    for plan in plans:
        assert not {kind for kind in kinds(plan) if kind.startswith("Seq Scan")}
    assert sum(map(pages, plans)) <= 300


def test_the_acts_of_a_bulk_are_looked_up(full: Loaded, monkeypatch: pytest.MonkeyPatch) -> None:
    plans = explained(full, monkeypatch, lambda: acts_of_bulk(full.conn, BULK))
    assert sum(map(pages, plans)) <= 20
    assert [row.id for row in acts_of_bulk(full.conn, BULK)] == list(range(500, 521))


@pytest.mark.parametrize(
    ("first", "step", "most"),
    [(60_000, 1, 300), (1, 117, 15_000)],
    ids=["one after another", "from all over"],
)
def test_seals_of_a_thousand_acts_are_looked_up_once_for_each_transaction(
    full: Loaded, monkeypatch: pytest.MonkeyPatch, first: int, step: int, most: int
) -> None:
    ids = list(range(first, first + 1_000 * step, step))
    plans = explained(full, monkeypatch, lambda: sealing(full.conn, ids))
    assert not {kind for plan in plans for kind in kinds(plan) if kind.startswith("Seq Scan")}
    assert sum(map(pages, plans)) <= most
    assert sum(map(compared, plans)) <= len(ids)


def test_whether_acts_wait_to_be_sealed_is_looked_for_where_the_sealed_ones_end(
    full: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A prober asks it every few seconds, however many acts there are."""
    plans = explained(full, monkeypatch, lambda: unsealed.warnings(full.conn))
    assert plans
    for plan in plans:
        assert not {kind for kind in kinds(plan) if kind.startswith("Seq Scan")}
    assert sum(map(pages, plans)) <= 100


def test_failed_sign_ins_are_the_top_of_an_index(
    full: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans = explained(full, monkeypatch, lambda: failed_lately(full.conn))
    assert sum(map(pages, plans)) <= 20
