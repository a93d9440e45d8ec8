"""How runs end that do not end by themselves: told to stop, and killed with their child."""

import time
from typing import Final

from queue_core.outcomes import Ending, Failed, Stopped
from queue_core.worker import logs
from queue_core.worker.books import Returned, RunInHand
from queue_core.worker.children import Child
from queue_core.worker.messages import stop_frame
from queue_core.worker.verdicts import WITH_ANOTHER, by_force

STOP_SECONDS: Final = 5.0
"""From telling a run to stop until its child is killed."""
CANCELLED: Final = "asyncio.exceptions.CancelledError"


def end_by_force(child: Child, run: RunInHand, verdict: Failed | Stopped) -> None:
    """Tell a run to stop: it ends so, and its child is killed should it go on."""
    run.verdict = verdict
    run.kill_process_at = time.monotonic() + STOP_SECONDS
    child.say(stop_frame(run.claimed.id))


def cancel_all(child: Child, until: float) -> None:
    """Cancel all that goes on in a child's event loop, and have it killed at `until`."""
    child.kill_at = until
    for run in child.going.values():
        child.say(stop_frame(run.claimed.id))


def look_at_runs(child: Child) -> None:
    """Stop the runs of a child that are past their limit."""
    now = time.monotonic()
    for run in child.going.values():
        if now < run.next_act():
            continue
        if run.verdict is None:
            end_by_force(child, run, by_force(run))
        else:
            others = len(child.going) - 1
            logs.warning(
                "a run did not stop and its process is killed", **run.named(), others=others
            )
            child.kill()
            return


def judge(child: Child, verdict: Failed) -> None:
    """Note how the runs of a child end that says nothing usable any more."""
    for run in child.going.values():
        run.verdict = run.verdict or verdict


def ending_in_death(
    child: Child, run: RunInHand, how: Failed, *, killed: bool
) -> Ending | Returned:
    """Return how a run ends with its child, which died so, or was `killed` by us."""
    if run.verdict or not killed:
        return run.verdict or how
    # Alone it began when the run that we killed for was over by then, and is safe to repeat.
    return WITH_ANOTHER if child.shares else Returned()


def was_cut_off(child: Child, ending: Ending | Returned) -> bool:
    """Say whether a run that was cancelled for a shutdown ended by that alone."""
    is_cancelled = isinstance(ending, Failed) and ending.error_type == CANCELLED
    return is_cancelled and child.shares == "loop"
