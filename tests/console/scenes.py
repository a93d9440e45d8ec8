"""A made-up shop's queue, brought about by the moves that lead there, for tests and screenshots."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Literal
from uuid import UUID

import psycopg
from pydantic import BaseModel

from queue_core import NewJob, Registry, cancel, enqueue_many, fleet, operators, release, retry
from queue_core.outcomes import Completed, Ending, Failed, RunReport, Unreadable
from queue_core.transitions.claim import Claimable, claim
from queue_core.transitions.complete import complete
from queue_core.transitions.dispute import dispute
from queue_core.transitions.fail import fail
from queue_core.transitions.recover import recover
from queue_core.transitions.set_aside import set_aside
from tests.conftest import CANARY

Conn = psycopg.Connection[dict[str, object]]

PASSWORD = "correct horse battery"
CODES: Final[Mapping[str, operators.Role]] = {
    "ops:root": "admin",
    "ops:alice": "operator",
    "ops:bob": "operator",
    "ops:viola": "viewer",
}
NAUGHTY = "<img src=x onerror=alert(1)> {{4813*7919}} \"'&%00 javascript:alert(1)"
HOSTILE = f"{NAUGHTY} \u202egnp.exe\u202c </script>"
"""As an error, where direction marks get through, which no name can hold."""
TRACEBACK = """Traceback (most recent call last):
  File "/srv/shop/payments/charge.py", line 88, in charge_card
    answer = provider.capture(order.reference, amount)
  File "/srv/shop/payments/provider.py", line 141, in capture
    raise ProviderError(response.status, response.reason)
shop.payments.provider.ProviderError: 502 Bad Gateway
"""
NAMES = ("charge_card", "send_invoice", "export_ledger", "resize_image", "sync_stock", NAUGHTY)


class Order(BaseModel):
    """What every job of the shop takes."""

    order: str


def declared() -> Registry:
    """Declare the shop's names, for as long as what this returns is kept."""
    jobs = Registry()
    for name in NAMES:
        jobs.declare(name, schema=Order)
    return jobs


@dataclass(frozen=True)
class Scene:
    """The jobs that pages are looked at with, by what is special about each."""

    review: UUID
    crashed: UUID
    disputed: UUID
    unreadable: UUID
    failed: UUID
    uncertain: UUID
    hostile: UUID
    told: UUID
    retrying: UUID
    later: UUID
    ready: UUID
    running: UUID
    stopping: UUID
    completed: UUID
    cancelled: UUID
    spare: tuple[UUID, ...]


def add_operators(conn: Conn) -> None:
    """Add one operator of each role, and a second one who acts."""
    for code, role in CODES.items():
        by = "setup:root" if code == "ops:root" else "ops:root"
        operators.add(
            conn, code, role, PASSWORD, by=by, reason="first_operators", via="cli:root@shop-1"
        )


