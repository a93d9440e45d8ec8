"""Countersign: a job queue on Postgres in which every act of a person is signed.

Declare jobs in a `Registry`, `enqueue` them inside your own transactions, run them with
`flask queue work`, and let people look after them in the console.
"""

from queue_core.acts import ActOutcome
from queue_core.client import Client
from queue_core.errors import (
    ArgumentsError,
    ContendedError,
    CountersignError,
    DatabaseAwayError,
    DeclarationError,
    NotACodeError,
    NoteError,
    OptionError,
    QueueRefusedError,
    ScheduleRefusedError,
    SchemaError,
    TookTooLongError,
    TransitionRefusedError,
    UnknownNameError,
)
from queue_core.jobs import Enqueued, NewJob
from queue_core.marks import assign, note, reveal
from queue_core.queries.arguments import revealed as revealed_arguments
from queue_core.queries.attention import Need, attention
from queue_core.queries.queues import list_queues, queue_size
from queue_core.queries.schedules import list_schedules
from queue_core.queues import pause_queue, resume_queue
from queue_core.registry import Registry
from queue_core.run import PermanentError, RetryAfter, Run, Stopped
from queue_core.schedules import (
    archive_schedules,
    pause_schedule,
    resume_schedule,
    run_schedule_now,
    tick_schedules,
)
from queue_core.transitions.cancel import cancel
from queue_core.transitions.clear import clear_queue
from queue_core.transitions.close import close
from queue_core.transitions.confirm import confirm
from queue_core.transitions.enqueue import enqueue, enqueue_many, enqueue_signed
from queue_core.transitions.release import release
from queue_core.transitions.retry import retry

__all__ = [
    "ActOutcome",
    "ArgumentsError",
    "Client",
    "ContendedError",
    "CountersignError",
    "DatabaseAwayError",
    "DeclarationError",
    "Enqueued",
    "Need",
    "NewJob",
    "NotACodeError",
    "NoteError",
    "OptionError",
    "PermanentError",
    "QueueRefusedError",
    "Registry",
    "RetryAfter",
    "Run",
    "ScheduleRefusedError",
    "SchemaError",
    "Stopped",
    "TookTooLongError",
    "TransitionRefusedError",
    "UnknownNameError",
    "archive_schedules",
    "assign",
    "attention",
    "cancel",
    "clear_queue",
    "close",
    "confirm",
    "enqueue",
    "enqueue_many",
    "enqueue_signed",
    "list_queues",
    "list_schedules",
    "note",
    "pause_queue",
    "pause_schedule",
    "queue_size",
    "release",
    "resume_queue",
    "resume_schedule",
    "retry",
    "reveal",
    "revealed_arguments",
    "run_schedule_now",
    "tick_schedules",
]
