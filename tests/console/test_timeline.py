"""The order of a job's life, and what came of each act."""

from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest

from console.timeline import said, timeline, tone, what_came_of
from queue_core.queries.acts import ActRow
from queue_core.queries.facts import JobFacts
from queue_core.queries.runs import RunRow
from queue_core.queries.workers import WorkerRow
from queue_core.states import OUTCOMES

BEGUN = datetime(2026, 11, 29, 2, 30, tzinfo=UTC)
WORKER = UUID(int=7)


def at(seconds):
    return BEGUN + timedelta(seconds=seconds)


def job(state, attempt=1, **known):
    nothing = dict.fromkeys(JobFacts.__slots__)
    given = {
        "id": uuid4(),
        "name": "x",
        "queue": "q",
        "priority": 0,
        "created_at": BEGUN,
        "uncertain": False,
        "has_result": False,
    }
    return JobFacts(
        **{**nothing, **given, "state": state, "attempt": attempt, "worker": WORKER, **known}
    )


def run(attempt, outcome="failed", claimed=None, started=None, ended=None):
    moments = {"claimed_at": claimed, "started_at": started, "ended_at": ended}
    times = {key: None if value is None else at(value) for key, value in moments.items()}
    nothing = dict.fromkeys(RunRow.__slots__)
    return RunRow(**{**nothing, "attempt": attempt, "outcome": outcome, "worker": WORKER, **times})


def act(name, attempt, when=0):
    nothing = dict.fromkeys(ActRow.__slots__)
    return ActRow(
        **{
            **nothing,
            "id": 1,
            "at": at(when),
            "by": "ops:bob",
            "act": name,
            "reason": "r",
            "attempt": attempt,
            "via": "console:1",
        }
    )


def told(*arguments):
    return [(moment.kind, moment.attempt) for moment in timeline(*arguments)]


def test_moments_stand_in_the_order_of_time_whatever_they_are():
    runs = [
        run(1, claimed=1, started=2, ended=5),
        run(2, "timed_out", claimed=11, started=12, ended=40),
    ]
    assert told(job("failed", 2), runs, [act("retried", 1, 10)]) == [
        ("asked", None), ("claimed", 1), ("started", 1), ("ended", 1),
        ("act", 1), ("claimed", 2), ("started", 2), ("ended", 2),
    ]  # fmt: skip


def test_an_unknown_start_stands_between_its_neighbours():
    moments = timeline(
        job("needs_review", entered_at=at(60)),
        [run(1, "lost", claimed=1, ended=60)],
        [act("released", 0, 30)],
    )
    assert [(each.kind, each.at) for each in moments] == [
        *(("asked", BEGUN), ("claimed", at(1)), ("act", at(30))),
        *(("started", None), ("ended", at(60)), ("review", at(60))),
    ]


def test_a_run_that_has_not_told_its_start_shows_it_as_unknown_and_not_as_never():
    moments = timeline(job("running", claimed_at=at(3)), [], [])
    assert [(each.kind, each.at) for each in moments] == [
        ("asked", BEGUN),
        ("claimed", at(3)),
        ("started", None),
    ]


def test_a_completed_job_tells_of_the_attempt_that_completed_it():
    moments = timeline(
        job("completed", 2, started_at=at(8), ended_at=at(9)),
        [run(1, claimed=1, started=2, ended=3)],
        [],
    )
    assert [each.kind for each in moments][-2:] == ["started", "completed"]
    assert moments[-2].attempt == 2


def test_a_confirmed_job_completed_no_run_and_its_act_says_what_happened():
    runs = [run(1, "lost", claimed=1, started=2, ended=60)]
    confirmed = job("completed", ended_at=at(90), confirmed_by="ops:bob", worker=None)
    assert told(confirmed, runs, [act("confirmed", 1, 90)]) == [
        ("asked", None), ("claimed", 1), ("started", 1), ("ended", 1), ("act", 1),
    ]  # fmt: skip


def test_a_late_report_is_one_moment_and_no_second_run():
    runs = [
        run(1, "lost", claimed=1, started=2, ended=60),
        run(1, "late_completed", claimed=1, started=2, ended=90),
    ]
    moments = timeline(job("needs_review", entered_at=at(90)), runs, [])
    assert [each.kind for each in moments] == [
        "asked",
        "claimed",
        "started",
        "ended",
        "ended",
        "review",
    ]


def worker(beat, lost=None):
    nothing = dict.fromkeys(WorkerRow.__slots__)
    rule = "stale" if lost is not None else None
    moments = {"beat_at": at(beat), "lost_at": None if lost is None else at(lost)}
    return WorkerRow(**{**nothing, "id": WORKER, "lost_rule": rule, **moments})


