"""Attempts as bars on one time axis: where each stands, and what is drawn shorter."""

from datetime import UTC, datetime, timedelta

import pytest

from console.axis import MOST_LANES, axis
from console.timeline import Moment
from queue_core.queries.runs import RunRow

BEGUN = datetime(2026, 11, 29, 2, 30, tzinfo=UTC)


def at(seconds):
    return BEGUN + timedelta(seconds=seconds)


NOW = at(10_000)


def ended(attempt, seconds, outcome="failed", tone="red"):
    nothing = dict.fromkeys(RunRow.__slots__)
    run = RunRow(**{**nothing, "attempt": attempt, "outcome": outcome, "ended_at": at(seconds)})
    return Moment("ended", at(seconds), tone, attempt, run=run)


def attempt(number, claimed, started, end):
    """The moments of a run that failed; None: unknown."""
    moments = [] if claimed is None else [Moment("claimed", at(claimed), "blue", number)]
    begun = None if started is None else at(started)
    return [*moments, Moment("started", begun, "blue", number), ended(number, end)]


ASKED = Moment("asked", BEGUN, "grey")


def test_an_attempt_is_a_bar_from_its_claim_to_its_end():
    drawn = axis([ASKED, *attempt(1, 10, 25, 50)], NOW)
    assert drawn
    (bar,) = drawn.bars
    assert (bar.x, bar.width, bar.entered) == (20.0, 80.0, 50.0)
    assert (drawn.begins, drawn.ends, drawn.gaps, drawn.left_out) == (BEGUN, at(50), [], 0)
    assert (bar.run.tone, bar.run.goes_on) == ("red", False)


def test_all_attempts_stand_on_one_axis():
    drawn = axis([ASKED, *attempt(1, 0, 0, 20), *attempt(2, 40, 50, 100)], NOW)
    assert drawn
    assert [(bar.x, bar.width) for bar in drawn.bars] == [(0.0, 20.0), (40.0, 60.0)]


def test_what_is_no_run_is_a_mark_at_its_time():
    act = Moment("act", at(25), "ink")
    unknown = Moment("review", None, "violet")
    drawn = axis([ASKED, *attempt(1, 0, 0, 20), act, unknown, *attempt(2, 30, 30, 50)], NOW)
    assert drawn
    assert [(mark.moment.kind, mark.x) for mark in drawn.marks] == [("asked", 0.0), ("act", 50.0)]


def test_a_run_that_goes_on_reaches_to_now():
    drawn = axis([ASKED, Moment("claimed", at(5_000), "blue", 1)], NOW)
    assert drawn
    assert (drawn.bars[0].x, drawn.bars[0].width, drawn.ends) == (50.0, 50.0, NOW)
    assert drawn.bars[0].run.goes_on
    assert drawn.bars[0].entered is None


def test_a_late_report_does_not_make_a_run_longer():
    late = ended(1, 400, "late_completed", "violet")
    drawn = axis([ASKED, *attempt(1, 0, 0, 100), late], NOW)
    assert drawn
    assert drawn.bars[0].run.ended == at(100)


def test_where_the_begin_is_unknown_only_the_end_is_drawn():
    drawn = axis([ASKED, *attempt(1, None, None, 100)], NOW)
    assert drawn
    assert (drawn.bars[0].x, drawn.bars[0].width) == (100.0, 0.0)


def test_long_waits_are_drawn_short_and_said_with_their_length():
    drawn = axis([ASKED, *attempt(1, 0, 0, 10), *attempt(2, 86_410, 86_410, 86_420)], NOW)
    assert drawn
    assert [gap.seconds for gap in drawn.gaps] == [86_400.0]
    first, second = drawn.bars
    assert (first.width, second.width) == (25.0, 25.0)
    assert first.x < drawn.gaps[0].x < second.x


def test_short_waits_are_drawn_to_scale():
    drawn = axis([ASKED, *attempt(1, 0, 0, 10), *attempt(2, 40, 40, 50)], NOW)
    assert drawn
    assert drawn.gaps == []


@pytest.mark.parametrize("number", [MOST_LANES, MOST_LANES + 1, 3 * MOST_LANES])
def test_only_the_newest_attempts_are_drawn(number):
    moments = [ASKED]
    for each in range(number):
        moments += attempt(each + 1, each * 10 + 1, each * 10 + 1, each * 10 + 9)
    drawn = axis(moments, NOW)
    assert drawn
    assert [bar.run.attempt for bar in drawn.bars] == list(range(number + 1))[-MOST_LANES:]
    assert drawn.left_out == number - MOST_LANES


@pytest.mark.parametrize(
    "moments",
    [
        [],
        [ASKED],
        [ASKED, Moment("act", at(9), "ink")],
        [ASKED, *attempt(1, 0, 0, 0)],
        [Moment("started", None, "blue", 1), Moment("completed", None, "green", 1)],
    ],
    ids=str,
)
def test_where_nothing_ran_for_a_time_nothing_is_drawn(moments):
    assert axis(moments, NOW) is None


def test_everything_stands_within_the_axis_whatever_the_clocks_said():
    moments = [ASKED, *attempt(1, 50, 40, 20), Moment("due", at(90), "amber", 2)]
    moments += [Moment("beat", at(-30), "grey")]
    drawn = axis(moments, NOW)
    assert drawn
    places = [bar.x for bar in drawn.bars] + [bar.x + bar.width for bar in drawn.bars]
    places += [mark.x for mark in drawn.marks] + [bar.entered or 0 for bar in drawn.bars]
    assert all(0 <= place <= 100 for place in places)
