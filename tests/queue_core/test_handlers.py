"""What workers declare of the names they handle."""

from typing import Any

import pytest

from queue_core import OptionError, handlers
from queue_core.handlers import Declared

FULL = Declared(
    "mail.send", "mail", 3, 2.5, "review", True, 4,
    "Sends a letter.\nOne per order.", "Search the outbox.", "shop team", "https://run.example/mail",
)  # fmt: skip
ROW = "SELECT handlers.*, now() AS now FROM countersign.handlers WHERE name = %s"
AGED = "UPDATE countersign.handlers SET first_declared_at = 'epoch', declared_at = 'epoch'"


def row(conn, name: str = "mail.send") -> dict[str, Any]:
    return conn.execute(ROW, [name]).fetchone()


def handles(conn, worker) -> list[str]:
    query = "SELECT handles FROM countersign.workers WHERE id = %s"
    return conn.execute(query, [worker]).fetchone()["handles"]


def test_a_worker_says_how_its_code_declares_each_name(conn, make_worker) -> None:
    worker = make_worker(conn)
    handlers.declare(conn, worker, [FULL, Declared("audit.file", "default")])
    kept = row(conn)
    assert (kept["queue"], kept["attempts"], kept["time_limit"]) == ("mail", 3, 2.5)
    assert (kept["on_lost"], kept["safe_to_repeat"], kept["most_at_once"]) == ("review", True, 4)
    assert (kept["effects"], kept["how_to_check"]) == (FULL.effects, FULL.how_to_check)
    assert (kept["owner"], kept["runbook"]) == (FULL.owner, FULL.runbook)
    assert (kept["declared_by"], kept["declared_at"]) == (worker, kept["now"])
    assert row(conn, "audit.file")["effects"] is None
    assert handles(conn, worker) == ["mail.send", "audit.file"]


def test_the_last_worker_to_say_so_counts_and_the_first_time_is_kept(conn, make_worker) -> None:
    first, second = make_worker(conn), make_worker(conn)
    handlers.declare(conn, first, [FULL])
    conn.execute(AGED)
    handlers.declare(conn, second, [Declared("mail.send", "default")])
    kept = row(conn)
    assert (kept["queue"], kept["attempts"], kept["time_limit"]) == ("default", 1, None)
    assert (kept["on_lost"], kept["safe_to_repeat"], kept["most_at_once"]) == (
        "attempts",
        False,
        None,
    )
    assert [kept[each] for each in ("effects", "how_to_check", "owner", "runbook")] == [None] * 4
    assert (kept["declared_by"], kept["declared_at"]) == (second, kept["now"])
    assert kept["first_declared_at"].year == 1970


def test_a_name_that_the_code_has_no_more_is_kept_and_not_handled(conn, make_worker) -> None:
    worker = make_worker(conn)
    handlers.declare(conn, worker, [FULL])
    handlers.declare(conn, worker, [])
    assert row(conn)
    assert handles(conn, worker) == []


@pytest.mark.parametrize(
    "fault",
    [
        {"name": ""},
        {"queue": "a\0b"},
        {"effects": " "},
        {"how_to_check": "x" * 501},
        {"owner": "\u202eabc"},
        {"runbook": "\ud800"},
    ],
)
def test_what_the_table_would_not_take_is_refused_before(fault) -> None:
    with pytest.raises(OptionError):
        Declared(**{"name": "a", "queue": "q", **fault})
