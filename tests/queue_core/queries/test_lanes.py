"""Lanes with jobs in them, and what stands behind a place."""

import uuid
from typing import Any
from uuid import UUID

from queue_core import pause_queue, resume_queue
from queue_core.lanes import END, Lane, Place
from queue_core.queries.lanes import behind, heads

READY = """
INSERT INTO countersign.ready (id, queue, name, rank, run_at)
VALUES (countersign.new_id(), %(queue)s, %(name)s, %(rank)s, %(run_at)s)
RETURNING ready.id
"""


def ready(
    conn, queue: str, name: str, *, rank: int = 0, run_at: str = "2026-11-30 08:00:00.000001+00"
) -> UUID:
    parameters: dict[str, Any] = {"queue": queue, "name": name, "rank": rank, "run_at": run_at}
    return conn.execute(READY, parameters).fetchone()["id"]


def test_each_lane_is_found_once_with_its_best_job(conn) -> None:
    ready(conn, "a", "mail.send", rank=1)
    best = ready(conn, "a", "mail.send", rank=-3)
    other = ready(conn, "a", "audit.file", run_at="2026-11-30 09:30:00+02")
    third = ready(conn, "b", "mail.send", run_at="-infinity")
    assert dict(heads(conn)) == {
        Lane("a", "mail.send"): Place(-3, "2026-11-30 08:00:00.000001", best),
        Lane("a", "audit.file"): Place(0, "2026-11-30 07:30:00", other),
        Lane("b", "mail.send"): Place(0, "-infinity", third),
    }


def test_no_jobs_are_no_lanes(conn) -> None:
    assert heads(conn) == []


def test_a_paused_queue_has_no_lanes_until_it_goes_on(conn) -> None:
    for queue in ("a", "b"):
        ready(conn, queue, "mail.send")
    pause_queue(conn, "a", by="ops:alice", reason="seen_in_test")
    assert [head.lane.queue for head in heads(conn)] == ["b"]
    resume_queue(conn, "a", by="ops:alice", reason="seen_in_test")
    assert sorted(head.lane.queue for head in heads(conn)) == ["a", "b"]


def test_only_what_stands_before_a_place_in_its_lane_is_behind_it(conn) -> None:
    lane = Lane("a", "mail.send")
    first, second, third = sorted(ready(conn, *lane) for _ in range(3))
    better = ready(conn, *lane, rank=-1)
    older = ready(conn, *lane, run_at="2026-11-30 07:59:59+00")
    ready(conn, "b", "mail.send", rank=-9)
    at = Place(0, "2026-11-30 08:00:00.000001", third)
    assert behind(conn, {lane: at}) == {lane: [better, older, first, second]}
    assert behind(conn, {lane: Place(-1, "-infinity", uuid.UUID(int=0))}) == {}


def test_no_more_than_a_hundred_are_told_of_a_lane(conn) -> None:
    for _ in range(101):
        ready(conn, "a", "mail.send")
    assert len(behind(conn, {Lane("a", "mail.send"): END})[Lane("a", "mail.send")]) == 100
