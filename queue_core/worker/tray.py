"""The tray: what came of the runs that children were given, for the supervisor to take."""

from collections.abc import Sequence
from uuid import UUID

from queue_core.outcomes import Ending
from queue_core.worker.books import Begun, Finished, Returned, RunInHand, finished, not_begun
from queue_core.worker.children import Child
from queue_core.worker.frames import FrameError
from queue_core.worker.lead import Lead
from queue_core.worker.messages import Report
from queue_core.worker.offers import Offers


class Tray:
    """For the main thread alone, but for `begun`.

    What ended lies in `ended`; runs that were cut off, without an ending of their own, in `cut`.
    """

    def __init__(self, offers: Offers, lead: Lead) -> None:
        """Learn from runs that are safe to repeat, as `offers` says, how large `lead` may be."""
        self._offers = offers
        self._lead = lead
        self.begun = Begun()
        self.ended: list[Finished] = []
        self.can_wait = True
        """Whether all that ended is safe to repeat, should this process end before it is stored."""
        self.cut: list[RunInHand] = []

    def end(
        self,
        child: Child,
        run: RunInHand,
        ending: Ending | Returned,
        report: Report | None = None,
    ) -> None:
        """Note how a run of a child ended, and that the one behind it has begun."""
        is_safe = self._offers.is_safe(run.claimed.name)
        self.ended.append(finished(run, ending, report))
        self.can_wait &= is_safe
        child.end(run, report.seconds if report else 0.0)
        if is_safe and not (child.going or child.ahead):
            self._lead.took(child.lead, child.lead_seconds)

    def take(self) -> list[Finished]:
        """Take what ended out of the tray."""
        taken, self.ended = self.ended, []
        self.can_wait = True
        return taken

    def cut_off(self, child: Child, run: RunInHand) -> None:
        """Note a run that goes on as cut off."""
        self.cut.append(run)
        child.end(run, 0.0)

    def give_back(self, child: Child) -> None:
        """Give back the runs that a child has not begun and never will."""
        self.ended += [not_begun(run.claimed, Returned()) for run in child.ahead]
        child.ahead.clear()

    def take_back(self, child: Child, ids: Sequence[UUID]) -> None:
        """Give back the runs that a child says it has not begun, the last it was given.

        Raises FrameError where they are others.
        """
        kept = len(child.ahead) - len(ids)
        if [run.claimed.id for run in child.ahead][max(kept, 0) :] != list(ids):
            raise FrameError("not the runs that have not begun")
        dropped = [child.ahead.pop() for _ in ids]
        self.ended += [not_begun(run.claimed, Returned()) for run in reversed(dropped)]

    def note(self, child: Child) -> None:
        """Let the heartbeat know which runs go on in a child."""
        going = tuple(child.going.values())
        if going != child.noted:
            child.noted = going
            self.begun.note(child.pid, going)