def test_the_last_word_of_a_lost_worker_and_its_loss_are_moments():
    moments = timeline(
        job("needs_review", entered_at=at(70)),
        [run(1, "lost", claimed=1, started=2, ended=70)],
        [],
        {WORKER: worker(9, 69)},
    )
    assert [(each.kind, each.at) for each in moments] == [
        *(("asked", BEGUN), ("claimed", at(1)), ("started", at(2)), ("beat", at(9))),
        *(("gone", at(69)), ("ended", at(70)), ("review", at(70))),
    ]


def test_a_running_job_shows_when_its_worker_was_last_heard():
    moments = timeline(job("running", claimed_at=at(3)), [], [], {WORKER: worker(40)})
    assert [each.kind for each in moments] == ["asked", "claimed", "started", "beat"]


def test_a_worker_that_only_failed_a_run_has_no_part_in_the_story():
    rows = {WORKER: worker(40, 50)}
    moments = timeline(job("failed"), [run(1, claimed=1, started=2, ended=3)], [], rows)
    assert not {"beat", "gone"} & {each.kind for each in moments}


def test_a_job_that_waits_shows_when_it_is_due():
    moments = timeline(job("waiting", run_at=at(90)), [run(1, claimed=1, started=2, ended=3)], [])
    assert (moments[-1].kind, moments[-1].at, moments[-1].attempt) == ("due", at(90), 2)
    assert told(job("ready", 0, run_at=BEGUN), [], []) == [("asked", None)]


def test_what_came_of_an_act_ends_with_the_run_it_led_to():
    again = act("retried", 1)
    failed = what_came_of(again, job("failed", 2), [run(2, ended=7)])
    done = what_came_of(again, job("completed", 2, ended_at=at(9)), [])
    still = what_came_of(again, job("running", 2), [])
    assert [failed.at, done.at, still.at] == [at(7), at(9), None]


CAME = [
    (act("retried", 1), job("ready", 1), [], "attempt 2 has not begun"),
    (act("retried", 1), job("running", 2), [], "attempt 2 is running"),
    (act("retried", 1), job("completed", 2), [], "attempt 2 completed"),
    (act("retried", 1), job("failed", 2), [run(2, ended=1)], "attempt 2 failed"),
    (
        act("retried", 1),
        job("failed", 3),
        [run(2, "crashed", ended=1), run(3, ended=2)],
        "attempt 2 crashed",
    ),
    (
        act("released", 1),
        job("needs_review", 2),
        [run(2, "lost", ended=1)],
        "attempt 2 was lost with its worker",
    ),
    (
        act("released", 1),
        job("needs_review", 2),
        [run(2, "lost", ended=1), run(2, "late_failed", ended=2)],
        "attempt 2 was lost with its worker",
    ),
    (act("released", 1), job("needs_review", 2), [], "attempt 2: unknown"),
    (act("released", 1), job("completed", 3), [], "attempt 2: unknown"),
    (act("retried", 1), job("cancelled", 1), [], "cancelled before it ran"),
    (act("enqueued", 0), job("ready", 0), [], "attempt 1 has not begun"),
    (act("cancelled", 0), job("cancelled", 0), [], "never ran again"),
    (act("cancelled", 0), job("ready", 0), [], "queued again since"),
    (act("cancelled", 0), job("completed", 1), [], "queued again since"),
    (act("cancel_requested", 1), job("running", 1), [], "attempt 1 is running"),
    (act("cancel_requested", 1), job("completed", 1), [], "attempt 1 completed"),
    (
        act("cancel_requested", 1),
        job("cancelled", 1),
        [run(1, "stopped", ended=1)],
        "attempt 1 was stopped",
    ),
    (act("retried", 1), None, [], "unknown"),
    (act("disabled", None), job("ready", 0), [], "unknown"),
    (act("noted", 1), job("ready", 1), [], "it moved nothing"),
    (act("assigned", 1), None, [], "it moved nothing"),
    (act("revealed", 1), job("failed", 1), [], "it moved nothing"),
    (act("confirmed", 1), job("completed", 1, confirmed_by="ops:bob"), [], "counts as completed"),
    (act("closed", 1), job("cancelled", 1), [], "never ran again"),
    (act("closed", 1), job("completed", 2), [], "queued again since"),
    (
        act("released", 1),
        job("completed", 2, confirmed_by="ops:bob"),
        [run(2, "lost", ended=1)],
        "attempt 2 was lost with its worker",
    ),
]


@pytest.mark.parametrize(
    ("row", "now", "runs", "sentence"), CAME, ids=[f"{each[0].act}: {each[3]}" for each in CAME]
)
def test_what_came_of_an_act_is_what_the_books_say_and_never_a_guess(row, now, runs, sentence):
    assert what_came_of(row, now, runs).said == sentence


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_every_outcome_has_its_words_and_its_colour(outcome):
    assert said(outcome)
    assert tone(outcome) in {"red", "violet", "grey"}
