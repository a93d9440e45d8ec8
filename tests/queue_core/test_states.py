"""The state machine: every verb tried from every place, against the table of the design."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import pytest

from queue_core import cancel, close, confirm, enqueue, fleet, release, retry
from queue_core.acts import ActOutcome
from queue_core.check import tallies
from queue_core.outcomes import Completed, Deferred, Ending, Failed, RunReport, Stopped, Unreadable
from queue_core.queries.acts import acts_of
from queue_core.queries.places import locate
from queue_core.states import ACT_VERBS, ENDED, MOVES, QUEUED, STATES, legal_verbs
from queue_core.transitions.claim import Claimable, claim
from queue_core.transitions.complete import complete
from queue_core.transitions.defer import defer
from queue_core.transitions.dispute import dispute
from queue_core.transitions.fail import fail
from queue_core.transitions.give_back import give_back
from queue_core.transitions.promote import promote
from queue_core.transitions.recover import recover
from queue_core.transitions.set_aside import set_aside
from queue_core.transitions.stop import stop

PLACES = (*STATES, "due")
"""Every state, and the `waiting` row whose time has come, which counts as ready."""
SIGNED: dict[str, Any] = {"by": "ops:alice", "reason": "seen_in_test"}
RAISED = Failed("ValueError: no such address")
CRASHED = Failed("crashed: signal 9", outcome="crashed", signal=9)


def reports(ending: Ending, transition: Callable[..., Any]) -> Callable[..., Any]:
    """Report `ending` for the job's attempt (its first, where it never ran), by its worker."""

    def do(conn, made):
        report = RunReport(made.id, made.attempt or 1, ending, seconds=1.0, wait=30.0)
        return transition(conn, made.worker, [report])

    return do


def signs(verb: Callable[..., list[ActOutcome]]) -> Callable[..., Any]:
    return lambda conn, made: verb(conn, [made.id], **SIGNED)


def promotes(conn, made):
    promote(conn)


def claims(conn, made):
    claim(conn, worker=uuid4(), names=[Claimable("mail.send")], queues=[made.queue], count=1)


def gives_back(conn, made):
    give_back(conn, made.worker, [(made.id, made.attempt or 1)])


def recovers(conn, made):
    recover(conn)


def disputes(conn, made):
    """Report for a run of another worker, given up on before."""
    dispute(conn, uuid4(), [RunReport(made.id, made.attempt, Completed())])


def is_asked_to_stop(conn, made):
    cancel(conn, [made.id], **SIGNED)


def loses_its_worker(conn, made):
    fleet.give_up(conn, made.worker)


def is_asked_and_lost(conn, made):
    is_asked_to_stop(conn, made)
    loses_its_worker(conn, made)


def crashed_before(conn, made):
    conn.execute(
        "INSERT INTO countersign.runs (job_id, attempt, outcome) VALUES (%s, 0, 'crashed')",
        [made.id],
    )


@dataclass(frozen=True)
class Way:
    """One row of the design's table: a verb under a condition, and where it leads from where."""

    verb: str
    when: str
    do: Callable[..., Any]
    leads: Mapping[str, str]
    given: Callable[..., Any] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


TWO = {"attempts": 2}
REVIEW = {"attempts": 2, "on_lost": "review"}
RUNNING_TO = {
    state: {"running": state} for state in ("ready", "waiting", "failed", "cancelled", "completed")
}
TO_REVIEW = {"running": "needs_review"}
QUEUED_TO_CANCELLED = dict.fromkeys(("ready", "waiting", "due", "blocked"), "cancelled")
DISPUTED = ("ready", "waiting", "due", "blocked", "running", "failed")

