"""Which addresses of the console are asked for: each route, lists in their midst and filtered."""

import re
from collections.abc import Iterator
from html import unescape
from typing import Any, Final, LiteralString
from urllib.parse import urlencode

from flask import Flask
from flask.testing import FlaskClient
from werkzeug.routing import Rule

from bench import harness, history
from queue_core.queries.jobs import Cursor
from queue_core.queries.review import Spot
from queue_core.states import STATES

CODE: Final = "ops:bench"
EXPORT: Final = "/acts/export"
NEXT: Final = re.compile(r'href="([^"]*[?;&]after=[^"]*)"')
TIMED: Final[dict[str, LiteralString]] = {
    "needs_review": "SELECT review.entered_at AS at, review.id FROM countersign.review "
    "ORDER BY review.entered_at, review.id OFFSET (SELECT count(*) / 2 FROM countersign.review) "
    "LIMIT 1",
    **{
        state: "SELECT ended.ended_at AS at, ended.id FROM countersign.ended "
        f"WHERE ended.state = '{state}' AND ended.ended_at < now() - interval '4 days' "
        "ORDER BY ended.ended_at DESC, ended.id DESC LIMIT 1"
        for state in ("completed", "failed", "cancelled")
    },
    "ready": "SELECT ready.run_at AS at, ready.id FROM countersign.ready "
    "ORDER BY ready.id OFFSET (SELECT count(*) / 2 FROM countersign.ready) LIMIT 1",
}
"""A row in the midst of each list."""
FITS: Final[tuple[dict[str, str], ...]] = (
    {"name": history.NAMES[7]},
    {"queue": history.QUEUES[3]},
    {"name": "no.such"},
    {"not_name": history.NAMES[7]},
    {"q": "job_07"},
    {"q": "nothing at all"},
    {"worker": "pay-7"},
    {"operator": "ops:op-7"},
    {"operator": "ops:nobody"},
    {"from": "2020-01-01T00:00", "to": "2020-01-02T00:00"},
    {"rows": "1000"},
)
OF_FAILURES: Final[tuple[dict[str, str], ...]] = (
    {"error_type": "ProviderError", "error_place": "shop.pay:7"},
    {"error_type": "NoSuchError"},
    {"schedule": "nightly"},
    {"q": "01"},
    {"q": "…7"},
    {"worker": "pay-7", "name": history.NAMES[7]},
    {"worker": "pay-7", "operator": "ops:op-7"},
    {"operator": "ops:op-7", "queue": history.QUEUES[3]},
    {"q": "job_07", "error_place": "shop.pay:7"},
    {"not_worker": "pay-7", "not_operator": "ops:op-7"},
)
"""One filter or two that go together."""
FILTERS: Final[dict[str, tuple[dict[str, str], ...]]] = {
    "jobs.index": (
        *({"state": state, **fits} for state in STATES[:1] + STATES[4:] for fits in FITS),
        *({"state": "failed", **fits} for fits in OF_FAILURES),
        *({"state": "ready", **fits} for fits in OF_FAILURES[:3]),
    ),
    "ledger.index": (
        {"by": "ops:op-7"},
        {"by": "ops:nobody"},
        {"reason": "data_mended"},
        {"act": "closed"},
        {"by": "ops:op-7", "reason": "data_mended"},
        {"kind": "job", "subject": history.NAMES[7]},
        {"kind": "queue", "by": "ops:op-7"},
        {"since": "2020-01-01", "until": "2020-01-02"},
    ),
    "ledger.handover": ({"since": "2020-01-01", "by": "ops:nobody"},),
    "review.index": ({"list": "uncertain"},),
    "workers.index": ({"fate": "lost"}, {"fate": "stopped"}),
}
"""What is asked of a list besides itself and a page in its midst."""
NEEDED: Final = {
    "queues.show": {"name": history.QUEUES[3]},
    "handlers.show": {"name": history.HANDLED},
    "schedules.show": {"name": "nightly"},
    "operators.show": {"code": CODE},
}
"""What an address shows nothing without."""
SAMPLES: Final[dict[str, LiteralString]] = {
    "job_id": "SELECT ended.id AS it FROM countersign.ended WHERE ended.state = 'failed' "
    "ORDER BY ended.ended_at DESC LIMIT 1",
    "act_id": "SELECT max(acts.id) / 2 AS it FROM countersign.acts",
    "worker_id": "SELECT review.worker AS it FROM countersign.review LIMIT 1",
    "bulk_id": "SELECT COALESCE((SELECT acts.bulk_id FROM countersign.acts "
    "WHERE acts.bulk_id IS NOT NULL ORDER BY acts.id DESC LIMIT 1), gen_random_uuid()) AS it",
    "code": f"SELECT '{CODE}' AS it",
    "filename": "SELECT 'console.css' AS it",
}
"""What stands in an address, by the name of its part."""


