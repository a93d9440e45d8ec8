"""Workers' rows: who lives, what they hold, and who may say that one is lost."""

import uuid
from typing import Any
from uuid import UUID

import psycopg
import pytest

from queue_core import cancel, fleet

IDENTITY = fleet.Identity(
    "pay-3", 4121, "boot-1", "pid:[1]", "0.1.0", ["mail", "audit"], 4, "night shift"
)
WORKER = "SELECT workers.*, now() AS now FROM countersign.workers WHERE workers.id = %s"
RUNNING = "SELECT running.*, now() AS now FROM countersign.running WHERE running.id = %s"


def row(conn, worker: UUID) -> dict[str, Any]:
    return conn.execute(WORKER, [worker]).fetchone()


def is_silent_for(conn, worker: UUID, seconds: float) -> None:
    query = """
        UPDATE countersign.workers SET beat_at = clock_timestamp() - make_interval(secs => %s)
        WHERE id = %s"""
    conn.execute(query, [seconds, worker])


# Register


def test_a_worker_says_who_it_is(conn) -> None:
    kept = row(conn, fleet.register(conn, IDENTITY))
    assert (kept["host"], kept["pid"], kept["boot_id"]) == ("pay-3", 4121, "boot-1")
    assert (kept["pid_namespace"], kept["version"], kept["slots"]) == ("pid:[1]", "0.1.0", 4)
    assert (kept["queues"], kept["name"]) == (["mail", "audit"], "night shift")
    assert (kept["stopped_at"], kept["lost_at"], kept["lost_by"], kept["lost_rule"]) == (
        None,
        None,
        None,
        None,
    )
    assert kept["started_at"] == kept["beat_at"] == kept["now"]


def test_a_worker_started_again_under_its_name_is_another(conn) -> None:
    sessions = [fleet.register(conn, IDENTITY) for _ in range(3)]
    assert len(set(sessions)) == 3
    fleet.give_up(conn, sessions[0])
    assert fleet.beat(conn, sessions[1]) == []
    assert fleet.beat(conn, sessions[0]) is None


# Beat


def test_a_beat_moves_the_workers_time_and_no_other(conn) -> None:
    mine, other = fleet.register(conn, IDENTITY), fleet.register(conn, IDENTITY)
    for worker in (mine, other):
        is_silent_for(conn, worker, 50.0)
    silent = row(conn, other)
    assert fleet.beat(conn, mine) == []
    assert row(conn, mine)["beat_at"] > row(conn, mine)["now"]
    assert row(conn, other) == silent


def test_a_beat_answers_what_the_worker_holds_and_what_is_asked_to_stop(conn, job_in) -> None:
    first, second, foreign = (job_in(conn, "running") for _ in range(3))
    conn.execute(
        "UPDATE countersign.running SET worker = %s WHERE id = %s", [first.worker, second.id]
    )
    cancel(conn, [second.id, foreign.id], by="ops:alice", reason="too_slow")
    held = fleet.beat(conn, first.worker)
    assert held is not None
    assert sorted((run.id, run.attempt, run.stop_requested) for run in held) == sorted(
        [(first.id, 1, False), (second.id, 1, True)]
    )


def test_between_beats_a_worker_hears_of_its_runs_that_are_asked_to_stop(conn, job_in) -> None:
    first, second, foreign = (job_in(conn, "running") for _ in range(3))
    conn.execute(
        "UPDATE countersign.running SET worker = %s WHERE id = %s", [first.worker, second.id]
    )
    assert fleet.asked_to_stop(conn, first.worker) == []
    cancel(conn, [second.id, foreign.id], by="ops:alice", reason="too_slow")
    assert fleet.asked_to_stop(conn, first.worker) == [fleet.Asked(second.id, 1, None)]
    cancel(conn, [first.id], by="ops:alice", reason="too_slow", kill_after=30)
    assert fleet.Asked(first.id, 1, 30) in fleet.asked_to_stop(conn, first.worker)


def test_a_beat_tells_once_where_and_since_when_a_run_goes(conn, job_in) -> None:
    made = job_in(conn, "running")
    fleet.beat(conn, made.worker, [fleet.Started(made.id, 1, child_pid=77, seconds=12.5)])
    fleet.beat(conn, made.worker, [fleet.Started(made.id, 1, child_pid=99, seconds=1.0)])
    run = conn.execute(RUNNING, [made.id]).fetchone()
    assert (run["child_pid"], (run["now"] - run["started_at"]).total_seconds()) == (77, 12.5)


@pytest.mark.parametrize("wrong", ["attempt", "worker"])
def test_a_beat_tells_nothing_of_a_run_that_is_not_the_workers(conn, job_in, wrong: str) -> None:
    made, other = job_in(conn, "running"), fleet.register(conn, IDENTITY)
    attempt, worker = (2, made.worker) if wrong == "attempt" else (1, other)
    fleet.beat(conn, worker, [fleet.Started(made.id, attempt, child_pid=77, seconds=1.0)])
    run = conn.execute(RUNNING, [made.id]).fetchone()
    assert (run["child_pid"], run["started_at"]) == (None, None)


@pytest.mark.parametrize("ends", [fleet.stop, fleet.give_up])
def test_a_worker_that_ended_beats_no_more_and_holds_nothing(conn, job_in, ends) -> None:
    made = job_in(conn, "running")
    ends(conn, made.worker)
    before = row(conn, made.worker)
    started = [fleet.Started(made.id, 1, child_pid=77, seconds=1.0)]
    assert fleet.beat(conn, made.worker, started) is None
    assert row(conn, made.worker) == before
    assert conn.execute(RUNNING, [made.id]).fetchone()["child_pid"] is None


