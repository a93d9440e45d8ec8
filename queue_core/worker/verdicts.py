"""How runs end whose child cannot say it: it died, went silent, or was stopped."""

import signal
from typing import Final

from queue_core.outcomes import Failed, Stopped
from queue_core.worker.books import RunInHand
from queue_core.worker.memory import OUT_OF_MEMORY

CLAIM_TAKEN: Final = Failed("stopped: its claim was taken")
NO_MESSAGE: Final = Failed("crashed: sent what is no message", outcome="crashed")
WITH_ANOTHER: Final = Failed(
    "crashed: its process was killed for another run, which did not stop", outcome="crashed"
)
"""Nobody knows how far it was: the next is its author's, or a person's, to decide."""
HUNG_UP: Final = Failed("crashed: closed its line to the worker", outcome="crashed")


def by_force(run: RunInHand) -> Failed | Stopped:
    """Return the end of a run that is stopped by force: for a request, or for its limit."""
    if run.kill_at <= run.stop_at:
        return Stopped(f"killed {run.kill_after}s after it was asked to stop", killed=True)
    return timed_out(run.claimed.time_limit or 0.0)


def timed_out(limit: float) -> Failed:
    """Return the end of a run that went on for longer than its limit, in seconds."""
    said = f"{limit:.0f}s" if limit >= 1 and limit.is_integer() else f"{limit:g}s"
    return Failed(f"timed out after {said}", outcome="timed_out")


def crashed(code: int, *, killed_for_memory: bool = False) -> Failed:
    """Return the end of a run whose child ended with an exit code, negative for a signal.

    `killed_for_memory`: the kernel has killed some process for want of it since the child began.
    """
    if code == OUT_OF_MEMORY:
        return Failed("crashed: out of memory", outcome="crashed")
    if code < 0:
        perhaps = killed_for_memory and code == -signal.SIGKILL
        why = ", perhaps for want of memory" if perhaps else ""
        return Failed(f"crashed: signal {-code}{why}", outcome="crashed", signal=-code)
    return Failed(f"crashed: exit code {code}", outcome="crashed")
