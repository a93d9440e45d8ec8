"""Handlers: what a name is, who handles it now, and names that nobody handles."""

from datetime import UTC, datetime

import pytest

from queue_core import enqueue, fleet, handlers
from queue_core.handlers import Declared
from queue_core.queries.handlers import (
    MOST_UNHANDLED,
    SILENT_SECONDS,
    HandlerPage,
    handled_by,
    handler,
    list_handlers,
    unhandled,
)
from tests.conftest import CANARY

LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)
MAIL = Declared("mail.send", "mail", 3, 2.5, "review", True, 4, "a", "b", "c", "d")


@pytest.fixture
def worker_of(conn):
    """Give a function that registers a worker of some queues (none: of all) with its names."""

    def register(*names, queues=()):
        worker = fleet.register(
            conn, fleet.Identity("pay-3", 1, "boot-1", "pid:[1]", "0.1.0", list(queues), 4)
        )
        handlers.declare(conn, worker, [Declared(each, "default") for each in names])
        return worker

    return register


def ask(conn, queue="mail", **options):
    return enqueue(conn, "mail.send", {"address": CANARY}, queue=queue, **options).id


def test_a_name_is_told_as_it_was_declared(conn, make_worker) -> None:
    worker = make_worker(conn)
    handlers.declare(conn, worker, [MAIL])
    found = handler(conn, "mail.send")
    assert found
    assert (found.name, found.queue, found.attempts, found.time_limit) == (
        "mail.send",
        "mail",
        3,
        2.5,
    )
    assert (found.on_lost, found.safe_to_repeat, found.limit) == ("review", True, 4)
    assert (found.effects, found.how_to_check, found.owner, found.runbook) == tuple("abcd")
    assert found.first_declared_at == found.declared_at
    assert (found.declared_by, found.workers) == (worker, 1)


def test_a_name_that_no_worker_ever_declared_is_none(conn) -> None:
    assert handler(conn, "mail.send") is None
    assert list_handlers(conn) == HandlerPage([], None, None)


SILENCE = "UPDATE countersign.workers SET beat_at = now() - make_interval(secs => %s) WHERE id = %s"


def test_who_stopped_was_lost_drains_or_is_silent_handles_nothing(conn, worker_of) -> None:
    stopped, lost, draining, silent, heard = (worker_of("mail.send") for _ in range(5))
    fleet.stop(conn, stopped)
    fleet.give_up(conn, lost)
    fleet.drain(conn, draining)
    conn.execute(SILENCE, [SILENT_SECONDS + 1, silent])
    conn.execute(SILENCE, [SILENT_SECONDS - 1, heard])
    found = handler(conn, "mail.send")
    assert found
    assert found.workers == 1


def test_handlers_come_by_name_a_page_at_a_time_and_back(conn, worker_of) -> None:
    worker_of("b", "d", "a", "e", "c")
    first = list_handlers(conn, size=2)
    second = list_handlers(conn, after=first.after or "", size=2)
    third = list_handlers(conn, after=second.after or "", size=2)
    back = list_handlers(conn, before=third.before, size=2)
    pages = [[row.name for row in page.rows] for page in (first, second, third, back)]
    assert pages == [["a", "b"], ["c", "d"], ["e"], ["c", "d"]]
    assert (first.before, third.after) == (None, None)
    assert (back.before, back.after) == ("c", "d")
    assert list_handlers(conn, before=back.before, size=2) == HandlerPage(first.rows, None, "b")


def test_ready_jobs_whose_name_nobody_handles_are_told_with_their_oldest(conn, registry) -> None:
    ask(conn, "mail", priority=5)
    ask(conn, "mail", run_at=LONG_AGO)
    (found,) = unhandled(conn)
    assert (found.name, found.queue, found.oldest_ready_at) == ("mail.send", "mail", LONG_AGO)


def test_what_is_due_and_was_never_promoted_counts_as_ready(conn, registry, job_in) -> None:
    due = job_in(conn, "due")
    job_in(conn, "waiting")
    assert [(each.name, each.queue) for each in unhandled(conn)] == [("mail.send", due.queue)]


def test_a_name_that_a_live_worker_handles_is_not_told(conn, registry, worker_of) -> None:
    ask(conn)
    worker_of("mail.send")
    assert unhandled(conn) == []


def test_a_worker_of_other_queues_handles_it_there_alone(conn, registry, worker_of) -> None:
    ask(conn, "mail")
    ask(conn, "slow")
    worker_of("mail.send", queues=["slow", "fast"])
    worker_of("audit.file")
    assert [each.queue for each in unhandled(conn)] == ["mail"]


def test_a_worker_that_has_not_said_yet_may_handle_all_of_its_queues(
    conn, registry, make_worker
) -> None:
    ask(conn, "mail")
    ask(conn, "slow")
    fleet.register(conn, fleet.Identity("old-1", 1, "b", "p", "0.0.9", ["slow"], 4))
    assert [each.queue for each in unhandled(conn)] == ["mail"]
    make_worker(conn)
    assert unhandled(conn) == []


def test_one_name_is_looked_for_alone(conn, registry, worker_of) -> None:
    ask(conn)
    worker_of("audit.file")
    assert [each.queue for each in unhandled(conn, "mail.send")] == ["mail"]
    assert unhandled(conn, "audit.file") == []


def test_who_handles_a_name_is_told_with_their_queues(conn, worker_of) -> None:
    first, second = worker_of("mail.send", queues=["slow"]), worker_of("mail.send", "audit.file")
    worker_of("audit.file")
    fleet.drain(conn, worker_of("mail.send"))
    found = handled_by(conn, "mail.send")
    assert [(each.id, each.name, each.queues) for each in found] == [
        (first, "pay-3", ["slow"]),
        (second, "pay-3", []),
    ]
    assert [each.id for each in handled_by(conn, "mail.send", most=1)] == [first]


@pytest.mark.parametrize("end", [fleet.stop, fleet.give_up, fleet.drain])
def test_once_its_last_worker_is_gone_a_name_is_told(conn, registry, worker_of, end) -> None:
    ask(conn)
    end(conn, worker_of("mail.send"))
    assert [each.name for each in unhandled(conn)] == ["mail.send"]


def test_the_longest_ready_come_first_and_not_all_of_them(conn, registry) -> None:
    for number in range(MOST_UNHANDLED):
        ask(conn, f"q{number:02}")
    ask(conn, "q50", run_at=LONG_AGO)
    found = [each.queue for each in unhandled(conn)]
    assert found == ["q50", *(f"q{number:02}" for number in range(MOST_UNHANDLED - 1))]
