"""Taking a job, noting, revealing, beside every move: who comes second waits and answers truly."""

from concurrent.futures import ThreadPoolExecutor
from itertools import product

import pytest

from queue_core import assign, note, reveal, revealed_arguments
from tests.conftest import CANARY
from tests.queue_core.racing import (
    PATIENCE,
    SIGNED,
    Arena,
    Conn,
    Race,
    and_its_worker_is_lost,
    another_run_disputes,
    assigns,
    cancels,
    claims,
    closes,
    completes,
    confirms,
    defers,
    end_as_they_should,
    fails,
    fails_for_good,
    gives_back,
    notes,
    promotes,
    recovers,
    releases,
    retries,
    reveals,
    sets_aside,
)

LOST = and_its_worker_is_lost
REVIEW = {"on_lost": "review"}
TWO = {"attempts": 2}
LOOKING = {assigns: "assigned", notes: "noted"}
DECIDING = {
    ("needs_review", releases): ("ready", "released"),
    ("needs_review", confirms): ("completed", "confirmed"),
    ("needs_review", closes): ("cancelled", "closed"),
    ("failed", retries): ("ready", "retried"),
    ("failed", another_run_disputes): ("needs_review", "needs_review"),
}
"""Where a job stands that waits for a person, who moves it from there, and what comes of that."""
RUNNING = {
    "completed": (completes, None, "completed"),
    "failed for good": (fails_for_good, None, "failed"),
    "deferred": (defers, None, "waiting"),
    "given back": (gives_back, None, "ready"),
    "set aside": (sets_aside, None, "needs_review"),
    "recovered": (recovers, LOST, "failed"),
    "disputed by another run": (another_run_disputes, None, "needs_review"),
}
"""Who ends a run, what has to be so before, and where the job stands then."""


def _looking_first() -> dict[str, Race]:
    """A decision waits for whoever takes a job or notes something, and is made after it."""
    return {
        f"{LOOKING[mark]}, then {after[1]} from {place}": Race(place, mark, move, after, after)
        for mark, ((place, move), after) in product(LOOKING, DECIDING.items())
    }


def _looking_second() -> dict[str, Race]:
    """Who takes a job or notes something waits for the decision; made, there is no job to take."""
    races: dict[str, Race] = {}
    for mark, ((place, move), (state, told)) in product(LOOKING, DECIDING.items()):
        again = state if state == "needs_review" else None  # it waits for a person there, too
        done = (state, LOOKING[mark] if again else "wrong_state")
        undone = (place, LOOKING[mark])
        races[f"{told} from {place}, then {LOOKING[mark]}"] = Race(place, move, mark, done, undone)
    return races


def _revealing() -> dict[str, Race]:
    """A job is shown as it stands: whoever moves it is waited for, and waits."""
    races = {
        f"{ended}, then revealed": Race(
            "running", move, reveals, (state, "revealed"), ("running", "revealed"), given
        )
        for ended, (move, given, state) in RUNNING.items()
    }
    races |= {
        f"{told} from {place}, then revealed": Race(
            place, move, reveals, (state, "revealed"), (place, "revealed")
        )
        for (place, move), (state, told) in DECIDING.items()
    }
    return races


