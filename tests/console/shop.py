"""A made-up shop: the names of its jobs, what is declared of them, and one of its workers."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, Literal
from uuid import UUID

import psycopg
from pydantic import BaseModel

from queue_core import NewJob, Registry, enqueue_many, fleet
from queue_core.handlers import Declared
from queue_core.outcomes import Completed, Ending, RunReport, Unreadable
from queue_core.transitions.claim import Claimable, claim
from queue_core.transitions.complete import complete
from queue_core.transitions.fail import fail
from queue_core.transitions.set_aside import set_aside
from tests.conftest import CANARY

Conn = psycopg.Connection[dict[str, object]]

NAUGHTY = "<img src=x onerror=alert(1)> {{4813*7919}} \"'&%00 javascript:alert(1)"
NAMES: Final = ("charge_card", "send_invoice", "export_ledger", "resize_image", "sync_stock")
HANDLERS: Final = (
    Declared(
        "charge_card", "payments", 3, 30.0, "review",
        effects="Takes money from a card, once for each order.",
        how_to_check="Search the captures for the order.\nOne of today is ours.",
        owner="payments team",
        runbook="https://runbooks.shop.example/charge-card",
    ),
    Declared(
        "send_invoice", "mail", 5, 20.0, safe_to_repeat=True, limit=2,
        effects="Sends the customer a mail. A second one says the same.",
        owner="mail team",
    ),
    Declared("resize_image", "media", safe_to_repeat=True, owner="web team"),
    Declared(
        "sync_stock", "stock", 3,
        effects="Sets the stock of each article to what the warehouse counts.",
        owner="warehouse team",
        runbook="https://runbooks.shop.example/stock",
    ),
    Declared("export_ledger", "reports", 1, 900.0, owner="finance"),
)  # fmt: skip
NAUGHTY_HANDLER: Final = Declared(
    NAUGHTY, "mail", effects="javascript:alert(1)", how_to_check=NAUGHTY, owner=NAUGHTY,
    runbook="javascript:alert(1)",
)  # fmt: skip


class Order(BaseModel):
    """What every job of the shop takes."""

    order: str
    amount: str = ""
    card: dict[str, str] = {}


GIVEN: Final[Mapping[str, object]] = {"order": CANARY}
"""What tests give to every job: a value that must not be seen anywhere."""
BELIEVABLE: Final[Mapping[str, object]] = {
    "order": "order-88121",
    "amount": "49.90 EUR",
    "card": {"holder": "J. Okafor", "token": "tok_5fK2Qe"},
}
"""What pictures give, since one of them shows it."""


def declared() -> Registry:
    """Declare the shop's names, for as long as what this returns is kept."""
    jobs = Registry()
    for name in (*NAMES, NAUGHTY):
        jobs.declare(name, schema=Order)
    return jobs


class Shop:
    """A worker of the shop, and what it does with the jobs it is given."""

    def __init__(
        self,
        conn: Conn,
        *,
        host: str = "pay-3",
        pid: int = 4121,
        given: Mapping[str, object] = GIVEN,
    ) -> None:
        self.conn = conn
        self.given = dict(given)
        self.worker = fleet.register(
            conn, fleet.Identity(host, pid, f"boot-{host}", "pid:[1]", "0.1.0", [], 8)
        )

    def ask(self, name: str, queue: str, count: int = 1, **options: Any) -> list[UUID]:
        """Ask for jobs and return their ids."""
        new = [NewJob(name, self.given, queue=queue, **options) for _ in range(count)]
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
            names = [Claimable(name, attempts, on_lost) for name in (*NAMES, NAUGHTY)]
            got = claim(self.conn, worker=self.worker, names=names, count=len(ids))
        assert {run.id for run in got} == set(ids)
        started = [fleet.Started(run.id, run.attempt, self.child, 0.0) for run in got]
        fleet.beat(self.conn, self.worker, started)

    def end(self, job: UUID, ending: Ending, *, attempt: int = 1, wait: float = 0.0) -> None:
        """End a run that was claimed."""
        report = [RunReport(job, attempt, ending, seconds=2.4, child_pid=self.child, wait=wait)]
        match ending:
            case Completed():
                complete(self.conn, self.worker, report)
            case Unreadable():
                set_aside(self.conn, self.worker, report)
            case _:
                fail(self.conn, self.worker, report)

    child = 4_180

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
