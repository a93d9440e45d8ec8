"""Lanes: the jobs of one name in one queue stand in a line, and a claimer remembers its place.

While any old snapshot is open, rows that were claimed stay in the index, and a claim that began
at the head of a lane would walk them all. What stands behind the remembered place (it was
committed late, or came with a better priority) is found by a look at all lanes, or told.
"""

import heapq
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple
from uuid import UUID

FEWEST: Final = 16
MOST: Final = 256
"""Lanes in one claim: as many as jobs are wanted, between these two."""
TOLD: Final = 100
"""Jobs behind the place in one lane that are taken by their ids."""
LEAST_QUOTA: Final = 4
QUICK: Final = 0.02
"""A look at all lanes that took more than so many seconds is followed by a pause,"""
LOOK_SHARE: Final = 20
"""of so many times as long as it took beyond that,"""
LONGEST_PAUSE: Final = 1.0
"""but of this many seconds at most."""


class Lane(NamedTuple):
    """The line of one name's jobs in one queue."""

    queue: str
    name: str


class Place(NamedTuple):
    """Where a job stands in its lane; smaller goes first. `due` is `run_at` in UTC, as text."""

    rank: int
    due: str
    id: UUID


class Head(NamedTuple):
    """A lane, and where a job stands in it, mostly its first."""

    lane: Lane
    place: Place


END: Final = Place(2**31 - 1, "infinity", UUID(int=2**128 - 1))
"""Where no job stands any more."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The lanes of a claim: where each begins, where all end, and jobs known behind the starts."""

    starts: Mapping[Lane, Place]
    until: Place
    behind: Sequence[UUID]


class _Entry(NamedTuple):
    """A lane among the others: those that are not dry first, then those with better jobs."""

    is_dry: bool
    place: Place
    lane: Lane


class Lanes:
    """What one claimer remembers of its lanes. For one thread."""

    def __init__(self) -> None:
        self._places: dict[Lane, Place] = {}
        self._behind: dict[Lane, Sequence[UUID]] = {}
        self._dry: set[Lane] = set()
        self._queue: list[_Entry] = []
        self._look_again_at = 0.0

    def may_look(self) -> bool:
        """Say whether looking at all lanes is due again: at once, unless it takes long."""
        return time.monotonic() >= self._look_again_at

    def looked(self, heads: Sequence[Head], seconds: float) -> None:
        """Remember these lanes and no others, found in so many seconds."""
        self._places = {head.lane: head.place for head in heads}
        self._behind = {}
        self._dry = set()
        self._queue = [_Entry(False, head.place, head.lane) for head in heads]
        heapq.heapify(self._queue)
        pause = LOOK_SHARE * max(0.0, seconds - QUICK)
        self._look_again_at = time.monotonic() + min(pause, LONGEST_PAUSE)

    def forget(self) -> None:
        """Forget everything: the next claim begins with a look at all lanes."""
        self.looked((), 0.0)

    def places(self) -> dict[Lane, Place]:
        """Return where the next job of each lane would be looked for."""
        return dict(self._places)

    def told(self, heads: Sequence[Head], behind: Mapping[Lane, Sequence[UUID]]) -> None:
        """Note what another found: where lanes begin, and the first jobs behind our places.

        A lane with more of those than can be told is begun anew.
        """
        self._behind = {lane: jobs for lane, jobs in behind.items() if len(jobs) < TOLD}
        for lane, place in heads:
            is_new = lane not in self._places or len(behind.get(lane, ())) >= TOLD
            if is_new or lane in self._dry:
                self._stand(lane, place if is_new else self._places[lane], is_dry=False)

    def let_go(self) -> None:
        """Forget what was told to stand behind, since others hold some of it; it is told again."""
        self._behind = {}

    def choose(self, is_open: Callable[[Lane], bool], count: int) -> Choice:
        """Choose the open lanes that begin with the best jobs, enough of them for `count`."""
        most = max(FEWEST, min(count, MOST))
        first = [lane for lane in self._behind if lane in self._places and is_open(lane)]
        chosen = {lane: self._places[lane] for lane in first[:most]}
        passed: list[_Entry] = []
        until = END
        while self._queue:
            entry = heapq.heappop(self._queue)
            if not self._holds(entry):
                continue
            passed.append(entry)
            if entry.lane in chosen or not is_open(entry.lane):
                continue
            if len(chosen) >= most:
                until = END if entry.is_dry else entry.place
                break
            chosen[entry.lane] = entry.place
        for entry in passed:
            heapq.heappush(self._queue, entry)
        behind = [job for lane in chosen for job in self._behind.get(lane, ())]
        return Choice(chosen, until, behind)

    def has_more(self, is_open: Callable[[Lane], bool]) -> bool:
        """Say whether an open lane goes on."""
        return any(lane not in self._dry and is_open(lane) for lane in self._places)

    def claimed(
        self,
        choice: Choice,
        stood: Sequence[Head],
        following: Sequence[Head],
        taken: Iterable[UUID] = (),
    ) -> None:
        """Remember where each lane goes on: at its next job, or dry, where the last one `stood`.

        `taken` are the jobs that were claimed, the last ones of their lanes among them.
        """
        last, more = dict(stood), dict(following)
        for lane, start in choice.starts.items():
            place = max(self._places[lane], last.get(lane, start))
            self._stand(lane, more.get(lane, place), is_dry=lane not in more)
        if choice.behind:
            gone = set(taken)
            for lane, jobs in self._behind.items():
                self._behind[lane] = [job for job in jobs if job not in gone]

    def _stand(self, lane: Lane, place: Place, *, is_dry: bool) -> None:
        if self._holds(_Entry(is_dry, place, lane)):
            return
        self._places[lane] = place
        (self._dry.add if is_dry else self._dry.discard)(lane)
        heapq.heappush(self._queue, _Entry(is_dry, place, lane))

    def _holds(self, entry: "_Entry") -> bool:
        """Say whether an entry is still true: it is added anew when its lane goes on."""
        is_dry = entry.lane in self._dry
        return self._places.get(entry.lane) == entry.place and entry.is_dry == is_dry


def quotas(lanes: int, count: int) -> list[int]:
    """Return how many jobs to look at of each lane, the lanes in the order of their first jobs.

    The further back a lane begins, the fewer of its jobs are likely to be among the best.
    """
    fair = LEAST_QUOTA + 2 * count // max(lanes, 1)
    return [max(fair, count >> order) for order in range(lanes)]
