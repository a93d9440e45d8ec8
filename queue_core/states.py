"""The states of a job and every move between them, once, as data."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, get_args

State = Literal[
    "needs_review", "ready", "waiting", "blocked", "running", "completed", "failed", "cancelled"
]
Act = Literal[
    "enqueued",
    "cancelled",
    "cancel_requested",
    "retried",
    "released",
    "confirmed",
    "closed",
    "revealed",
    "assigned",
    "noted",
]
QueueAct = Literal["paused", "resumed"]
ScheduleAct = Literal["paused", "resumed", "run_now"]
OperatorAct = Literal["added", "role_changed", "disabled", "password_reset"]
Outcome = Literal[
    "failed",
    "timed_out",
    "crashed",
    "lost",
    "stopped",
    "returned",
    "deferred",
    "late_completed",
    "late_failed",
]

STATES: Final[tuple[State, ...]] = get_args(State)
QUEUED: Final[frozenset[State]] = frozenset({"ready", "waiting", "blocked"})
ENDED: Final[frozenset[State]] = frozenset({"completed", "failed", "cancelled"})
ACTS: Final[tuple[str, ...]] = (
    *get_args(Act),
    *dict.fromkeys((*get_args(QueueAct), *get_args(ScheduleAct))),
    *get_args(OperatorAct),
)
SUBJECT_KINDS: Final = ("job", "queue", "schedule", "operator")
"""What acts are done to."""
OUTCOMES: Final[tuple[Outcome, ...]] = get_args(Outcome)


class Move(NamedTuple):
    """What a verb does to a job: the states it applies in, and those it can lead to."""

    sources: frozenset[State]
    targets: frozenset[State]


def _move(sources: str, targets: str) -> Move:
    return Move(_states(sources), _states(targets))


def _states(words: str) -> frozenset[State]:
    return frozenset(state for state in STATES if state in words.split())


MOVES: Final[Mapping[str, Move]] = MappingProxyType(
    {
        "enqueue": _move("", "ready waiting"),
        "promote": _move("waiting", "ready"),
        "claim": _move("ready", "running"),
        "complete": _move("running", "completed"),
        "fail": _move("running", "waiting failed cancelled needs_review"),
        "defer": _move("running", "waiting cancelled"),
        "stop": _move("running", "ready cancelled"),
        "give_back": _move("running", "ready cancelled"),
        "recover": _move("running", "ready failed cancelled needs_review"),
        "set_aside": _move("running", "needs_review"),
        "dispute": _move("ready waiting blocked running failed", "needs_review"),
        "cancel": _move("ready waiting blocked running", "cancelled running"),
        "retry": _move("failed cancelled", "ready"),
        "release": _move("needs_review", "ready"),
        "confirm": _move("needs_review", "completed"),
        "close": _move("needs_review", "cancelled"),
    }
)
ACT_VERBS: Final = ("cancel", "retry", "release", "confirm", "close")
"""The verbs that a person does, each signed with an act."""

MARKS: Final[Mapping[str, frozenset[State]]] = MappingProxyType(
    {
        "assign": _states("needs_review failed"),
        "note": _states("needs_review failed"),
        "reveal": frozenset(STATES),
    }
)
"""What a person signs that moves no job, and the states it applies in."""
NEED_BODY: Final = frozenset({"reveal", "release", "retry"})
"""Those that need what was asked for: to run it, or to show it."""


def kind_of(state: str) -> str:
    """Return what a state counts as for somebody who saw it: a job falls due while they type.

    Ready, waiting and blocked are one, `queued`; any other state is its own.
    """
    return "queued" if state in QUEUED else state


def legal_verbs(state: State) -> tuple[str, ...]:
    """Name the acts that a person may do on a job in `state`, in the order pages show them."""
    return tuple(verb for verb in ACT_VERBS if state in MOVES[verb].sources)
