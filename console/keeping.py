"""Until when a job is kept that has ended, by the settings of this process."""

from collections.abc import Callable
from datetime import datetime, timedelta

from queue_core.retention import Keep
from queue_core.settings import Settings
from queue_core.states import State


def until(settings: Settings) -> Callable[[datetime, State], datetime]:
    """Return what says until when a job that ended then, in that state, is kept at least."""
    keep = Keep(settings.keep_days, settings.keep_failed_days)

    def kept_until(ended_at: datetime, state: State) -> datetime:
        return ended_at + timedelta(days=keep.of(state))

    return kept_until
