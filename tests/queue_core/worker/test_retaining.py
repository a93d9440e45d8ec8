"""A worker's retention: with the owner's rights it drops weeks, without them it trims."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from queue_core.retention import Keep
from queue_core.worker import retaining
from queue_core.worker.link import Link
from queue_core.worker.retaining import PATIENT, Retention
from tests.conftest import Database
from tests.queue_core.test_retention import LAST_WEEKS, Past
from tests.queue_core.worker.conftest import Jobs, Worker, wait_for

OFTEN = {"retaining.TRIM_SECONDS": 0.1, "retaining.WEEKS_SECONDS": 0.1}


def test_a_worker_with_the_owners_url_trims_and_drops_weeks(
    database: Database, start_worker: Callable[..., Worker], jobs: Jobs
) -> None:
    past = Past(database.owner())
    past.ended()
    kept = past.ended("failed", 9, at=LAST_WEEKS - timedelta(days=70))
    past.ended("completed", 9, at=LAST_WEEKS - timedelta(days=70))
    worker = start_worker(owner_url=database.owner_url, constants=OFTEN)
    wait_for(lambda: past.ids("jobs") == {kept} and len(past.tables()) == 2)
    assert len(worker.lines("a week's table was dropped")) == 2
    jobs.ended(jobs.add("sample.echo"), "completed")
    past.is_sound()


def test_a_worker_without_it_trims_and_says_once_what_it_may_not(
    database: Database, start_worker: Callable[..., Worker]
) -> None:
    past = Past(database.owner())
    past.ended()
    worker = start_worker(constants=OFTEN)
    wait_for(lambda: past.ids("jobs") == set())
    past.ended(at=datetime.now(UTC) - timedelta(minutes=1))
    wait_for(lambda: past.ids("jobs") == set())
    assert len(worker.lines("weeks that are over keep their tables")) == 1
    assert len(past.tables()) == 2


def test_a_worker_behind_a_pooler_drops_no_weeks(
    database: Database, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The lock of who drops would stay with a session that others get next."""
    past = Past(database.owner())
    past.ended()
    monkeypatch.setattr(retaining, "is_pooled", lambda _: True)
    retention = Retention(Link(database.owner_url, PATIENT), Keep())
    retention._round()
    retention._link.close()
    assert len(past.tables()) == 2
    assert [vars(each)["fields"]["why"] for each in caplog.records] == ["a pooler is in the way"]


def test_children_see_nothing_of_the_owners_url(
    database: Database, start_worker: Callable[..., Worker]
) -> None:
    url = f"{database.owner_url} application_name=the-owner"
    worker = start_worker(owner_url=url, environment={"QUEUE_OWNER_URL": url})
    worker.id()
    others = worker.children() | {worker.guard()}
    assert others
    for pid in others:
        seen = [Path(f"/proc/{pid}/{part}").read_bytes() for part in ("environ", "cmdline")]
        assert b"the-owner" not in b"".join(seen)


def test_a_worker_folds_tallies(database: Database, start_worker: Callable[..., Worker]) -> None:
    conn = database.connect()
    for _ in range(5):
        conn.execute(
            "INSERT INTO countersign.tallies"
            " VALUES (date_trunc('hour', now() - interval '5 hours'), 'n', 'failed', 1, 1, 0, 0)"
        )
    start_worker(constants={"maintenance.FOLD_SECONDS": 0.1})
    query = "SELECT count(*) AS n, sum(entered) AS jobs FROM countersign.tallies"
    wait_for(lambda: conn.execute(query).fetchall() == [{"n": 1, "jobs": 5}])
