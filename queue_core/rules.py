"""A schedule as code declares it: its rule, and the job that it enqueues."""

import hashlib
import json
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from queue_core.errors import OptionError
from queue_core.jobs import LONGEST_SECONDS, check_seconds

SHORTEST_SECONDS: Final = 1.0
_UNITS: Final = {"seconds": 1, "minutes": 60, "hours": 3_600, "days": 86_400}


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule ready to be ticked: its job's options resolved, its arguments as JSON text.

    `every` is in seconds; `first_at` counts only when the schedule's row is made. `repr`
    leaves the arguments out.
    """

    name: str
    every: float
    first_at: datetime | None
    job: str
    queue: str
    args: str = field(repr=False)
    priority: int = 0
    attempts: int | None = None
    time_limit: float | None = None

    def fingerprint(self) -> str:
        """Return what is the same for two schedules that enqueue the same job at the same pace."""
        said = [self.every, self.job, self.queue, self.args]
        said += [self.priority, self.attempts, self.time_limit]
        return hashlib.sha256(json.dumps(said).encode()).hexdigest()


def interval(**units: float | None) -> float:
    """Return the sum of seconds, minutes, hours and days in seconds.

    Raises OptionError where none is given, or the sum is under a second or over ten years.
    """
    given = {unit: amount for unit, amount in units.items() if amount is not None}
    if not given:
        message = "give its interval: seconds, minutes, hours or days"
        raise OptionError(message)
    total = sum(
        check_seconds(amount, unit, zero=True) * _UNITS[unit] for unit, amount in given.items()
    )
    if not SHORTEST_SECONDS <= total <= LONGEST_SECONDS:
        message = f"its interval must be 1 to {LONGEST_SECONDS:.0f} seconds"
        raise OptionError(message)
    return total