_NOBODY: Final = "COALESCE(worker, '00000000-0000-0000-0000-000000000000'::uuid)"
WAITS: Final[dict[str, LiteralString]] = {
    "needs_review": f"SELECT review.entered_at AS at, {_NOBODY} AS worker, review.id "
    "FROM countersign.review ORDER BY review.entered_at, worker, review.id "
    "OFFSET (SELECT count(*) / 2 FROM countersign.review) LIMIT 1",
    "uncertain": f"SELECT ended.ended_at AS at, {_NOBODY} AS worker, ended.id "
    "FROM countersign.ended WHERE ended.uncertain AND ended.state = 'failed' "
    "AND ended.ended_at > now() - interval '4 days' "
    "ORDER BY ended.ended_at, worker, ended.id LIMIT 1",
}
GONE: Final[dict[str, LiteralString]] = {
    "lost": "SELECT workers.lost_at AS at, workers.id FROM countersign.workers "
    "WHERE workers.lost_at IS NOT NULL ORDER BY workers.lost_at, workers.id LIMIT 1",
    "stopped": "SELECT workers.stopped_at AS at, workers.id FROM countersign.workers "
    "WHERE workers.stopped_at IS NOT NULL ORDER BY workers.stopped_at, workers.id LIMIT 1",
}


def addresses(app: Flask, owner: harness.Connection) -> Iterator[str]:
    """Give every address of the console that shows something: each list in its midst, too."""
    for rule in app.url_map.iter_rules():
        if "GET" not in (rule.methods or ()):
            continue
        path, needed = _path(app, rule, owner), NEEDED.get(rule.endpoint)
        yield f"{path}?{urlencode(needed)}" if needed else path
        for fits in FILTERS.get(rule.endpoint, ()):
            yield f"{path}?{urlencode(fits)}"
        for places in MIDST.get(rule.endpoint, _nowhere)(owner):
            yield f"{path}?{urlencode(places)}"
    for place in ("review", "running"):
        found = owner.execute(f"SELECT id FROM countersign.{place} LIMIT 1".encode()).fetchone()
        if found:
            yield f"/jobs/{found['id']}"


def _path(app: Flask, rule: Rule, owner: harness.Connection) -> str:
    """Fill in an address; a part that nobody gave a sample of is a mistake of this script."""
    samples = {part: owner.execute(SAMPLES[part]).fetchone() or {} for part in rule.arguments}
    values: dict[str, Any] = {part: sample["it"] for part, sample in samples.items()}
    with app.test_request_context():
        return str(app.url_map.bind("localhost").build(rule.endpoint, values))


def _of_jobs(owner: harness.Connection) -> Iterator[dict[str, str]]:
    for state in STATES:
        yield {"state": state}
        row = owner.execute(TIMED[state]).fetchone() if state in TIMED else None
        if row:
            at = Cursor(row["at"], row["id"]).encode()
            yield from _both_ways(at, {"state": state})


def _of_review(owner: harness.Connection) -> Iterator[dict[str, str]]:
    for kind, statement in WAITS.items():
        if row := owner.execute(statement).fetchone():
            at = Spot(row["at"], row["worker"], row["id"]).encode()
            yield from _both_ways(at, {"list": kind})


def _of_acts(owner: harness.Connection) -> Iterator[dict[str, str]]:
    row = owner.execute("SELECT max(acts.id) / 2 AS id FROM countersign.acts").fetchone()
    yield from _both_ways(str((row or {})["id"]))
    yield from _both_ways(str((row or {})["id"]), {"by": "ops:nobody"})


def _of_workers(owner: harness.Connection) -> Iterator[dict[str, str]]:
    for fate, statement in GONE.items():
        if row := owner.execute(statement).fetchone():
            yield from _both_ways(Cursor(row["at"], row["id"]).encode(), {"fate": fate})


def _nowhere(_: harness.Connection) -> Iterator[dict[str, str]]:
    yield from ()


def _both_ways(at: str, given: dict[str, str] | None = None) -> Iterator[dict[str, str]]:
    yield {**(given or {}), "after": at}
    yield {**(given or {}), "before": at}


MIDST: Final = {
    "jobs.index": _of_jobs,
    "review.index": _of_review,
    "ledger.index": _of_acts,
    "workers.index": _of_workers,
}
"""Each list's places far from its ends."""


def onward(client: FlaskClient, paths: list[str]) -> Iterator[str]:
    """Give the second page of each list among these."""
    for path in paths:
        if path != EXPORT and "after=" not in path:
            found = NEXT.search(client.get(path, buffered=True).text)
            yield from [unescape(found[1])] if found else []
