"""A job's attempts as bars on one time axis, in percent of its width."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Final

from console.timeline import LATE, Moment

MOST_LANES: Final = 12
"""Attempts drawn, the newest; the list beside has them all."""
MOST_IDLE: Final = 3.0
"""So many times longer than anything ran may gaps be before they are drawn shorter."""


@dataclass(frozen=True, slots=True)
class Run:
    """An attempt's known times; `ended` is that of now where it goes on."""

    attempt: int
    claimed: datetime | None
    started: datetime | None
    ended: datetime
    tone: str
    goes_on: bool

    @property
    def begun(self) -> datetime:
        """The earliest time that is known of it."""
        return self.claimed or self.started or self.ended


@dataclass(frozen=True, slots=True)
class Bar:
    """An attempt as it is drawn: from `x`, `width` wide, its code entered at `entered`."""

    run: Run
    x: float
    width: float
    entered: float | None


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment that is no run, as it is drawn."""

    moment: Moment
    x: float


@dataclass(frozen=True, slots=True)
class Gap:
    """A time without a run that is drawn shorter than it was: in its middle, so many seconds."""

    x: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Axis:
    """All of it, and how many attempts are left out, the oldest."""

    begins: datetime
    ends: datetime
    bars: list[Bar]
    marks: list[Mark]
    gaps: list[Gap]
    left_out: int


def axis(moments: Sequence[Moment], now: datetime) -> Axis | None:
    """Lay a timeline's attempts and moments out; None where no attempt has a length.

    True to scale where that can be read; where nothing ran for long, the gaps are shortened.
    """
    known = _runs(moments, now)
    runs = known[-MOST_LANES:]
    shown = [each for each in moments if each.at and (not runs or _is_seen(each, runs[0]))]
    times = sorted({time for run in runs for time in (run.begun, run.ended)} | _times(shown))
    if not runs or times[0] == times[-1]:
        return None
    scale = _Scale(times, runs)
    return Axis(
        begins=times[0],
        ends=times[-1],
        bars=[_bar(run, scale) for run in runs],
        marks=[Mark(each, scale.at(each.at)) for each in shown if each.at and _is_mark(each)],
        gaps=scale.gaps,
        left_out=len(known) - len(runs),
    )


def _is_seen(moment: Moment, first: Run) -> bool:
    """Leave out what belongs to attempts that are left out, but for the asking."""
    return moment.at is not None and (moment.kind == "asked" or moment.at >= first.begun)


def _is_mark(moment: Moment) -> bool:
    return moment.kind not in {"claimed", "started", "ended", "completed"}


def _times(moments: Sequence[Moment]) -> set[datetime]:
    return {each.at for each in moments if each.at}


def _runs(moments: Sequence[Moment], now: datetime) -> list[Run]:
    attempts = sorted(
        {each.attempt or 0 for each in moments if each.kind in {"claimed", "started"}}
    )
    return [run for attempt in attempts if attempt and (run := _run(attempt, moments, now))]


def _run(attempt: int, moments: Sequence[Moment], now: datetime) -> Run | None:
    of_it = [each for each in moments if each.attempt == attempt and each.act is None]
    ends = [each for each in of_it if _is_end(each)]
    end = ends[-1] if ends else None
    at = end.at if end else now
    if at is None:
        return None
    claimed, started = (_first(of_it, kind) for kind in ("claimed", "started"))
    return Run(attempt, claimed, started, at, end.tone if end else "blue", end is None)


def _is_end(moment: Moment) -> bool:
    late = moment.run is not None and moment.run.outcome in LATE
    return moment.kind == "completed" or (moment.kind == "ended" and not late)


def _first(moments: Sequence[Moment], kind: str) -> datetime | None:
    return next((each.at for each in moments if each.kind == kind), None)


def _bar(run: Run, scale: "_Scale") -> Bar:
    x = scale.at(run.begun)
    return Bar(
        run,
        x,
        round(max(scale.at(run.ended) - x, 0.0), 3),
        scale.at(run.started) if run.started else None,
    )


class _Scale:
    """Where a time stands, in percent; between two known times it goes on evenly."""

    def __init__(self, times: Sequence[datetime], runs: Sequence[Run]) -> None:
        spans = [_Span(begin, end, _is_busy(begin, end, runs)) for begin, end in pairwise(times)]
        most = _longest_gap(spans)
        self._at = {times[0]: 0.0}
        self.gaps: list[Gap] = []
        whole = sum(min(each.seconds, most) if not each.busy else each.seconds for each in spans)
        for end, x, gap in _laid(spans, most, whole):
            self._at[end] = x
            self.gaps += gap

    def at(self, moment: datetime) -> float:
        """Return where a time stands that is one of the scale's own, or between its ends."""
        if moment in self._at:
            return self._at[moment]
        before = max((each for each in self._at if each <= moment), default=min(self._at))
        return self._at[before]


@dataclass(frozen=True, slots=True)
class _Span:
    begin: datetime
    end: datetime
    busy: bool

    @property
    def seconds(self) -> float:
        return (self.end - self.begin).total_seconds()


def _is_busy(begin: datetime, end: datetime, runs: Sequence[Run]) -> bool:
    return any(run.begun <= begin and end <= run.ended for run in runs)


def _longest_gap(spans: Sequence[_Span]) -> float:
    """Return how long a gap may be drawn: as long as it was, unless little would be seen."""
    busy = sum(each.seconds for each in spans if each.busy)
    idle = [each.seconds for each in spans if not each.busy]
    if not busy or sum(idle) <= MOST_IDLE * busy:
        return max(idle, default=0.0)
    return busy / len(idle)


def _laid(
    spans: Sequence[_Span], most: float, whole: float
) -> Iterator[tuple[datetime, float, list[Gap]]]:
    done = 0.0
    for each in spans:
        drawn = each.seconds if each.busy else min(each.seconds, most)
        middle = round(100 * (done + drawn / 2) / whole, 3)
        done += drawn
        gap = [Gap(middle, each.seconds)] if drawn < each.seconds else []
        yield each.end, round(100 * done / whole, 3), gap
