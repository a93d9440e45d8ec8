"""How runs end whose child cannot say it: it died, went silent, or was stopped."""

from typing import Final

from queue_core.outcomes import Failed

CLAIM_TAKEN: Final = Failed("stopped: its claim was taken")
NO_MESSAGE: Final = Failed("crashed: sent what is no message", outcome="crashed")
HUNG_UP: Final = Failed("crashed: closed its line to the worker", outcome="crashed")


def timed_out(limit: float) -> Failed:
    """Return the end of a run that went on for longer than its limit, in seconds."""
    said = f"{limit:.0f}s" if limit >= 1 and limit.is_integer() else f"{limit:g}s"
    return Failed(f"timed out after {said}", outcome="timed_out")


def crashed(code: int) -> Failed:
    """Return the end of a run whose child ended with an exit code, negative for a signal."""
    if code < 0:
        return Failed(f"crashed: signal {-code}", outcome="crashed", signal=-code)
    return Failed(f"crashed: exit code {code}", outcome="crashed")
