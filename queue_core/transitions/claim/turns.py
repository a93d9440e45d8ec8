"""The turns of a claim: statement by statement over its lanes, until there is enough."""

import time
from collections.abc import Mapping, Sequence
from typing import Final, LiteralString
from uuid import UUID

import psycopg

from queue_core.lanes import Choice, Lane, Lanes
from queue_core.queries.lanes import heads
from queue_core.transitions.claim.statement import (
    FIRST_LOOK,
    LOOK_PAST_WHAT_IS_HELD,
    Room,
    take,
)
from queue_core.transitions.claim.values import Claimable, Claimed

MOST_TRIES: Final = 8
"""Statements of one claim that take, so that it never spins."""


def claim(
    conn: psycopg.Connection[object],
    *,
    worker: UUID,
    names: Sequence[Claimable],
    queues: Sequence[str] | None = None,
    count: int,
    capacities: Mapping[str, int] | None = None,
    rooms: Mapping[str, int] | None = None,
    lanes: Lanes | None = None,
) -> list[Claimed]:
    """Take up to `count` due jobs of these names and queues (None: all) for `worker`.

    No more are taken of a name than its capacity and from a queue than its room, where one is
    given. Jobs that another claimer holds are passed over. Only names given are ever claimed.
    `lanes` is what this claimer remembers, to be forgotten if the transaction does not commit.
    """
    under_way = _Claim(conn, worker, names, queues, lanes or Lanes())
    under_way.left = count
    under_way.capacities |= capacities or {}
    under_way.rooms |= rooms or {}
    if names and count > 0:
        under_way.take_all()
    return under_way.taken


class _Claim:
    """One claim under way: what it took, and how many more it may take."""

    def __init__(
        self,
        conn: psycopg.Connection[object],
        worker: UUID,
        names: Sequence[Claimable],
        queues: Sequence[str] | None,
        lanes: Lanes,
    ) -> None:
        self.taken: list[Claimed] = []
        self.left = 0
        self.capacities: dict[str, int] = {}
        self.rooms: dict[str, int] = {}
        self._conn = conn
        self._worker = worker
        self._names = {each.name: each for each in names}
        self._queues = queues
        self._lanes = lanes

    def take_all(self) -> None:
        """Take from the lanes remembered; where they give too little, look at all lanes once."""
        has_looked = False
        for _ in range(MOST_TRIES):
            choice = self._lanes.choose(self._is_open, self.left)
            took = self._take(choice) if choice.starts else 0
            if self.left == 0:
                return
            if took and self._lanes.has_more(self._is_open):
                continue
            if has_looked or not self._lanes.may_look():
                return
            self._look()
            has_looked = True

    def _is_open(self, lane: Lane) -> bool:
        is_asked = self._queues is None or lane.queue in self._queues
        return is_asked and lane.name in self._names and min(self._room(lane)) > 0

    def _room(self, lane: Lane) -> Room:
        of_name = self.capacities.get(lane.name, self.left)
        of_queue = self.rooms.get(lane.queue, self.left)
        return Room(min(of_name, self.left), min(of_queue, self.left))

    def _look(self) -> None:
        began = time.monotonic()
        found = heads(self._conn)
        self._lanes.looked(found, time.monotonic() - began)

    def _take(self, choice: Choice) -> int:
        """Take what these lanes give, and return how many jobs that was."""
        before = self.left
        candidates = self._run(choice, FIRST_LOOK)
        if before - self.left < candidates:
            # Another claimer holds some of the best: look past them.
            self._run(choice, LOOK_PAST_WHAT_IS_HELD)
            self._lanes.let_go()
        return before - self.left

    def _run(self, choice: Choice, look: LiteralString) -> int:
        """Run the statement once, and return how many jobs it saw that it could have taken."""
        took = take(
            self._conn,
            look,
            worker=self._worker,
            names=[self._names[lane.name] for lane in choice.starts],
            choice=choice,
            rooms=[self._room(lane) for lane in choice.starts],
            count=self.left,
        )
        self._lanes.claimed(choice, took.stood, took.following, (run.id for run in took.runs))
        self._count(took.runs)
        return took.candidates

    def _count(self, runs: Sequence[Claimed]) -> None:
        self.taken += runs
        self.left -= len(runs)
        for each in runs:
            if each.name in self.capacities:
                self.capacities[each.name] -= 1
            if each.queue in self.rooms:
                self.rooms[each.queue] -= 1