class Shop:
    """A worker of the shop, and what it does with the jobs it is given."""

    def __init__(self, conn: Conn, *, host: str = "pay-3", pid: int = 4121) -> None:
        self.conn = conn
        self.worker = fleet.register(
            conn, fleet.Identity(host, pid, "boot-1", "pid:[1]", "0.1.0", [], 8)
        )

    def ask(self, name: str, queue: str, count: int = 1, **options: Any) -> list[UUID]:
        """Ask for jobs and return their ids."""
        new = [NewJob(name, {"order": CANARY}, queue=queue, **options) for _ in range(count)]
        return [job.id for job in enqueue_many(self.conn, new)]

    def claim(
        self,
        ids: Sequence[UUID],
        *,
        attempts: int = 1,
        on_lost: Literal["attempts", "review"] = "attempts",
    ) -> None:
        """Claim exactly these jobs, whatever else is ready, and tell of their start."""
        with self.alone(ids):
            names = [Claimable(name, attempts, on_lost) for name in NAMES]
            got = claim(self.conn, worker=self.worker, names=names, count=len(ids))
        assert {run.id for run in got} == set(ids)
        started = [fleet.Started(run.id, run.attempt, 4_180, 0.0) for run in got]
        fleet.beat(self.conn, self.worker, started)

    def end(self, job: UUID, ending: Ending, *, attempt: int = 1, wait: float = 0.0) -> None:
        """End a run that was claimed."""
        report = [RunReport(job, attempt, ending, seconds=2.4, child_pid=4_180, wait=wait)]
        match ending:
            case Completed():
                complete(self.conn, self.worker, report)
            case Unreadable():
                set_aside(self.conn, self.worker, report)
            case _:
                fail(self.conn, self.worker, report)

    @contextmanager
    def alone(self, ids: Sequence[UUID]) -> Iterator[None]:
        """Keep the other ready jobs out of the way of a claim."""
        self.conn.execute(
            "CREATE TEMP TABLE others AS SELECT * FROM countersign.ready WHERE id <> ALL(%s)",
            [list(ids)],
        )
        self.conn.execute("DELETE FROM countersign.ready WHERE id <> ALL(%s)", [list(ids)])
        yield
        self.conn.execute("INSERT INTO countersign.ready SELECT * FROM others")
        self.conn.execute("DROP TABLE others")


def stage(conn: Conn, *, completed: int = 118) -> Scene:
    """Bring about one job of every kind, on an owner's connection in autocommit."""
    _jobs = declared()
    conn.execute("SET synchronous_commit = off")
    shop = Shop(conn)
    gone = Shop(conn, host="pay-1", pid=977)
    other = Shop(conn, host="mail-2", pid=30_551)
    review, crashed, disputed, unreadable = _to_review(conn, shop, gone)
    failed, uncertain, hostile, *spare = _to_failed(shop)
    told = _told(conn, shop)
    retrying, later, ready, cancelled = _queued(conn, shop)
    done = shop.ask("resize_image", "media", completed)
    shop.claim(done)
    reports = [RunReport(job, 1, Completed('{"bytes": 48211}'), seconds=2.4) for job in done]
    complete(conn, shop.worker, reports)
    running, stopping = other.ask("sync_stock", "stock", 2)
    other.claim([running, stopping])
    cancel(conn, [stopping], by="ops:bob", reason="takes_too_long", via="console:1")
    scene = Scene(
        review, crashed, disputed, unreadable, failed, uncertain, hostile, told,
        retrying, later, ready, running, stopping, done[-1], cancelled,
        tuple(spare),
    )  # fmt: skip
    _age(conn)
    return scene


def _to_review(conn: Conn, shop: Shop, gone: Shop) -> list[UUID]:
    review, crashed, disputed, unreadable = gone.ask("charge_card", "payments", 4)
    gone.claim([review, disputed], on_lost="review")
    _lose(conn, gone)
    recover(conn)
    release(conn, [disputed], by="ops:bob", reason="never_took_effect", via="console:1")
    dispute(conn, gone.worker, [RunReport(disputed, 1, Completed(), seconds=61.0)])
    shop.claim([crashed], on_lost="review")
    shop.end(crashed, Failed("crashed: signal 9", outcome="crashed", signal=9))
    shop.claim([unreadable])
    shop.end(unreadable, Unreadable("the arguments cannot be read as JSON here"))
    return [review, crashed, disputed, unreadable]


def _to_failed(shop: Shop) -> list[UUID]:
    failed, hostile = shop.ask("send_invoice", "mail") + shop.ask(NAUGHTY, "mail")
    shop.claim([failed, hostile])
    shop.end(
        failed,
        Failed(
            "ValueError: no such address",
            error_type="ValueError",
            error_place="shop.mail:send_invoice",
        ),
    )
    long = HOSTILE + " and so on" * 80
    shop.end(hostile, Failed(long, error_type=HOSTILE, error_place="shop:x", traceback=long * 9))
    many = shop.ask("send_invoice", "mail", 6)
    shop.claim(many)
    for job in many:
        shop.end(
            job,
            Failed(
                "ConnectionRefusedError: smtp.shop.example did not answer on port 587",
                error_type="ConnectionRefusedError",
            ),
        )
    (uncertain,) = shop.ask("export_ledger", "reports")
    shop.claim([uncertain])
    shop.end(uncertain, Failed("crashed: signal 11", outcome="crashed", signal=11))
    return [failed, uncertain, hostile, *many]