WAYS = (
    Way("promote", "due", promotes, {"due": "ready"}),
    Way("claim", "of its name", claims, {"ready": "running"}),
    Way("complete", "", reports(Completed("1"), complete), RUNNING_TO["completed"]),
    Way(
        "complete",
        "after a request to stop",
        reports(Completed(), complete),
        RUNNING_TO["completed"],
        is_asked_to_stop,
    ),
    Way("fail", "attempts left", reports(RAISED, fail), RUNNING_TO["waiting"], None, TWO),
    Way("fail", "none left", reports(RAISED, fail), RUNNING_TO["failed"]),
    Way(
        "fail",
        "for good",
        reports(Failed("no", retryable=False), fail),
        RUNNING_TO["failed"],
        None,
        TWO,
    ),
    Way(
        "fail",
        "after a request to stop",
        reports(RAISED, fail),
        RUNNING_TO["cancelled"],
        is_asked_to_stop,
        TWO,
    ),
    Way(
        "fail",
        "timed out after a request to stop",
        reports(Failed("timed out", outcome="timed_out"), fail),
        RUNNING_TO["cancelled"],
        is_asked_to_stop,
        TWO,
    ),
    Way("fail", "its child died", reports(CRASHED, fail), RUNNING_TO["waiting"], None, TWO),
    Way("fail", "its child died, none left", reports(CRASHED, fail), RUNNING_TO["failed"]),
    Way("fail", "died, for review", reports(CRASHED, fail), TO_REVIEW, None, REVIEW),
    Way("fail", "died again", reports(CRASHED, fail), TO_REVIEW, crashed_before, TWO),
    Way(
        "fail",
        "died after a request to stop",
        reports(CRASHED, fail),
        RUNNING_TO["cancelled"],
        is_asked_to_stop,
        TWO,
    ),
    Way(
        "fail",
        "died after a request to stop, for review",
        reports(CRASHED, fail),
        TO_REVIEW,
        is_asked_to_stop,
        REVIEW,
    ),
    Way("defer", "", reports(Deferred(60.0), defer), RUNNING_TO["waiting"]),
    Way(
        "defer",
        "after a request to stop",
        reports(Deferred(60.0), defer),
        RUNNING_TO["cancelled"],
        is_asked_to_stop,
    ),
    Way("stop", "", reports(Stopped("Stopped"), stop), RUNNING_TO["ready"]),
    Way(
        "stop",
        "after a request to stop",
        reports(Stopped("killed", killed=True), stop),
        RUNNING_TO["cancelled"],
        is_asked_to_stop,
        REVIEW,
    ),
    Way("give_back", "", gives_back, RUNNING_TO["ready"]),
    Way(
        "give_back",
        "after a request to stop",
        gives_back,
        RUNNING_TO["cancelled"],
        is_asked_to_stop,
    ),
    Way("recover", "its worker lives", recovers, {}),
    Way("recover", "attempts left", recovers, RUNNING_TO["ready"], loses_its_worker, TWO),
    Way("recover", "none left", recovers, RUNNING_TO["failed"], loses_its_worker),
    Way("recover", "for review", recovers, TO_REVIEW, loses_its_worker, REVIEW),
    Way(
        "recover",
        "after a request to stop",
        recovers,
        RUNNING_TO["cancelled"],
        is_asked_and_lost,
        TWO,
    ),
    Way(
        "recover",
        "after a request to stop, for review",
        recovers,
        TO_REVIEW,
        is_asked_and_lost,
        REVIEW,
    ),
    Way("set_aside", "", reports(Unreadable("not JSON"), set_aside), TO_REVIEW),
    Way("dispute", "", disputes, dict.fromkeys(DISPUTED, "needs_review")),
    Way("cancel", "", signs(cancel), {**QUEUED_TO_CANCELLED, "running": "running"}),
    Way("retry", "", signs(retry), {"failed": "ready", "cancelled": "ready"}),
    Way("release", "", signs(release), {"needs_review": "ready"}),
    Way("confirm", "", signs(confirm), {"needs_review": "completed"}),
    Way("close", "", signs(close), {"needs_review": "cancelled"}),
)


def _name(way: Way) -> str:
    return f"{way.verb} {way.when}".strip()


@pytest.mark.parametrize("way", WAYS, ids=_name)
def test_every_verb_does_from_every_place_what_the_design_says(
    conn, job_in, contents, way: Way
) -> None:
    for place in PLACES:
        with conn.transaction(force_rollback=True):
            made = job_in(conn, place, **way.options)
            if way.given and place == "running":
                way.given(conn, made)
            before = contents(conn)
            answer = way.do(conn, made)
            assert stands(conn, made) == way.leads.get(place, seen_as(place)), place
            if place in way.leads:
                assert contents(conn) != before, place
            else:
                nothing_came_of_it(way.verb, before, contents(conn), place)
                refusals_are_right(way.verb, answer, made, place)


