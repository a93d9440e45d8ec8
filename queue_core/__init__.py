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
    SchemaError,
    TransitionRefusedError,
    UnknownNameError,
)
from queue_core.jobs import Enqueued, NewJob
from queue_core.registry import PermanentError, Registry, RetryAfter, Run
from queue_core.transitions.cancel import cancel
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
    "NewJob",
    "NotACodeError",
    "NoteError",
    "OptionError",
    "PermanentError",
    "Registry",
    "RetryAfter",
    "Run",
    "SchemaError",
    "TransitionRefusedError",
    "UnknownNameError",
    "cancel",
    "enqueue",
    "enqueue_many",
    "enqueue_signed",
    "release",
    "retry",
]
