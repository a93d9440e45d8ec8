"""The benchmarks: what they measure is what the transitions do."""

from psycopg.rows import tuple_row

from bench import console, harness, history, limit
from console import create_app
from queue_core import check
from queue_core.queries.counts import counts
from queue_core.settings import from_environment
from queue_core.transitions.complete import COMPLETE


def test_the_bare_loops_statements_claim_and_complete(database) -> None:
    owner, conn = database.owner(), database.connect()
    harness.load(owner, 10)
    worker = harness.worker(conn)
    cursor = conn.cursor(row_factory=tuple_row)

    *claimed, following = cursor.execute(limit.CLAIM, limit.started(conn, worker, 6)).fetchall()
    cursor.execute(COMPLETE, limit.ended(worker, claimed))

    assert (len(claimed), following[2]) == (6, 0)
    assert (counts(conn).completed, counts(conn).ready) == (6, 4)


def test_the_history_of_the_consoles_pages_is_sound_and_every_page_is_asked_for(database) -> None:
    owner = database.owner()
    history.load(owner, 400, 40, 20, 10)

    found = counts(owner)
    assert (found.ready, found.needs_review) == (40, 20)
    assert found.completed + found.failed + found.cancelled == 400
    assert check.check(owner, full=True) == []
    app = create_app(from_environment({"DATABASE_URL": database.url, "QUEUE_SECRET_KEY": "k" * 32}))
    asked = {path.partition("?")[0] for path in console.addresses(app, owner)}
    bound = app.url_map.bind("localhost")
    routes = {rule.endpoint for rule in app.url_map.iter_rules() if "GET" in (rule.methods or ())}
    assert {str(bound.match(path)[0]) for path in asked} == routes
