"""A night in a shop's queue, brought about by the moves that lead there, to be looked at."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID, uuid4

from queue_core import (
    cancel,
    fleet,
    handlers,
    operators,
    pause_queue,
    pause_schedule,
    release,
    retry,
    seals,
    tick_schedules,
)
from queue_core.outcomes import Completed, Failed, RunReport, Unreadable
from queue_core.rules import Schedule
from queue_core.transitions.complete import complete
from queue_core.transitions.dispute import dispute
from queue_core.transitions.recover import recover
from tests.console import night
from tests.console.night import Attempt, Past
from tests.console.shop import GIVEN, HANDLERS, NAUGHTY, NAUGHTY_HANDLER, Conn, Shop, declared

PASSWORD = "correct horse battery"
CODES: Final[Mapping[str, operators.Role]] = {
    "ops:root": "admin",
    "ops:alice": "operator",
    "ops:bob": "operator",
    "ops:viola": "viewer",
}
VIA: Final = "console:7d0f3c1e-52a8-4d4b-9f0a-3b61c2e8d915"
HOSTILE = f"{NAUGHTY} \u202egnp.exe\u202c </script>"
"""As an error, where direction marks get through, which no name can hold."""
TRACEBACK = """Traceback (most recent call last):
  File "/srv/shop/payments/charge.py", line 88, in charge_card
    answer = provider.capture(order.reference, amount)
  File "/srv/shop/payments/provider.py", line 141, in capture
    raise ProviderError(response.status, response.reason)
shop.payments.provider.ProviderError: 502 Bad Gateway
"""


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
    purged: UUID
    spare: tuple[UUID, ...]
    worker: UUID
    lost_worker: UUID
    draining_worker: UUID
    bulk: UUID


def add_operators(conn: Conn) -> None:
    """Add one operator of each role, and a second one who acts."""
    for code, role in CODES.items():
        by = "setup:root" if code == "ops:root" else "ops:root"
        operators.add(
            conn, code, role, PASSWORD, by=by, reason="first_operators", via="cli:root@shop-1"
        )


def stage(
    conn: Conn, *, completed: int = 118, given: Mapping[str, object] = GIVEN, hostile: bool = True
) -> Scene:
    """Bring about one job of every kind, on an owner's connection in autocommit.

    Acts come about in the order of their times, which `night` sets afterwards. `hostile` is
    whether names, errors and what is declared of a handler mean ill, too.
    """
    _jobs = declared()
    conn.execute("SET synchronous_commit = off")
    at: night.Times = {}
    gone = Shop(conn, host="pay-1", pid=977, given=given)
    shop = Shop(conn, given=given)
    other = Shop(conn, host="mail-2", pid=30_551, given=given)
    _declare(conn, gone, other, shop)
    purged = _purged(conn)
    seals.seal(conn)
    told = _told(conn, shop, at)
    bulk = _at_once(conn, shop, at)
    seals.seal(conn)
    retrying, later, ready, cancelled = _queued(conn, shop, at)
    _plan(conn, at, hostile=hostile)
    failed, uncertain, bad, *spare = _to_failed(shop, at, hostile=hostile)
    draining = _leave(conn, shop, at)
    seals.seal(conn)
    review, crashed, disputed, unreadable = _to_review(conn, shop, gone, at)
    done = _completed(conn, shop, completed)
    seals.seal(conn)
    running, stopping = other.ask("sync_stock", "stock", 2)
    other.claim([running, stopping])
    at[running], at[stopping] = Past(26.2, (Attempt(26),)), Past(26.1, (Attempt(25.9),))
    night.fall(conn, at)
    cancel(conn, [stopping], by="ops:bob", reason="takes_too_long", via=VIA)
    return Scene(
        review, crashed, disputed, unreadable, failed, uncertain, bad, told,
        retrying, later, ready, running, stopping, done, cancelled, purged,
        tuple(spare), other.worker, gone.worker, draining, bulk,
    )  # fmt: skip


def _declare(conn: Conn, gone: Shop, other: Shop, shop: Shop) -> None:
    """Say what each worker handles; the shop's own one says it last."""
    handlers.declare(conn, gone.worker, HANDLERS)
    handlers.declare(conn, other.worker, HANDLERS[2:])
    handlers.declare(conn, shop.worker, HANDLERS)


