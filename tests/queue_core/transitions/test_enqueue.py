"""Enqueue: in the caller's transaction or not at all, in order, arguments checked first."""

import enum
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise
from typing import Any
from uuid import UUID

import psycopg
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from psycopg import ClientCursor, IsolationLevel, RawCursor, ServerCursor
from psycopg.rows import args_row, dict_row, kwargs_row, namedtuple_row, scalar_row, tuple_row

from queue_core import (
    ArgumentsError,
    ContendedError,
    CountersignError,
    NewJob,
    OptionError,
    Registry,
    SchemaError,
    UnknownNameError,
    enqueue,
    enqueue_many,
    enqueue_signed,
)
from queue_core.jobs import decode
from queue_core.queries.places import locate
from queue_core.transitions.enqueue import MOST_PER_STATEMENT
from tests.conftest import CANARY
from tests.hostile import HOSTILE, Catalogue

BODY = "SELECT jobs.* FROM countersign.jobs WHERE jobs.id = %s"
PLACED = """
SELECT 'ready' AS place, ready.* FROM countersign.ready WHERE ready.id = %(id)s
UNION ALL
SELECT 'waiting', waiting.* FROM countersign.waiting WHERE waiting.id = %(id)s
"""
HOW_MANY = "SELECT count(*) AS jobs FROM countersign.jobs WHERE %s IN (jobs.name, jobs.queue)"


@pytest.fixture(autouse=True)
def anything(registry: Registry) -> Callable[..., object]:
    """Declare `note`, whose handler takes whatever it is given."""

    @registry.job("note", queue="notes", attempts=7, time_limit=12)
    def note(run: object, /, **values: object) -> None:
        del run, values

    return note


def asked_and_signed(conn: psycopg.Connection[Any], name: str) -> object:
    return enqueue_signed(conn, NewJob(name), by="ops:alice", reason="asked")


def asked_in_two_statements(conn: psycopg.Connection[Any], name: str) -> object:
    return enqueue_many(conn, [NewJob(name)] * (MOST_PER_STATEMENT + 1))


def body(conn: psycopg.Connection[dict[str, Any]], job: UUID) -> dict[str, Any]:
    (row,) = conn.execute(BODY, [job]).fetchall()
    return row


def placed(conn: psycopg.Connection[dict[str, Any]], job: UUID) -> dict[str, Any]:
    (row,) = conn.execute(PLACED, {"id": job}).fetchall()
    return row


def how_many(conn: psycopg.Connection[dict[str, Any]], name_or_queue: str = "note") -> int:
    (row,) = conn.execute(HOW_MANY, [name_or_queue]).fetchall()
    return row["jobs"]


# What is written


def test_a_job_keeps_what_was_asked_and_stands_ready(conn) -> None:
    enqueued = enqueue(
        conn, "note", {"path": "/a"}, queue="slow", priority=5, attempts=3, time_limit=2.5
    )
    assert enqueued.created
    row = body(conn, enqueued.id)
    now = row.pop("created_at")
    assert row == {
        "id": enqueued.id,
        "name": "note",
        "queue": "slow",
        "args": {"path": "/a"},
        "priority": 5,
        "attempts": 3,
        "time_limit": 2.5,
        "schedule": None,
    }
    assert placed(conn, enqueued.id) == {
        "place": "ready",
        "id": enqueued.id,
        "queue": "slow",
        "name": "note",
        "rank": -5,
        "run_at": now,
        "attempt": 0,
        "attempts_allowed": 3,
    }


def test_options_left_out_stay_open_until_the_run_but_the_queue_is_the_names(conn) -> None:
    job = enqueue(conn, "note").id
    row = body(conn, job)
    assert (row["args"], row["queue"], row["priority"]) == ({}, "notes", 0)
    assert (row["attempts"], row["time_limit"]) == (None, None)
    assert placed(conn, job)["attempts_allowed"] is None


def test_a_job_is_found_by_its_handler_too(conn, anything) -> None:
    assert body(conn, enqueue(conn, anything, {"a": 1}).id)["name"] == "note"


def test_the_same_job_twice_is_two_jobs(conn) -> None:
    first, second = enqueue(conn, "note", {"a": 1}), enqueue(conn, "note", {"a": 1})
    assert first.created
    assert second.created
    assert first.id != second.id


