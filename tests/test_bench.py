"""The benchmarks: what they measure is what the transitions do."""

from psycopg.rows import tuple_row

from bench import clients, console, harness, history, limit, report
from bench.peers import marks
from bench.targets import PARTS, TARGETS, Target
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


def test_the_clients_statement_is_compared_with_the_same_that_wakes_nobody(database) -> None:
    owner = database.owner()
    owner.execute(clients.ENQUEUE_NOW, clients.ONE_JOB)
    owner.execute(clients.SILENT, clients.ONE_JOB)

    assert counts(owner).ready == 2
    assert ("pg_notify" in clients.ENQUEUE_NOW, "pg_notify" in clients.SILENT) == (True, False)


def test_a_target_is_met_by_the_worst_of_its_lines_and_only_within_its_bounds() -> None:
    def line(case: str, ratio: float, to: str) -> dict[str, object]:
        return {"case": case, "value": 10.0, "unit": "jobs/s", "ratio": ratio, "to": to}

    target = Target("what", "part", r"noop", r"bare .*", at_least=0.6)
    lines = [line("noop", 0.9, "bare 64"), line("noop", 0.6, "bare 256"), line("x", 0.1, "bare 1")]
    assert report.reached(target, lines) == ("0.6 (10 jobs/s; to: bare 256)", "yes")
    assert report.reached(target, [*lines, line("noop", 0.59, "bare 1")])[1] == "**no**"
    assert report.reached(target, [])[1] == report.NOT_MEASURED
    assert {target.part for target in TARGETS} == set(PARTS)


def test_what_handlers_count_is_read_from_their_file(tmp_path, monkeypatch) -> None:
    found = marks.Marks(tmp_path / "marks")
    monkeypatch.setenv(marks.FILE, str(found.path))
    monkeypatch.setenv(marks.TIMED, "1")
    marker = marks.Marker()
    marker.run(3)
    marker.run(5)

    assert (found.counted(), found.moment(4)) == (2, 0)
    assert 0 < found.first() <= found.moment(3) <= found.moment(5)
    found.clear()
    assert found.counted() == 0