RACES = {
    **_looking_first(),
    **_looking_second(),
    **_revealing(),
    # What does not wait yet is not waited for: it is refused as it stands.
    "fails for good, then assigned": Race(
        "running",
        fails_for_good,
        assigns,
        ("failed", "wrong_state"),
        ("running", "wrong_state"),
        waits=False,
    ),
    "recovered to review, then noted": Race(
        "running",
        recovers,
        notes,
        ("needs_review", "wrong_state"),
        ("running", "wrong_state"),
        LOST,
        REVIEW,
        waits=False,
    ),
    "assigned, assigned": Race(
        "needs_review", assigns, assigns, ("needs_review", "assigned"), ("needs_review", "assigned")
    ),
    "noted, assigned": Race(
        "failed", notes, assigns, ("failed", "assigned"), ("failed", "assigned")
    ),
    "claimed, then revealed": Race(
        "ready", claims, reveals, ("running", "revealed"), ("ready", "revealed")
    ),
    "cancelled, then revealed": Race(
        "waiting", cancels, reveals, ("cancelled", "revealed"), ("waiting", "revealed")
    ),
    "cancelled when blocked, then revealed": Race(
        "blocked", cancels, reveals, ("cancelled", "revealed"), ("blocked", "revealed")
    ),
    "promoted, then revealed": Race(
        "due", promotes, reveals, ("ready", "revealed"), ("ready", "revealed")
    ),
    "revealed, then claimed": Race(
        "ready", reveals, claims, ("ready", "nothing"), ("ready", "nothing"), waits=False
    ),
    "revealed, then completed": Race(
        "running", reveals, completes, ("completed", "completed"), ("completed", "completed")
    ),
    "revealed, then failed": Race(
        "running", reveals, fails, ("waiting", "waiting"), ("waiting", "waiting"), None, TWO
    ),
    "revealed, then recovered": Race(
        "running",
        reveals,
        recovers,
        ("running", "nothing"),
        ("running", "nothing"),
        LOST,
        waits=False,
    ),
    "revealed, then cancelled": Race(
        "blocked", reveals, cancels, ("cancelled", "cancelled"), ("cancelled", "cancelled")
    ),
    "revealed, then released": Race(
        "needs_review", reveals, releases, ("ready", "released"), ("ready", "released")
    ),
    "revealed, then retried": Race(
        "failed", reveals, retries, ("ready", "retried"), ("ready", "retried")
    ),
    "revealed, revealed": Race(
        "failed", reveals, reveals, ("failed", "revealed"), ("failed", "revealed")
    ),
}


@pytest.mark.parametrize("ends", ["committed", "rolled_back"])
@pytest.mark.parametrize("race", RACES.values(), ids=RACES)
def test_who_comes_second_waits_and_answers_what_is_so(arena: Arena, job_in, race, ends) -> None:
    end_as_they_should(arena, job_in, race, ends)


def _seen(place: str, attempt: int):
    def marks(verb, **more):
        def do(conn: Conn, made) -> str:
            seen = {made.id: (place, attempt)}
            outcome = verb(conn, made.id, seen=seen, **SIGNED, **more)
            return outcome.why or outcome.act

        return do

    return [marks(assign), marks(note, note="Looked."), marks(reveal)]


@pytest.mark.parametrize("ends", ["committed", "rolled_back"])
@pytest.mark.parametrize("which", range(3), ids=["assign", "note", "reveal"])
def test_what_was_seen_counts_when_the_others_are_done(arena: Arena, job_in, which, ends) -> None:
    mark = _seen("needs_review", 1)[which]
    told = ["assigned", "noted", "revealed"][which]
    race = Race("needs_review", closes, mark, ("cancelled", "moved_on"), ("needs_review", told))
    made = job_in(arena.watch, race.place)
    closes(arena.first, made)
    with ThreadPoolExecutor(1) as pool:
        racing = pool.submit(mark, arena.second, made)
        assert arena.waits(racing)
        (arena.first.commit if ends == "committed" else arena.first.rollback)()
        answer = racing.result(PATIENCE)
    assert (arena.stands(made.id), answer) == getattr(race, ends)
    assert arena.acts(made.id) == (["closed"] if ends == "committed" else [told])


def test_arguments_revealed_in_a_race_are_read_by_the_act_that_was_committed(
    arena: Arena, job_in
) -> None:
    made = job_in(arena.watch, "failed")
    outcome = reveal(arena.first, made.id, **SIGNED)
    assert outcome.act_id
    assert revealed_arguments(arena.second, made.id, outcome.act_id) is None
    arena.first.commit()
    assert CANARY in str(revealed_arguments(arena.second, made.id, outcome.act_id))