def test_one_asked_for_job_may_be_given_many_times(conn) -> None:
    job = NewJob("note", {"a": 1})
    made = enqueue_many(conn, [job] * 5)
    assert len({each.id for each in made}) == 5


@pytest.mark.parametrize("priority", [-32_768, -1, 0, 1, 32_767])
def test_rank_is_the_priority_turned_round_to_either_end(conn, priority: int) -> None:
    job = enqueue(conn, "note", priority=priority).id
    assert body(conn, job)["priority"] == priority
    assert placed(conn, job)["rank"] == -priority


# When


def test_a_delay_is_counted_on_the_databases_clock(conn) -> None:
    job = enqueue(conn, "note", delay=90.25).id
    row = placed(conn, job)
    now = body(conn, job)["created_at"]
    assert (row["place"], row["run_at"] - now) == ("waiting", timedelta(seconds=90.25))


def test_no_delay_and_none_are_the_same(conn) -> None:
    for delay in (None, 0, 0.0):
        assert placed(conn, enqueue(conn, "note", delay=delay).id)["place"] == "ready"


@pytest.mark.parametrize(
    "zone", [UTC, timezone(timedelta(hours=9)), timezone(timedelta(hours=-3, minutes=-30))]
)
def test_a_time_is_kept_as_the_instant_it_is_in_any_zone(conn, zone) -> None:
    later = datetime(2100, 1, 1, 12, 0, 0, 123_456, tzinfo=UTC)
    earlier = datetime(2001, 1, 1, tzinfo=UTC)
    conn.execute("SET LOCAL TimeZone = 'Asia/Tokyo'")
    future = placed(conn, enqueue(conn, "note", run_at=later.astimezone(zone)).id)
    past = placed(conn, enqueue(conn, "note", run_at=earlier.astimezone(zone)).id)
    assert (future["place"], future["run_at"]) == ("waiting", later)
    assert (past["place"], past["run_at"]) == ("ready", earlier)


@pytest.mark.parametrize("run_at", [datetime(1970, 1, 1), datetime(9998, 12, 31, 23, 59, 59)])  # noqa: DTZ001
@pytest.mark.parametrize("hours", [-12, 14])
def test_the_ends_of_time_can_be_read_back_in_any_zone(conn, run_at, hours) -> None:
    moment = run_at.replace(tzinfo=timezone(timedelta(hours=hours)))
    job = enqueue(conn, "note", run_at=moment).id
    for zone in ("UTC", "Pacific/Kiritimati", "Etc/GMT+12"):
        conn.execute("SELECT set_config('TimeZone', %s, true)", [zone])
        assert placed(conn, job)["run_at"] == moment


