"""Promise 7: arguments stay private. A canary in them is looked for in all that anybody sees."""

import logging
import traceback
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import conninfo
from pydantic import BaseModel, field_validator

from queue_core import (
    ArgumentsError,
    Client,
    CountersignError,
    NewJob,
    cancel,
    enqueue,
    enqueue_many,
    enqueue_signed,
)
from queue_core.jobs import decode, encode
from queue_core.outcomes import Completed, Failed, RunReport, Unreadable
from queue_core.queries.counts import capped_counts, counts
from queue_core.queries.facts import job
from queue_core.queries.jobs import list_jobs
from queue_core.queries.overview import overview
from queue_core.queries.places import locate
from queue_core.queries.queues import list_queues
from queue_core.queries.runs import runs_of
from queue_core.states import STATES
from queue_core.transitions.claim import Claimable, claim
from queue_core.transitions.complete import complete
from queue_core.worker.execute import execute
from queue_core.worker.messages import JobMessage
from tests.conftest import CANARY
from tests.hostile import HOSTILE


@pytest.fixture(autouse=True)
def everything_is_logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Log all there is to log, ours and the driver's, and look for the canary in the end."""
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.DEBUG, logger="psycopg")
    yield
    assert CANARY not in caplog.text


def told(error: BaseException) -> str:
    """Return all that a traceback prints of an error, with causes, contexts and notes."""
    return "".join(traceback.format_exception(error)) + repr(error) + str(vars(error))


def refusal(call: Callable[[], object]) -> CountersignError | None:
    """Return the error of ours that a call raises, if any."""
    try:
        call()
    except CountersignError as error:
        return error
    return None


class Private(BaseModel):
    address: str

    @field_validator("address")
    @classmethod
    def check(cls, value: str) -> str:
        raise ValueError(f"{value} is no address")


class Rude(BaseModel):
    address: str

    @field_validator("address")
    @classmethod
    def check(cls, value: str) -> str:
        return {"known": "address"}[value]


@pytest.fixture(params=["as a mapping", "as text", "refused", "looked up"])
def handler(request: pytest.FixtureRequest, registry: Any) -> Callable[..., object]:
    """Declare `mail.send` with handlers that look at their arguments in their own ways."""

    def mapping(run: object, **values: object) -> None: ...
    def text(run: object, address: str) -> None: ...
    def refused(run: object, address: Private) -> None: ...
    def looked_up(run: object, address: Rude) -> None: ...

    chosen = {"as a mapping": mapping, "as text": text, "refused": refused, "looked up": looked_up}
    return registry.job("mail.send")(chosen[request.param])


@pytest.mark.parametrize("args", [args for args, _ in HOSTILE.values()], ids=HOSTILE)
def test_no_refusal_of_hostile_arguments_gives_them_away(conn, handler, args: Any) -> None:
    calls: list[Callable[[], object]] = [
        lambda: enqueue(conn, handler, args),
        lambda: enqueue_many(conn, [NewJob("mail.send", args)]),
        lambda: enqueue_signed(conn, NewJob("mail.send", args), by="ops:alice", reason="asked"),
    ]
    for call in calls:
        with pytest.raises(ArgumentsError) as refused:
            call()
        assert CANARY not in told(refused.value)


@pytest.mark.parametrize(
    "args",
    [
        {"address": {"address": CANARY}},
        {"address": [CANARY]},
        {CANARY[:3]: CANARY},
        {"address": CANARY},
    ],
)
def test_no_refusal_of_arguments_that_do_not_fit_gives_them_away(conn, handler, args) -> None:
    refused = refusal(lambda: enqueue(conn, handler, args))
    assert refused is None or CANARY not in told(refused)


@pytest.mark.parametrize("poison", ['"\\u0000"', '"\\ud800"', '"', "1e999999999", "NaN"])
def test_what_the_database_alone_refuses_does_not_give_it_away(
    conn, registry, monkeypatch, poison
) -> None:
    body = f'{{"address": "{CANARY}", "other": {poison}}}'
    monkeypatch.setattr("queue_core.registry.encode", lambda *_: body)
    monkeypatch.setattr("queue_core.registry.decode", lambda *_: {})
    refused = refusal(lambda: enqueue(conn, "mail.send"))
    assert refused
    assert CANARY not in told(refused)


LOGGED = "ALTER DATABASE {name} SET log_parameter_max_length_on_error = -1"


def failing(database: Any, break_it: str) -> psycopg.Connection[Any]:
    database.owner().execute(break_it)
    conn = database.connect()
    conn.execute("SET statement_timeout = '300ms'")
    return conn


