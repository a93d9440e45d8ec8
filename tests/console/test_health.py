"""Whether the process lives, and whether it can serve."""

from psycopg import sql

from queue_core.migrate import make_partitions
from tests.sealing import seal_all


def test_a_process_lives_whatever_else(person):
    answer = person().get("/healthz")
    assert (answer.status_code, answer.json) == (200, {"ok": True})


def test_a_sound_database_makes_it_ready(person, books):
    make_partitions(books)
    seal_all(books)
    answer = person().get("/readyz")
    assert (answer.status_code, answer.json) == (200, {"ok": True, "warnings": []})


PARTITIONS = """
SELECT relname::text AS name
FROM pg_class
WHERE relnamespace = 'countersign'::regnamespace AND relkind = 'r' AND relname ~ '^(jobs|ended)_'
ORDER BY substring(relname FROM '_.*') DESC
"""


def test_too_few_partitions_ahead_are_a_warning_and_it_stays_ready(app_on, database):
    with database.owner() as owner:
        names = [row["name"] for row in owner.execute(PARTITIONS)]
        for name in names[:-6]:
            owner.execute(sql.SQL("DROP TABLE countersign.{}").format(sql.Identifier(name)))
    answer = app_on(database.url).test_client().get("/readyz")
    assert (answer.status_code, answer.json) == (
        200,
        {"ok": True, "warnings": ["partition.missing"]},
    )


def test_a_ledger_that_loses_a_trigger_meanwhile_makes_it_unready(app_on, database):
    client = app_on(database.url).test_client()
    assert client.get("/readyz").status_code == 200
    with database.owner() as owner:
        owner.execute("ALTER TABLE countersign.acts DISABLE TRIGGER acts_refuse_row")
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json) == (
        503,
        {"ok": False, "problem": "the schema is not sound"},
    )