def stands(conn, made) -> str:
    """Return the state of a job, having seen that it stands in exactly one place."""
    places = conn.execute(
        "SELECT state FROM countersign.job_states WHERE id = %s", [made.id]
    ).fetchall()
    assert len(places) == 1
    (place,) = places
    assert tallies.problems(conn) == []
    assert locate(conn, [made.id])[made.id].state == place["state"]
    return place["state"]


def seen_as(place: str) -> str:
    return "ready" if place == "due" else place


def nothing_came_of_it(verb: str, before, after, place: str) -> None:
    if verb == "dispute":  # the late row is kept whatever the state
        assert len(after.pop("runs")) == len(before.pop("runs")) + 1
    assert after == before, place


def refusals_are_right(verb: str, answer, made, place: str) -> None:
    if verb not in ACT_VERBS:
        return
    (refused,) = answer
    assert (refused.applied, refused.act_id, refused.why) == (False, None, "wrong_state")
    assert (refused.state, refused.attempt) == (seen_as(place), made.attempt)


@pytest.mark.parametrize("verb", [verb for verb in MOVES if verb != "enqueue"])
def test_the_moves_as_data_are_those_of_the_design(verb: str) -> None:
    ways = [way for way in WAYS if way.verb == verb]
    sources = {"waiting" if place == "due" else place for way in ways for place in way.leads}
    targets = {state for way in ways for state in way.leads.values()}
    assert (MOVES[verb].sources, MOVES[verb].targets) == (sources, targets)


def test_a_new_job_is_ready_or_waits_and_comes_from_nowhere(conn, registry) -> None:
    now, later = enqueue(conn, "mail.send"), enqueue(conn, "mail.send", delay=60.0)
    places = locate(conn, [now.id, later.id])
    assert [places[each.id].state for each in (now, later)] == ["ready", "waiting"]
    assert MOVES["enqueue"] == (frozenset(), {"ready", "waiting"})


def test_a_second_request_to_stop_is_refused_and_leaves_the_first(conn, job_in, contents) -> None:
    made = job_in(conn, "running")
    cancel(conn, [made.id], **SIGNED)
    before = contents(conn)
    (refused,) = cancel(conn, [made.id], by="ops:bob", reason="me_too")
    assert (refused.applied, refused.why, refused.state) == (False, "already_asked", "running")
    assert contents(conn) == before


@pytest.mark.parametrize(
    ("place", "verb", "act"),
    [
        ("ready", cancel, "cancelled"),
        ("waiting", cancel, "cancelled"),
        ("due", cancel, "cancelled"),
        ("blocked", cancel, "cancelled"),
        ("running", cancel, "cancel_requested"),
        ("failed", retry, "retried"),
        ("cancelled", retry, "retried"),
        ("needs_review", release, "released"),
        ("needs_review", confirm, "confirmed"),
        ("needs_review", close, "closed"),
    ],
)
def test_an_applied_act_is_one_row_with_the_attempt_as_it_was(
    conn, job_in, place: str, verb: Callable[..., list[ActOutcome]], act: str
) -> None:
    made = job_in(conn, place)
    earlier = len(acts_of(conn, made.id))
    (outcome,) = verb(conn, [made.id], **SIGNED)
    (kept,) = acts_of(conn, made.id)[earlier:]
    assert outcome.applied
    assert (kept.act, kept.attempt, kept.id) == (act, made.attempt, outcome.act_id)
    assert (kept.by, kept.reason, kept.via) == ("ops:alice", "seen_in_test", "code")
    assert (kept.subject_kind, kept.subject_id) == ("job", made.id)
    assert kept.subject_name == "mail.send"
    assert (outcome.act, outcome.attempt) == (act, made.attempt)
    assert outcome.state == locate(conn, [made.id])[made.id].state


def test_the_acts_that_pages_offer_are_those_that_apply() -> None:
    offered = {state: legal_verbs(state) for state in STATES}
    assert offered == {
        "needs_review": ("release", "confirm", "close"),
        "ready": ("cancel",),
        "waiting": ("cancel",),
        "blocked": ("cancel",),
        "running": ("cancel",),
        "completed": (),
        "failed": ("retry",),
        "cancelled": ("retry",),
    }


def test_a_state_is_queued_running_in_review_or_over() -> None:
    assert {*QUEUED, *ENDED, "running", "needs_review"} == set(STATES)
    assert len(QUEUED) + len(ENDED) + 2 == len(STATES)