@pytest.mark.parametrize(
    "break_it",
    [
        "ALTER TABLE countersign.jobs ADD CONSTRAINT never CHECK (priority > 99)",
        "ALTER TABLE countersign.jobs ADD COLUMN extra int NOT NULL",
        "DROP TABLE countersign.jobs CASCADE",
        "REVOKE INSERT ON countersign.jobs FROM countersign_runtime",
        "ALTER DATABASE {name} SET default_transaction_read_only = on",
        f"{LOGGED}; REVOKE INSERT ON countersign.ready FROM countersign_runtime",
        f"{LOGGED}; ALTER TABLE countersign.ready ADD COLUMN extra int NOT NULL",
    ],
    ids=["check", "not null", "no table", "no right", "read only", "logged", "logged row"],
)
def test_no_failure_of_an_enqueue_gives_its_arguments_away(
    database, registry, break_it: str
) -> None:
    name = conninfo.conninfo_to_dict(database.url)["dbname"]
    conn = failing(database, break_it.format(name=name))
    with pytest.raises((psycopg.Error, CountersignError)) as failed:
        enqueue(conn, "mail.send", {"address": CANARY})
    assert CANARY not in told(failed.value)
    with Client(database.url) as client, pytest.raises((psycopg.Error, CountersignError)) as failed:
        client.enqueue("mail.send", {"address": CANARY})
    assert CANARY not in told(failed.value)


def test_the_servers_own_log_holds_no_arguments(conn, registry, migrated, monkeypatch) -> None:
    monkeypatch.setattr(
        "queue_core.registry.encode", lambda *_: f'{{"address": "{CANARY}\\u0000"}}'
    )
    monkeypatch.setattr("queue_core.registry.decode", lambda *_: {})
    with pytest.raises(ArgumentsError):
        enqueue(conn, "mail.send")
    sockets = conninfo.conninfo_to_dict(migrated.url)["host"]
    logs = [*Path(str(sockets)).parent.glob("*.log*"), *Path(str(sockets)).parent.glob("*/*.log*")]
    assert logs
    assert not [log for log in logs if CANARY.encode() in log.read_bytes()]


def test_nothing_that_a_job_passes_through_shows_its_arguments(conn, registry, make_worker) -> None:
    asked = NewJob("mail.send", {"address": CANARY}, queue="private")
    enqueued = enqueue_many(conn, [asked, asked, asked])
    worker = make_worker(conn)
    runs = claim(conn, worker=worker, names=[Claimable("mail.send")], count=2)
    endings = [Completed(f'"{CANARY}"'), Failed(CANARY, traceback=CANARY), Unreadable(CANARY)]
    reports = [RunReport(runs[0].id, 1, ending) for ending in endings]
    outcomes = cancel(conn, [each.id for each in enqueued], by="ops:alice", reason="asked")
    moved = complete(conn, worker, reports[:1])
    ids = [each.id for each in enqueued]
    shown = repr((asked, enqueued, runs, endings, reports, outcomes, moved, registry.handlers))
    assert CANARY not in shown
    assert CANARY not in str(asked) + str(runs) + str(endings)
    read = [
        locate(conn, ids),
        [job(conn, each) for each in ids],
        [runs_of(conn, each) for each in ids],
    ]
    read += [list_jobs(conn, state) for state in STATES]
    read += [counts(conn), capped_counts(conn), overview(conn), list_queues(conn)]
    assert CANARY not in repr(read)


def test_a_run_whose_arguments_no_longer_fit_says_nothing_of_them(registry) -> None:
    def send(run: object, number: int, private: Private | None = None) -> None: ...

    registry.job("mail.send")(send)
    for args in (
        {"number": CANARY},
        {"number": 1, "private": {"address": CANARY}},
        {"number": 1, "other": CANARY},
        {"number": 1, "private": CANARY},
    ):
        message = JobMessage(uuid.UUID(int=0), "mail.send", 1, encode("mail.send", args))
        ending = execute(message, registry)
        assert isinstance(ending, Failed)
        assert CANARY not in ending.error + (ending.traceback or "") + repr(ending) + repr(message)


def test_what_cannot_be_read_is_not_repeated() -> None:
    for text in (f'{{"a": "{CANARY}', f'["{CANARY}"]', f'"{CANARY}"', f"{CANARY}"):
        with pytest.raises(ValueError, match="arguments") as refused:
            decode(text)
        assert CANARY not in told(refused.value)
