"""Places: one answer for each job, the same for code and for people in psql."""

import threading
import uuid
from typing import Any

import pytest

from queue_core import cancel, enqueue
from queue_core.queries.places import Place, locate
from queue_core.states import STATES

PLACES = [*STATES, "due"]
VIEW = "SELECT job_states.* FROM countersign.job_states WHERE job_states.id = %s"


@pytest.mark.parametrize("place", PLACES)
def test_a_job_stands_in_one_place(conn, job_in, place: str) -> None:
    made = job_in(conn, place)
    state: Any = {"due": "ready"}.get(place, place)
    assert locate(conn, [made.id]) == {made.id: Place(made.id, state, made.attempt, None, True)}


@pytest.mark.parametrize("place", PLACES)
def test_the_view_for_people_agrees(conn, job_in, place: str) -> None:
    made = job_in(conn, place, attempts=1)
    stands = locate(conn, [made.id])[made.id]
    (row,) = conn.execute(VIEW, [made.id]).fetchall()
    assert (row["state"], row["attempt"]) == (stands.state, stands.attempt)
    assert (row["name"], row["queue"], row["priority"]) == ("mail.send", made.queue, 0)
    assert row["since"]
    assert row["worker"] == (None if made.attempt == 0 else made.worker)
    assert row["attempts_allowed"] == (1 if place == "running" else None)
    assert "args" not in row


def test_places_of_many_are_found_at_once_and_strangers_are_left_out(conn, job_in) -> None:
    made = {job_in(conn, place).id: place for place in PLACES}
    found = locate(conn, [*made, uuid.uuid4(), *made])
    assert {job: place.state for job, place in found.items()} == {
        job: {"due": "ready"}.get(place, place) for job, place in made.items()
    }
    assert locate(conn, []) == {}


def test_a_request_to_stop_shows(conn, job_in) -> None:
    made = job_in(conn, "running")
    cancel(conn, [made.id], by="ops:alice", reason="asked")
    assert locate(conn, [made.id])[made.id].stop_requested_at


def test_a_job_without_its_body_is_found_and_told(conn, registry) -> None:
    query = "INSERT INTO countersign.ended (id, state, attempt) VALUES (%s, 'failed', 1)"
    (made,) = conn.execute("SELECT countersign.new_id() AS id").fetchall()
    job = made["id"]
    conn.execute(query, [job])
    assert not locate(conn, [job])[job].has_body
    (seen,) = conn.execute(VIEW, [job]).fetchall()
    assert (seen["state"], seen["name"]) == ("failed", None)


MOVE = """
WITH gone AS (DELETE FROM countersign.{0} WHERE id = %s RETURNING {0}.*)
INSERT INTO countersign.{1} SELECT * FROM gone
"""


def test_a_job_on_the_move_is_never_in_two_places_or_none(shared_database, registry) -> None:
    moving, looking = shared_database.connect(), shared_database.connect()
    job = enqueue(moving, "mail.send", delay=3_600).id
    to_ready = MOVE.format("waiting", "ready").encode()
    to_waiting = MOVE.format("ready", "waiting").encode()
    over = threading.Event()

    def move() -> None:
        while not over.is_set():
            moving.execute(to_ready, [job])
            moving.execute(to_waiting, [job])

    mover = threading.Thread(target=move)
    mover.start()
    try:
        seen: list[str] = []
        for _ in range(300):
            rows = looking.execute(VIEW, [job]).fetchall()
            seen += [row["state"] for row in rows]
            assert len(rows) == len(locate(looking, [job])) == 1
    finally:
        over.set()
        mover.join()
    assert set(seen) <= {"ready", "waiting"}
