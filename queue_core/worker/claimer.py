"""The claimer: what one worker remembers of its lanes, and what is found behind its back.

The clerk claims with it. Once a second maintenance looks, on its own connection, for what stands
behind the remembered places: jobs that were committed late, have a better priority or came back.
"""

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from queue_core.lanes import Head, Lane, Lanes, Place
from queue_core.queries.lanes import behind, heads
from queue_core.transitions.claim import Claimed, claim
from queue_core.worker.requests import Connection, Request

PROBE_SHARE: Final = 4
"""A probe is followed by a pause of so many times as long as it took, should it take long."""


@dataclass(frozen=True, slots=True)
class _Found:
    """What a probe found: the head of each lane, and what stands behind our places."""

    heads: Sequence[Head]
    behind: Mapping[Lane, Sequence[UUID]]


class Claimer:
    """Claims for one worker. `probe` is for another thread than the rest."""

    def __init__(self, worker: UUID) -> None:
        self._worker = worker
        self._lanes = Lanes()
        self._lock = threading.Lock()
        self._places: Mapping[Lane, Place] = {}
        self._found: _Found | None = None
        self._probe_at = 0.0
        self._fell_short = True

    def claim(self, conn: Connection, request: Request) -> list[Claimed]:
        """Claim what the request asks for, within its caps and the limits of its names."""
        self._take_over()
        taken = claim(
            conn,
            worker=self._worker,
            names=request.offers,
            queues=list(request.queues) or None,
            count=request.free,
            capacities=request.capacities(),
            rooms=request.rooms(),
            lanes=self._lanes,
        )
        with self._lock:
            self._places = self._lanes.places()
            self._fell_short = len(taken) < request.free
        return taken

    def forget(self) -> None:
        """Forget all places, after a lost connection or a rollback."""
        self._lanes.forget()

    def probe(self, conn: Connection) -> None:
        """Look behind the places of the last claim, for the next one.

        One that fell short has looked at all lanes itself, and so will the next that does.
        """
        if self._fell_short or time.monotonic() < self._probe_at:
            return
        with self._lock:
            places = self._places
        began = time.monotonic()
        found = heads(conn)
        late = {lane: places[lane] for lane, place in found if place < places.get(lane, place)}
        ids = behind(conn, late) if late else {}
        with self._lock:
            self._found = _Found(found, ids)
        now = time.monotonic()
        self._probe_at = now + PROBE_SHARE * (now - began)

    def _take_over(self) -> None:
        with self._lock:
            found, self._found = self._found, None
        if found:
            self._lanes.told(found.heads, found.behind)
