"""docs/writing-jobs.md is true: its module is imported, its blocks run, its jobs do as told."""

import asyncio
import importlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from uuid import uuid4

import pytest

from queue_core import Registry, Run
from queue_core.jobs import TEXTS
from queue_core.outcomes import Completed, Deferred, Failed, Stopped
from queue_core.registry import _REGISTRIES  # pyright: ignore[reportPrivateUsage]
from queue_core.run import StopRequest
from queue_core.worker.execute import execute, execute_async
from queue_core.worker.messages import JobMessage

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "writing-jobs.md").read_text()
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
MODULE, REST = (BLOCK.findall(part) for part in PAGE.split("\n## Asking for a job\n"))
JOBS = """
SELECT name, count(*) AS jobs FROM countersign.jobs WHERE schedule IS NULL GROUP BY name
"""
MAIL = """
def send(address, text, key): pass

async def send_soon(address, text, key): pass
"""
SHOP = """
from contextlib import contextmanager

class BusyError(Exception): pass
class NoSuchOrderError(Exception): pass

entered = []

@contextmanager
def connect():
    entered.append("in")
    yield
    entered.append("out")

def invoice(order, key):
    if order == 404:
        raise NoSuchOrderError
    if order == 503:
        raise BusyError
    return str(order)

def is_uploaded(picture): return picture < 1_000
def make_thumbnail(picture): pass
def pay_out(account, cents, key): pass
def fetch_page(page): return 1
"""


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """Give the page's module, in a service that has what it imports."""
    folder = tmp_path / "myservice"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "mail.py").write_text(MAIL)
    (folder / "shop.py").write_text(SHOP)
    (folder / "jobs.py").write_text("\n\n".join(MODULE))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))  # for the children of `run_one`
    module = importlib.import_module("myservice.jobs")
    yield module
    _REGISTRIES.discard(module.jobs)
    for name in [name for name in sys.modules if name.partition(".")[0] == "myservice"]:
        del sys.modules[name]


def run(registry: Registry, name: str, **args: Any) -> object:
    message = JobMessage(uuid4(), name, 1, json.dumps(args))
    return execute(message, registry)


def test_its_blocks_run_one_after_the_other(service, database) -> None:
    known: dict[str, Any] = {"url": database.url, "Run": Run}
    for block in REST:
        exec(compile(block, "writing-jobs.md", "exec"), known)
    conn = database.connect()
    names = conn.execute(JOBS)
    assert {row["name"]: row["jobs"] for row in names} == {
        "mail.welcome": 1,
        "shop.invoice": 3,
        "shop.thumbnail": 100,
    }


def test_its_jobs_run_as_it_says(service) -> None:
    jobs = service.jobs
    assert run(jobs, "mail.welcome", address="ada@example.org") == Completed()
    assert run(jobs, "shop.invoice", order=7) == Completed('{"number":"7"}')
    busy, gone = run(jobs, "shop.invoice", order=503), run(jobs, "shop.invoice", order=404)
    assert isinstance(busy, Failed)
    assert isinstance(gone, Failed)
    assert (busy.retryable, busy.retry_after, gone.retryable) == (True, 120, False)
    assert run(jobs, "shop.fetch_prices", pages=3) == Completed("3")
    digest = JobMessage(uuid4(), "mail.digest", 1, '{"address": "ada@example.org"}')
    assert asyncio.run(execute_async(digest, jobs)) == Completed()
    assert run(jobs, "shop.pay_out", account=1, cents=5) == Completed()
    assert run(jobs, "shop.thumbnail", picture=1) == Completed()
    assert run(jobs, "shop.thumbnail", picture=1_000) == Deferred(60)
    assert sys.modules["myservice.shop"].entered.count("out") == 6


def test_its_runs_stop_as_it_says(service) -> None:
    jobs = service.jobs
    assert run(jobs, "shop.reindex", pictures=3) == Completed("3")
    message = JobMessage(uuid4(), "shop.reindex", 1, '{"pictures": 3}', StopRequest("shutdown"))
    assert execute(message, jobs) == Stopped("Stopped: 0 of 3 pictures")


def test_its_names_are_declared_as_it_says(service) -> None:
    handlers = service.jobs.handlers
    assert (handlers["mail.welcome"].attempts, handlers["mail.welcome"].on_lost) == (1, "attempts")
    assert (handlers["shop.invoice"].attempts, handlers["shop.invoice"].time_limit) == (5, 30)
    assert handlers["shop.pay_out"].on_lost == "review"
    assert (handlers["mail.digest"].shares, handlers["shop.fetch_prices"].shares) == (
        "loop",
        "threads",
    )
    assert (handlers["shop.thumbnail"].safe_to_repeat, handlers["shop.thumbnail"].limit) == (
        True,
        2,
    )
    refund = handlers["shop.refund"]
    assert all(getattr(refund, text) for text in TEXTS)
    assert handlers["pictures.scan"].function is None
    (schedule,) = service.jobs.schedules
    assert (schedule.name, schedule.every, schedule.job) == (
        "nightly-report",
        86_400,
        "mail.welcome",
    )


def test_it_names_every_option_of_a_job_and_of_a_call() -> None:
    for option in ("attempts", "time_limit", "on_lost", "safe_to_repeat", "limit", "threads",
                   "queue", *TEXTS):  # fmt: skip
        assert f"{option}=" in PAGE
    for option in ("queue", "priority", "delay", "run_at", "attempts", "time_limit"):
        assert f"| `{option}` |" in PAGE