def test_a_worker_without_a_row_has_no_beat(conn) -> None:
    assert fleet.beat(conn, uuid.uuid4()) is None


def test_beats_touch_no_index(shared_database) -> None:
    with shared_database.connect(autocommit=False) as conn:
        worker = fleet.register(conn, IDENTITY)
        for _ in range(10):
            fleet.beat(conn, worker)
        query = """
            SELECT n_tup_upd AS updates, n_tup_hot_upd AS hot FROM pg_stat_xact_user_tables
            WHERE relid = 'countersign.workers'::regclass"""
        assert conn.execute(query).fetchone() == {"updates": 10, "hot": 10}


def test_a_beat_alone_is_not_waited_for_and_what_follows_is(shared_database) -> None:
    """`synchronous_commit` is off for the beat's own transaction and for nothing after it."""
    with shared_database.connect() as conn:
        worker = fleet.register(conn, IDENTITY)
        with conn.transaction():
            fleet.beat(conn, worker)
            assert conn.execute("SHOW synchronous_commit").fetchone() == {
                "synchronous_commit": "off"
            }
        assert conn.execute("SHOW synchronous_commit").fetchone() == {"synchronous_commit": "on"}


# Ends


def test_a_worker_stops_once(conn) -> None:
    worker = fleet.register(conn, IDENTITY)
    assert [fleet.stop(conn, worker) for _ in range(2)] == [True, False]
    assert fleet.give_up(conn, worker) is False
    kept = row(conn, worker)
    assert (kept["stopped_at"], kept["lost_at"]) == (kept["now"], None)


def test_a_worker_says_once_that_it_takes_no_more(conn) -> None:
    worker = fleet.register(conn, IDENTITY)
    assert row(conn, worker)["draining_at"] is None
    fleet.drain(conn, worker)
    kept = row(conn, worker)
    assert kept["draining_at"] == kept["now"]
    conn.execute("UPDATE countersign.workers SET draining_at = 'epoch' WHERE id = %s", [worker])
    fleet.drain(conn, worker)
    assert row(conn, worker)["draining_at"].year == 1970


def test_a_worker_that_gives_up_says_so_itself(conn) -> None:
    worker = fleet.register(conn, IDENTITY)
    assert [fleet.give_up(conn, worker) for _ in range(2)] == [True, False]
    assert fleet.stop(conn, worker) is False
    kept = row(conn, worker)
    assert (kept["lost_rule"], kept["lost_by"]) == ("gave_up", worker)
    assert (kept["lost_at"], kept["stopped_at"]) == (kept["now"], None)


# Others' judgement


def test_only_the_silent_are_declared_lost_and_by_whom_and_which_rule(conn) -> None:
    me, lively, silent = (fleet.register(conn, IDENTITY) for _ in range(3))
    is_silent_for(conn, lively, 59.0)
    is_silent_for(conn, silent, 60.1)
    assert fleet.bury_stale(conn, me, 60.0) == [silent]
    kept = row(conn, silent)
    assert (kept["lost_rule"], kept["lost_by"], kept["lost_at"]) == ("stale", me, kept["now"])
    assert row(conn, lively)["lost_at"] is None
    assert fleet.bury_stale(conn, me, 60.0) == []


def test_nobody_declares_itself_lost_for_its_own_silence(conn) -> None:
    me = fleet.register(conn, IDENTITY)
    is_silent_for(conn, me, 600.0)
    assert fleet.bury_stale(conn, me, 60.0) == []


@pytest.mark.parametrize("ends", [fleet.stop, fleet.give_up])
def test_who_ended_by_itself_is_not_declared_lost_afterwards(conn, ends) -> None:
    me, gone = fleet.register(conn, IDENTITY), fleet.register(conn, IDENTITY)
    is_silent_for(conn, gone, 600.0)
    ends(conn, gone)
    before = row(conn, gone)
    assert fleet.bury_stale(conn, me, 60.0) == []
    assert fleet.bury_dead(conn, me, [gone]) == []
    assert fleet.same_host(conn, me, IDENTITY) == []
    assert row(conn, gone) == before


@pytest.mark.parametrize(
    "other", [{"host": "pay-4"}, {"boot_id": "boot-2"}, {"pid_namespace": "x"}]
)
def test_pids_are_compared_within_one_host_boot_and_namespace(conn, other) -> None:
    me = fleet.register(conn, IDENTITY)
    neighbour = fleet.register(conn, _like(pid=77, process_start="7 clock"))
    fleet.register(conn, _like(pid=78, **other))
    assert fleet.same_host(conn, me, IDENTITY) == [fleet.Peer(neighbour, 77, "7 clock")]


def _like(**changed: Any) -> fleet.Identity:
    known = {each: getattr(IDENTITY, each) for each in IDENTITY.__dataclass_fields__}
    return fleet.Identity(**(known | changed))


def test_those_whose_process_is_gone_are_declared_lost_at_once(conn) -> None:
    me, dead, other = (fleet.register(conn, IDENTITY) for _ in range(3))
    assert fleet.bury_dead(conn, me, iter([dead])) == [dead]
    kept = row(conn, dead)
    assert (kept["lost_rule"], kept["lost_by"]) == ("same_host", me)
    assert row(conn, other)["lost_at"] is None
    assert fleet.bury_dead(conn, me, [dead]) == []
    assert fleet.bury_dead(conn, me, []) == []


@pytest.mark.parametrize("slots", [0, -1])
def test_a_worker_without_slots_is_refused_by_the_table(conn, slots: int) -> None:
    with pytest.raises(psycopg.errors.CheckViolation):
        fleet.register(conn, _like(slots=slots))
