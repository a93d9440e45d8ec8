"""Schedules: rules that enqueue a job every interval, whichever process ticks.

All times are the database's. A due time, its job and the next due time are one commit.
"""

from queue_core.schedules.acts import pause_schedule, resume_schedule, run_schedule_now
from queue_core.schedules.declared import archive_schedules
from queue_core.schedules.tick import Ticked, tick, tick_schedules

__all__ = [
    "Ticked",
    "archive_schedules",
    "pause_schedule",
    "resume_schedule",
    "run_schedule_now",
    "tick",
    "tick_schedules",
]