def _purged(conn: Conn) -> UUID:
    """Return a job of a week ago that retention has deleted: its act is all that is left."""
    asked = datetime.now(UTC) - timedelta(days=9)
    job = UUID(
        int=int(asked.timestamp() * 1_000) << 80 | 0x7 << 76 | 0xB1D << 64 | 0x92F9C41D07AE3D58
    )
    conn.execute(
        "INSERT INTO countersign.acts (by, act, subject_kind, subject_id, subject_name, attempt,"
        " reason, note, via) VALUES ('ops:bob', 'retried', 'job', %s, 'send_invoice', 1,"
        " 'provider_outage', 'The mail server is back since noon.', %s)",
        [job, VIA],
    )
    return job


def _told(conn: Conn, shop: Shop, at: night.Times) -> UUID:
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
                "They refused references with a slash, and say it is mended.\nOurs has one.",
            ),
        ],
        start=1,
    ):
        shop.claim([job])
        shop.end(job, error, attempt=attempt)
        retry(conn, [job], by=by, reason=reason, note=note, via=VIA)
    shop.claim([job])
    shop.end(job, Failed("timed out after 30s", outcome="timed_out"), attempt=3)
    tries = (Attempt(185, 184.96), Attempt(151.3, 151.27), Attempt(98.5, 98))
    at[job] = Past(185.02, tries, acts=(151.37, 98.62))
    return job


def _at_once(conn: Conn, shop: Shop, at: night.Times) -> UUID:
    """Cancel three jobs in one commit; return what they share."""
    bulk_id, jobs = uuid4(), shop.ask("sync_stock", "stock", 3)
    note = "The warehouse counts again tonight."
    how: dict[str, Any] = {"by": "ops:bob", "reason": "duplicate", "note": note}
    cancel(conn, jobs, **how, bulk_id=bulk_id, via=VIA)
    at |= {job: Past(93, acts=(90.43,)) for job in jobs}
    return bulk_id


def _queued(conn: Conn, shop: Shop, at: night.Times) -> list[UUID]:
    (retrying,) = shop.ask("sync_stock", "stock", attempts=3)
    shop.claim([retrying], attempts=3)
    shop.end(retrying, Failed("TimeoutError: the warehouse did not answer"), wait=5_400.0)
    (later,) = shop.ask("export_ledger", "reports", delay=9_000.0)
    ready = shop.ask("send_invoice", "mail", 4)
    (cancelled,) = shop.ask("resize_image", "media")
    cancel(conn, [cancelled], by="ops:alice", reason="no_longer_needed", via=VIA)
    at |= {job: Past(1.7 - each / 3) for each, job in enumerate(ready)}
    at[retrying], at[later] = Past(13, (Attempt(12.9, 12.4),)), Past(30)
    at[cancelled] = Past(77, acts=(75.8,))
    return [retrying, later, ready[0], cancelled]


def _plan(conn: Conn, at: night.Times, *, hostile: bool) -> None:
    """Schedules: one at work, a paused one, an archived one, and one of a hostile name."""
    tomorrow = datetime.now(UTC) + timedelta(hours=9)
    args = json.dumps(dict(GIVEN))
    later = [("nightly-report", 86_400.0), ("old-cleanup", 3_600.0)]
    later += [(NAUGHTY, 5_400.0)] if hostile else []
    planned = [
        Schedule(name, every, tomorrow, "export_ledger", "reports", args) for name, every in later
    ]
    tick_schedules(
        conn, [*planned, Schedule("stock-check", 900.0, None, "sync_stock", "checks", args)]
    )
    (made,) = conn.execute(
        "SELECT last_job FROM countersign.schedules WHERE name = 'stock-check'"
    ).fetchall()
    last = UUID(str(made["last_job"]))
    cancel(conn, [last], by="ops:bob", reason="duplicate", via=VIA)
    at[last] = Past(67, acts=(66.15,))
    pause_schedule(conn, "nightly-report", by="ops:alice", reason="provider_outage", via=VIA)
    conn.execute(
        "UPDATE countersign.schedules SET last_skip = 'its last job was running', "
        "last_skip_at = now() - interval '82 min' WHERE name = 'stock-check'"
    )
    conn.execute("UPDATE countersign.schedules SET archived_at = now() WHERE name = 'old-cleanup'")