def test_a_naive_time_is_refused_wherever_the_process_is(conn, monkeypatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    with pytest.raises(OptionError, match="time zone"):
        enqueue(conn, "note", run_at=datetime(2026, 1, 1))  # noqa: DTZ001
    assert how_many(conn) == 0


# What is refused


@pytest.mark.parametrize(("args", "field"), HOSTILE.values(), ids=HOSTILE)
def test_hostile_arguments_insert_nothing_and_spare_the_transaction(
    conn, args: Any, field: str
) -> None:
    before = enqueue(conn, "note").id
    with pytest.raises(ArgumentsError) as refused:
        enqueue_many(conn, [NewJob("note"), NewJob("note", args)])
    assert list(refused.value.fields) == [field]
    assert CANARY not in str(refused.value)
    assert how_many(conn) == 1
    assert locate(conn, [before])[before].state == "ready"


def test_arguments_that_do_not_fit_the_handler_insert_nothing(conn) -> None:
    for args, field in [({"adress": 1}, "adress"), ({"address": 1}, "address")]:
        with pytest.raises(ArgumentsError) as refused:
            enqueue(conn, "mail.send", args)
        assert list(refused.value.fields) == [field]
    assert how_many(conn, "mail.send") == 0


def test_a_name_that_nobody_declared_inserts_nothing(conn) -> None:
    with pytest.raises(UnknownNameError) as refused:
        enqueue_many(conn, [NewJob("note"), NewJob("mail.sent")])
    assert refused.value.nearest == ("mail.send",)
    assert how_many(conn) == 0


def test_bad_options_of_one_job_are_refused_before_anything_is_asked(conn) -> None:
    with pytest.raises(OptionError):
        enqueue(conn, "note", priority=2**31)
    with pytest.raises(OptionError):
        enqueue(conn, "note", delay=float("nan"))
    assert conn.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


class Tint(str, enum.Enum):  # noqa: UP042 - what people have written for years
    RED = "red"


def test_arguments_are_checked_as_the_run_will_get_them(conn, registry) -> None:
    class Crate(dict[str, object]):
        pass

    @registry.job("paint")
    def paint(run: object, tint: Tint, size: float, crate: Crate | None = None) -> None:
        del run, tint, size, crate

    job = enqueue(conn, "paint", {"tint": Tint.RED, "size": 1e23}).id
    assert decode(body_text(conn, job)) == {"tint": "red", "size": 1e23}
    with pytest.raises(ArgumentsError) as refused:
        enqueue(conn, "paint", {"tint": Tint.RED, "size": 1, "crate": Crate(a=1)})
    assert list(refused.value.fields) == ["crate"]  # it would be a plain dict by then


def test_a_mapping_that_changes_as_it_is_read_is_kept_as_it_was_checked(conn, registry) -> None:
    args = Catalogue({"address": "a@b.c"}, {"address": 7, "other": 1}, {"address": None})
    assert body(conn, enqueue(conn, "mail.send", args).id)["args"] == {"address": "a@b.c"}


def body_text(conn: psycopg.Connection[dict[str, Any]], job: UUID) -> str:
    query = "SELECT jobs.args::text AS args FROM countersign.jobs WHERE jobs.id = %s"
    (row,) = conn.execute(query, [job]).fetchall()
    return row["args"]


leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=-(10**4_400), max_value=10**4_400)
    | st.floats()
    | st.text()
    | st.characters()
)
values: st.SearchStrategy[Any] = st.recursive(
    leaves,
    lambda inner: st.lists(inner) | st.tuples(inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)


def as_read(value: Any) -> Any:
    """Return a value as it comes back: tuples as lists, keys in an order of their own."""
    match value:
        case list() | tuple():
            return [as_read(each) for each in value]
        case dict():
            return sorted((key, as_read(each)) for key, each in value.items())
        case float():
            return ("float", value + 0.0)  # numeric knows no minus zero; they are equal
        case _:
            return (type(value).__name__, value)


@given(st.dictionaries(st.text(), values))
@example({"a": [1e16, 1e23, 1.7976931348623157e308, 5e-324, -0.0, 0.1]})
@example({"a": {"": {"%s": "\\u0000 \\ud800"}}})
@settings(
    max_examples=100,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_any_json_comes_back_from_postgres_the_same_or_is_refused(conn, args: Any) -> None:
    try:
        job = enqueue(conn, "note", args).id
    except ArgumentsError:
        return
    assert as_read(decode(body_text(conn, job))) == as_read(args)


@given(st.text(), st.text(), st.integers() | st.floats() | st.none(), st.integers() | st.floats())
@settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_any_option_is_taken_or_refused_with_our_own_error(
    conn, name: str, queue: str, delay: Any, priority: Any
) -> None:
    try:
        enqueue(conn, name, queue=queue or None, delay=delay, priority=priority)
        enqueue(conn, "note", queue=queue or None, delay=delay, priority=priority)
    except CountersignError:
        pass
    assert conn.info.transaction_status != psycopg.pq.TransactionStatus.INERROR


def test_text_that_the_connections_encoding_lacks_is_refused_without_it(conn) -> None:
    conn.execute("SET LOCAL client_encoding = 'latin1'")
    assert body_text(conn, enqueue(conn, "note", {"a": "é"}).id) == '{"a": "é"}'
    with pytest.raises(ArgumentsError) as refused:
        enqueue(conn, "note", {"a": f"ж{CANARY}"})
    assert refused.value.__suppress_context__
    assert how_many(conn) == 1


def test_what_postgres_alone_refuses_is_our_error_without_the_value(conn, monkeypatch) -> None:
    monkeypatch.setattr("queue_core.registry.encode", lambda *_: f'{{"a": "{CANARY}\\u0000"}}')
    with pytest.raises(ArgumentsError, match="cannot be stored by Postgres") as refused:
        enqueue(conn, "note")
    assert refused.value.__suppress_context__
    assert CANARY not in str(refused.value)


def test_a_table_that_takes_no_row_is_named_without_the_row(database, registry) -> None:
    database.owner().execute(
        "ALTER TABLE countersign.jobs ADD CONSTRAINT none_at_all CHECK (priority > 9)"
    )
    conn = database.connect()
    with pytest.raises(SchemaError) as refused:
        enqueue(conn, "note", {"a": CANARY})
    assert refused.value.__suppress_context__
    assert CANARY not in str(refused.value)
    assert how_many(conn) == 0


@pytest.mark.parametrize("ask", [enqueue, asked_and_signed, asked_in_two_statements])
def test_a_lock_that_others_keep_is_contention_and_inserts_nothing(database, registry, ask) -> None:
    conn, owner = database.connect(), database.owner(autocommit=False)
    conn.execute("SET lock_timeout = '50ms'")
    owner.execute("LOCK TABLE countersign.ready IN ACCESS EXCLUSIVE MODE")
    with pytest.raises(ContendedError) as contended:
        ask(conn, "note")
    assert contended.value.__suppress_context__
    owner.rollback()
    assert how_many(conn) == 0


# Many


def test_many_are_answered_in_the_order_given_with_ids_that_rise(conn) -> None:
    jobs = [NewJob("note", {"n": n}, priority=n % 7, delay=n % 3 or None) for n in range(2_500)]
    made = enqueue_many(conn, jobs)
    ids = [each.id for each in made]
    assert len(ids) == 2_500 > 2 * MOST_PER_STATEMENT
    assert all(earlier < later for earlier, later in pairwise(ids))
    rows = conn.execute("SELECT jobs.id, jobs.args FROM countersign.jobs").fetchall()
    kept = {row["id"]: row["args"]["n"] for row in rows}
    assert [kept[each] for each in ids] == list(range(2_500))


def test_ids_are_the_databases_and_tell_its_time(conn) -> None:
    query = "SELECT clock_timestamp() AS at"
    (before,) = conn.execute(query).fetchall()
    job = enqueue(conn, "note").id
    (after,) = conn.execute(query).fetchall()
    (made,) = conn.execute("SELECT countersign.made_at(%s) AS at", [job]).fetchall()
    assert job.version == 7
    millisecond = timedelta(milliseconds=1)
    assert before["at"] - millisecond <= made["at"] <= after["at"] + millisecond


def test_ids_of_one_session_rise_from_call_to_call(conn) -> None:
    ids = [enqueue(conn, "note").id for _ in range(200)]
    assert ids == sorted(ids)


def test_no_jobs_are_no_jobs(conn) -> None:
    assert enqueue_many(conn, []) == []
    assert enqueue_many(conn, iter(())) == []


def test_options_of_one_call_may_be_whole_or_not(conn) -> None:
    made = enqueue_many(
        conn,
        [
            NewJob("note", delay=5, time_limit=30, run_at=None),
            NewJob("note", delay=0.5, time_limit=2.5),
            NewJob("note", run_at=datetime(2100, 1, 1, tzinfo=UTC), attempts=2),
            NewJob("mail.send", priority=30_000),
        ],
    )
    assert [body(conn, each.id)["time_limit"] for each in made] == [30, 2.5, None, None]
    states = [placed(conn, each.id)["place"] for each in made]
    assert states == ["waiting", "waiting", "waiting", "ready"]


def written(conn: psycopg.Connection[dict[str, Any]], job: UUID) -> dict[str, Any]:
    """Return all that is written of a job, but for what tells it from another."""
    row, place = body(conn, job), placed(conn, job)
    del row["id"], place["id"]
    return row | place


def test_one_few_and_many_are_written_alike(conn, registry, anything) -> None:
    odd = "\\N\\t'\"$%s é\\"
    registry.job(odd)(anything)
    jobs = [
        NewJob("note", {"a": odd, odd: [odd, "\t\n\r\x07\u2028", 1e23, None, {}]}, priority=-7),
        NewJob(odd, queue="\\."),
        NewJob("note", delay=1 / 3, attempts=3),
        NewJob("note", delay=86_400, time_limit=0.1, queue="\\."),
        NewJob(
            "note", run_at=datetime(2100, 1, 1, 1, 1, 1, 1, tzinfo=timezone(timedelta(hours=9)))
        ),
        NewJob("note", run_at=datetime(1999, 1, 1, tzinfo=UTC), time_limit=1e-7),
    ]
    conn.execute("SET LOCAL TimeZone = 'Asia/Kathmandu'")
    conn.execute("SET LOCAL DateStyle = 'SQL, DMY'")
    few = enqueue_many(conn, jobs)
    many = enqueue_many(conn, [*jobs, *[NewJob("note")] * MOST_PER_STATEMENT])[: len(jobs)]
    single = [
        enqueue(
            conn, job.name, job.args, queue=job.queue, priority=job.priority, delay=job.delay,
            run_at=job.run_at, attempts=job.attempts, time_limit=job.time_limit,
        )
        for job in jobs
    ]  # fmt: skip
    conn.execute("SET LOCAL DateStyle = 'ISO'")
    rows = [[written(conn, each.id) for each in made] for made in (single, few, many)]
    assert rows[0] == rows[1] == rows[2]


def test_a_pipeline_takes_any_number(shared_database) -> None:
    conn = shared_database.connect()
    with conn.pipeline():
        made = enqueue_many(conn, [NewJob("note", {"n": n}) for n in range(1_001)])
        made += enqueue_many(conn, [NewJob("note")])
    assert len(locate(conn, [each.id for each in made])) == 1_002


@pytest.mark.parametrize("autocommit", [True, False])
@pytest.mark.parametrize("bad", [0, 1_700, 2_499])
def test_one_bad_job_of_many_inserts_none(shared_database, bad: int, autocommit) -> None:
    conn = shared_database.connect(autocommit=autocommit)
    line = f"bad-{bad}-{autocommit}"
    jobs = [NewJob("note", {"n": n}, queue=line) for n in range(2_500)]
    jobs[bad] = NewJob("note", {"n": "\0"}, queue=line)
    with pytest.raises(ArgumentsError):
        enqueue_many(conn, jobs)
    conn.commit()
    assert how_many(conn, line) == 0


@pytest.mark.parametrize("autocommit", [True, False])
def test_what_postgres_refuses_of_the_last_thousand_takes_the_first_back(
    shared_database,
    monkeypatch,
    autocommit,
) -> None:
    conn = shared_database.connect(autocommit=autocommit)
    other = shared_database.connect()
    mine = enqueue(conn, "mail.send").id
    monkeypatch.setattr(
        "queue_core.registry.encode",
        lambda _, args: '{"a": "\\u0000"}' if args["n"] == 2_499 else "{}",
    )
    line = f"refused-{autocommit}"
    with pytest.raises(ArgumentsError):
        enqueue_many(conn, [NewJob("note", {"n": n}, queue=line) for n in range(2_500)])
    assert how_many(conn, line) == 0
    # The caller's transaction lives on, with what stood in it.
    assert (mine in locate(other, [mine])) == autocommit
    conn.commit()
    assert mine in locate(other, [mine])


# Whose transaction


def test_the_job_exists_exactly_when_the_caller_commits(shared_database) -> None:
    conn = shared_database.connect(autocommit=False)
    other = shared_database.connect()
    kept = enqueue(conn, "note").id
    assert locate(other, [kept]) == {}
    conn.commit()
    dropped = enqueue(conn, "note").id
    many = [each.id for each in enqueue_many(conn, [NewJob("note")] * 1_001)]
    conn.rollback()
    assert set(locate(other, [kept, dropped, *many])) == {kept}


def test_in_autocommit_the_job_is_there_at_once(shared_database) -> None:
    conn, other = shared_database.connect(), shared_database.connect()
    job = enqueue(conn, "note").id
    many = [each.id for each in enqueue_many(conn, [NewJob("note")] * 1_001)]
    assert len(locate(other, [job, *many])) == 1_002
    assert conn.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


@pytest.mark.parametrize("autocommit", [True, False])
@pytest.mark.parametrize("count", [1, 1_001])
def test_a_block_or_savepoint_of_the_callers_decides(
    shared_database,
    autocommit,
    count: int,
) -> None:
    conn = shared_database.connect(autocommit=autocommit)
    other = shared_database.connect()
    with conn.transaction():
        kept = enqueue_many(conn, [NewJob("note")] * count)[-1].id
        with conn.transaction(force_rollback=True):
            dropped = enqueue_many(conn, [NewJob("note")] * count)[-1].id
        assert locate(conn, [kept, dropped]).keys() == {kept}
        assert locate(other, [kept]) == {}
    conn.commit()
    assert locate(other, [kept, dropped]).keys() == {kept}


def test_a_transaction_opened_by_hand_stays_the_callers(shared_database) -> None:
    conn, other = shared_database.connect(), shared_database.connect()
    conn.execute("BEGIN")
    job = enqueue_many(conn, [NewJob("note")] * 1_001)[0].id
    assert conn.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS
    assert locate(other, [job]) == {}
    conn.execute("ROLLBACK")
    assert locate(other, [job]) == {}


@pytest.mark.parametrize("count", [1, 1_001])
def test_an_aborted_transaction_stays_aborted_and_takes_nothing(shared_database, count) -> None:
    conn = shared_database.connect(autocommit=False)
    with pytest.raises(psycopg.errors.DivisionByZero):
        conn.execute("SELECT 1 / 0")
    with pytest.raises(psycopg.errors.InFailedSqlTransaction) as refused:
        enqueue_many(conn, [NewJob("note", {"a": CANARY})] * count)
    assert CANARY not in str(refused.value)
    conn.rollback()
    assert conn.execute(HOW_MANY, ["note"])
    assert enqueue(conn, "note").created


@pytest.mark.parametrize("level", IsolationLevel)
def test_any_isolation_will_do(shared_database, level: IsolationLevel) -> None:
    conn = shared_database.connect(autocommit=False)
    conn.isolation_level = level
    job = enqueue(conn, "note").id
    conn.commit()
    assert job in locate(conn, [job])


def test_a_signed_enqueue_is_ready_now_or_waits(conn) -> None:
    signed: dict[str, Any] = {"by": "ops:alice", "reason": "customer_asked"}
    now = enqueue_signed(conn, NewJob("note"), **signed).id
    later = enqueue_signed(conn, NewJob("note", delay=60), **signed).id
    assert placed(conn, now)["place"] == "ready"
    assert placed(conn, later)["place"] == "waiting"


def test_a_signed_enqueue_checks_arguments_and_leaves_no_act(conn, contents) -> None:
    before = contents(conn)
    with pytest.raises(ArgumentsError):
        enqueue_signed(conn, NewJob("note", {"a": "\0"}), by="ops:alice", reason="asked")
    assert contents(conn) == before


# Whose connection


@pytest.mark.parametrize(
    "rows",
    [tuple_row, dict_row, namedtuple_row, scalar_row, kwargs_row(dict), args_row(lambda *_: 0)],
)
@pytest.mark.parametrize("cursor", [psycopg.Cursor, ClientCursor, RawCursor])
@pytest.mark.parametrize("autocommit", [True, False])
def test_any_connection_will_do(shared_database, rows, cursor, autocommit) -> None:
    with psycopg.connect(
        shared_database.url, autocommit=autocommit, row_factory=rows, cursor_factory=cursor
    ) as conn:
        made = enqueue_many(conn, [NewJob("note", {"%s": "%(a)s"}), NewJob("note", delay=5)])
        assert [type(each.id) for each in made] == [UUID, UUID]
        assert conn.row_factory is rows
        conn.commit()
        assert len(locate(conn, [each.id for each in made])) == 2


def test_a_connection_that_prepares_everything_or_nothing_will_do(shared_database) -> None:
    for threshold in (0, None):
        conn = shared_database.connect()
        conn.prepare_threshold = threshold
        assert all(enqueue(conn, "note", {"n": n}).created for n in range(4))


def test_a_pipeline_will_do(shared_database) -> None:
    conn = shared_database.connect()
    with conn.pipeline():
        jobs = [enqueue(conn, "note", {"n": n}).id for n in range(3)]
    assert len(locate(conn, jobs)) == 3


def test_threads_with_connections_of_their_own_get_ids_of_their_own(shared_database) -> None:
    found: list[UUID] = []

    def ask() -> None:
        conn = shared_database.connect()
        for _ in range(20):
            found.extend(each.id for each in enqueue_many(conn, [NewJob("note")] * 50))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 4 * 20 * 50


def test_a_search_path_of_the_callers_does_not_matter(database, registry) -> None:
    owner = database.owner()
    owner.execute("CREATE TABLE public.jobs (id int); CREATE TABLE public.ready (id int)")
    conn = database.connect()
    conn.execute("SET search_path = public, pg_temp")
    assert enqueue(conn, "note", {"a": 1}).created


def test_a_server_side_cursor_of_the_callers_lives_on(shared_database) -> None:
    conn = shared_database.connect(autocommit=False)
    with ServerCursor(conn, "mine") as mine:
        mine.execute("SELECT generate_series(1, 3)")
        enqueue_many(conn, [NewJob("note")] * 1_001)
        assert len(mine.fetchall()) == 3