def _told(conn: Conn, shop: Shop) -> UUID:
    """A job with a story: failed, retried by one, failed again, retried by another, failed."""
    (job,) = shop.ask("charge_card", "payments", priority=5, time_limit=30.0)
    error = Failed(
        "ProviderError: 502 Bad Gateway",
        error_type="ProviderError",
        error_place="shop.payments.provider:capture",
        traceback=TRACEBACK,
    )
    for attempt, (by, reason, note) in enumerate(
        [
            ("ops:bob", "provider_outage", None),
            (
                "ops:alice",
                "deploy_error",
                "The provider refused references with a slash until 14:10.\nOurs has one.",
            ),
        ],
        start=1,
    ):
        shop.claim([job])
        shop.end(job, error, attempt=attempt)
        retry(conn, [job], by=by, reason=reason, note=note, via="console:1")
    shop.claim([job])
    shop.end(job, Failed("timed out after 30s", outcome="timed_out"), attempt=3)
    return job


def _queued(conn: Conn, shop: Shop) -> list[UUID]:
    (retrying,) = shop.ask("sync_stock", "stock", attempts=3)
    shop.claim([retrying], attempts=3)
    shop.end(retrying, Failed("TimeoutError: the warehouse did not answer"), wait=5_400.0)
    (later,) = shop.ask("export_ledger", "reports", delay=9_000.0)
    ready = shop.ask("send_invoice", "mail", 4)
    (cancelled,) = shop.ask("resize_image", "media")
    cancel(conn, [cancelled], by="ops:alice", reason="no_longer_needed", via="console:1")
    return [retrying, later, ready[0], cancelled]


def _lose(conn: Conn, shop: Shop) -> None:
    conn.execute(
        "UPDATE countersign.workers SET lost_at = now(), lost_rule = 'same_host' WHERE id = %s",
        [shop.worker],
    )


AGE = """
CREATE TEMP TABLE age AS
SELECT jobs.id, CASE
    WHEN jobs.name = 'charge_card' THEN interval '41 minutes'
    WHEN jobs.name = 'sync_stock' THEN interval '26 minutes'
    WHEN jobs.name = 'resize_image' THEN random() * interval '3 hours'
    ELSE interval '9 minutes' END AS by
FROM countersign.jobs
WHERE NOT EXISTS (SELECT FROM countersign.acts
    WHERE acts.subject_id = jobs.id AND acts.act <> 'cancel_requested');
UPDATE countersign.jobs SET created_at = created_at - by FROM age WHERE age.id = jobs.id;
UPDATE countersign.ready SET run_at = run_at - by FROM age WHERE age.id = ready.id;
UPDATE countersign.running SET claimed_at = claimed_at - by, started_at = started_at - by
FROM age WHERE age.id = running.id;
UPDATE countersign.review SET entered_at = entered_at - by, claimed_at = claimed_at - by,
    started_at = started_at - by
FROM age WHERE age.id = review.id;
UPDATE countersign.ended SET ended_at = ended_at - by, started_at = started_at - by
FROM age WHERE age.id = ended.id;
UPDATE countersign.runs SET claimed_at = claimed_at - by, started_at = started_at - by,
    ended_at = ended_at - by
FROM age WHERE age.id = runs.job_id;
UPDATE countersign.workers SET started_at = started_at - interval '2 days';
DROP TABLE age;
"""


def _age(conn: Conn) -> None:
    """Move into the past what nobody has signed; the ledger's times stay what they are."""
    for statement in AGE.split(";\n"):
        conn.execute(statement.encode())