def _leave(conn: Conn, shop: Shop, at: night.Times) -> UUID:
    """One worker has stopped, and one drains; a queue is paused, and a job waits in it."""
    fleet.stop(conn, Shop(conn, host="pay-2", pid=1_204).worker)
    identity = fleet.Identity(
        "mail-3", 8_110, "boot-3", "pid:[1]", "0.1.0", ["mail", "reports"], 4, "night shift"
    )
    pause_queue(
        conn, "reports", by="ops:bob", reason="maintenance", via=VIA,
        note="Until the ledger's disk is larger.",
    )  # fmt: skip
    (held,) = shop.ask("export_ledger", "reports")
    at[held] = Past(47)
    leaving = fleet.register(conn, identity)
    handlers.declare(conn, leaving, HANDLERS[1:2])
    fleet.drain(conn, leaving)
    return leaving


def _to_review(conn: Conn, shop: Shop, gone: Shop, at: night.Times) -> list[UUID]:
    review, crashed, disputed, unreadable = gone.ask("charge_card", "payments", 4)
    gone.claim([review, disputed], on_lost="review")
    successor = Shop(conn, host="pay-1", pid=1_033)
    handlers.declare(conn, successor.worker, HANDLERS[:1])
    conn.execute(
        "UPDATE countersign.workers SET lost_at = now(), lost_rule = 'same_host', lost_by = %s"
        " WHERE id = %s",
        [successor.worker, gone.worker],
    )
    recover(conn)
    release(conn, [disputed], by="ops:bob", reason="never_took_effect", via=VIA)
    dispute(conn, gone.worker, [RunReport(disputed, 1, Completed(), seconds=61.0)])
    shop.claim([crashed], on_lost="review")
    shop.end(crashed, Failed("crashed: signal 9", outcome="crashed", signal=9))
    shop.claim([unreadable])
    shop.end(unreadable, Unreadable("the arguments cannot be read as JSON here"))
    at[review] = Past(41.3, (Attempt(41.25, 41),))
    at[disputed] = Past(41.6, (Attempt(41.5, 41),), acts=(33.58,), late=32.4)
    at[crashed] = Past(29.1, (Attempt(29, 28.8),))
    at[unreadable] = Past(22.1, (Attempt(22, 21.99),))
    return [review, crashed, disputed, unreadable]


def add_hostile(shop: Shop) -> UUID:
    """Let a job fail whose name and error mean ill to whoever shows them."""
    handlers.declare(shop.conn, shop.worker, (*HANDLERS, NAUGHTY_HANDLER))
    (job,) = shop.ask(NAUGHTY, "mail")
    shop.claim([job])
    long = HOSTILE + " and so on" * 80
    shop.end(job, Failed(long, error_type=HOSTILE, error_place="shop:x", traceback=long * 9))
    return job


def _to_failed(shop: Shop, at: night.Times, *, hostile: bool) -> list[UUID]:
    (failed,) = shop.ask("send_invoice", "mail")
    shop.claim([failed])
    shop.end(
        failed,
        Failed(
            "ValueError: no such address",
            error_type="ValueError",
            error_place="shop.mail:send_invoice",
        ),
    )
    bad = add_hostile(shop) if hostile else failed
    many = shop.ask("send_invoice", "mail", 6)
    shop.claim(many)
    refused = Failed(
        "ConnectionRefusedError: smtp.shop.example did not answer on port 587",
        error_type="ConnectionRefusedError",
    )
    for job in many:
        shop.end(job, refused)
    (uncertain,) = shop.ask("export_ledger", "reports")
    shop.claim([uncertain])
    shop.end(uncertain, Failed("crashed: signal 11", outcome="crashed", signal=11))
    at |= {job: _shortly(131) for job in (failed, bad)}
    at |= {job: _shortly(12 - each * 0.6) for each, job in enumerate(many)}
    at[uncertain] = Past(76, (Attempt(75.9, 71.3),))
    return [failed, uncertain, bad, *many]


def _completed(conn: Conn, shop: Shop, count: int) -> UUID:
    """Send mails and resize images, at most a thousand at a time; return the last."""
    done: list[UUID] = []
    whole = [("resize_image", "media", min(1_000, count - n)) for n in range(0, count, 1_000)]
    for name, queue, number in [("send_invoice", "mail", count // 20), *whole]:
        done = shop.ask(name, queue, number)
        shop.claim(done)
        reports = [RunReport(job, 1, Completed('{"bytes": 48211}'), seconds=2.4) for job in done]
        complete(conn, shop.worker, reports)
    return done[-1]


def _shortly(minutes: float) -> Past:
    """A job that failed 12 seconds after it was asked for."""
    return Past(minutes + 0.2, (Attempt(minutes + 0.1, minutes),))
