"""Acts: what a person does to jobs, signed, in the same statement as the change."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Final, Literal, LiteralString, Protocol
from uuid import UUID

import psycopg

from queue_core.codes import check_code, check_note
from queue_core.crossings import out_of_order, whole
from queue_core.database import rows
from queue_core.errors import ContendedError, OptionError, TransitionRefusedError
from queue_core.queries.places import Place, locate
from queue_core.states import MARKS, MOVES, NEED_BODY, Act, State, kind_of
from queue_core.waking import wake

Why = Literal["not_found", "wrong_state", "moved_on", "already_asked"]
Seen = Mapping[UUID, tuple[str, int]]

MOST_JOBS: Final = 1_000
MOST_VIA_CHARACTERS: Final = 400
MOST_KILL_SECONDS: Final = 86_400
LOOKS: Final = 20
"""How often a job may slip from place to place under an act before it counts as contended."""
KEPT_MOVING: Final = "the jobs kept moving; nothing was written, so look again and retry"


@dataclass(frozen=True, slots=True)
class ActOutcome:
    """What came of an act on one job.

    Applied: `act` and `act_id` name the ledger's entry; `state` and `attempt` are the job's
    now. Refused: `why` says so, `act` is what was asked for, and state and attempt are the
    job's as found (None where there is no such job).
    """

    job_id: UUID
    applied: bool
    act: str
    act_id: int | None
    state: State | None
    attempt: int | None
    why: Why | None = None

    def raise_if_refused(self) -> "ActOutcome":
        """Return this outcome, or raise TransitionRefusedError where it was refused."""
        if self.why:
            raise TransitionRefusedError(self.job_id, self.act, self.why, self.state)
        return self


@dataclass(frozen=True, slots=True)
class Signature:
    """Who signs an act and why, checked when it is made. Never logged, so not in `repr`.

    `kill_after` belongs to a request to stop: the whole seconds until the run is killed.
    Raises NotACodeError for `by` and `reason`, NoteError for the note, OptionError for the
    rest, before anything is written.
    """

    by: str
    reason: str
    note: str | None = None
    via: str = "code"
    bulk_id: UUID | None = None
    kill_after: int | None = None

    def __post_init__(self) -> None:
        """Check the codes and the note."""
        check_code(self.by, "by")
        check_code(self.reason, "reason")
        object.__setattr__(self, "note", check_note(self.note))
        if not 1 <= len(self.via) <= MOST_VIA_CHARACTERS or not self.via.isprintable():
            message = f"`via` must be 1 to {MOST_VIA_CHARACTERS} printable characters"
            raise OptionError(message)
        _check_kill_after(self.kill_after)

    def __repr__(self) -> str:
        """Name the way the act came in, and nothing that a person wrote."""
        return f"Signature(via={self.via!r})"

    def parameters(self) -> dict[str, object]:
        """Return what the statements of an act bind."""
        return {
            "by": self.by,
            "reason": self.reason,
            "note": self.note,
            "via": self.via,
            "bulk_id": self.bulk_id,
            "kill_after": self.kill_after,
        }


def _check_kill_after(seconds: object) -> None:
    if seconds is None or (type(seconds) is int and 1 <= seconds <= MOST_KILL_SECONDS):
        return
    message = f"`kill_after` must be a whole number of seconds from 1 to {MOST_KILL_SECONDS:,}"
    raise OptionError(message)


class Change(Protocol):
    """A transition that a person signs, such as `cancel`."""

    def __call__(  # noqa: D102 - as the transitions say
        self,
        conn: psycopg.Connection[object],
        ids: Iterable[UUID],
        /,
        *,
        by: str,
        reason: str,
        note: str | None = None,
        seen: Seen | None = None,
        via: str = "code",
        bulk_id: UUID | None = None,
    ) -> list[ActOutcome]: ...


@dataclass(frozen=True, slots=True)
class _Changed:
    """A row of a statement that ends with the clause SIGNED."""

    job_id: UUID
    act: Act
    act_id: int
    state: State
    attempt: int

    def outcome(self) -> ActOutcome:
        return ActOutcome(self.job_id, True, self.act, self.act_id, self.state, self.attempt)


def perform(  # noqa: PLR0917 - called by the acts alone
    conn: psycopg.Connection[object],
    verb: str,
    statement: LiteralString,
    ids: Iterable[UUID],
    signature: Signature,
    seen: Seen | None,
) -> list[ActOutcome]:
    """Run an act's statement on `ids` until each job is changed or refused for a reason.

    Answers in the order given, each job once. A statement sees one snapshot, and a job can
    slip to another place while it waits, so finding nothing means: look where the job
    stands; where the act applies there, run it again; only otherwise it is refused. Raises
    ContendedError, with nothing written, for a job that slips 20 times, and as `whole` does.
    """
    asked = _asked(ids, seen or {})

    def act() -> dict[UUID, ActOutcome]:
        done = _performed(conn, verb, statement, sorted(asked), signature, seen)
        if any(each.applied and each.state == "ready" for each in done.values()):
            wake(conn)
        return done

    done = whole(conn, act)
    return [done[job_id] for job_id in asked]


def _performed(  # noqa: PLR0917 - as `perform`
    conn: psycopg.Connection[object],
    verb: str,
    statement: LiteralString,
    asked: Sequence[UUID],
    signature: Signature,
    seen: Seen | None,
) -> dict[UUID, ActOutcome]:
    done: dict[UUID, ActOutcome] = {}
    pending, states = asked, sorted(_applies(verb))
    for look in range(LOOKS):
        if not pending:
            return done
        parameters = signature.parameters() | _wanted(pending, seen) | {"states": states}
        with out_of_order(conn) if look else nullcontext():
            for changed in rows(conn, statement, parameters, _Changed):
                done[changed.job_id] = changed.outcome()
        missed = [job_id for job_id in pending if job_id not in done]
        done |= _refusals(conn, verb, missed, signature, seen)
        pending = [job_id for job_id in missed if job_id not in done]
    if pending:
        raise ContendedError(KEPT_MOVING)
    return done


def _asked(ids: Iterable[object], seen: Iterable[object]) -> list[UUID]:
    """Return each job once. Raises OptionError for more than fit, or what is no id."""
    asked = list(dict.fromkeys(map(_id, ids)))
    for job_id in seen:
        _id(job_id)
    if len(asked) > MOST_JOBS:
        message = f"at most {MOST_JOBS} jobs can be changed in one commit"
        raise OptionError(message)
    return asked


def _id(job_id: object) -> UUID:
    # As text the statement would find and change the job, and then it would be told as not found.
    if not isinstance(job_id, UUID):
        message = "a job is named by its uuid.UUID, in `ids` and in `seen`, not by text"
        raise OptionError(message)
    return job_id


def _wanted(ids: Sequence[UUID], seen: Seen | None) -> dict[str, object]:
    saw = [seen.get(job_id) if seen else None for job_id in ids]
    return {
        "ids": list(ids),
        "seen_states": [kind_of(each[0]) if each else None for each in saw],
        "seen_attempts": [each[1] if each else None for each in saw],
    }


def _refusals(
    conn: psycopg.Connection[object],
    verb: str,
    ids: Sequence[UUID],
    signature: Signature,
    seen: Seen | None,
) -> dict[UUID, ActOutcome]:
    """Return the refusals among `ids`; a job that is missing here is to be tried again."""
    if not ids:
        return {}
    places = locate(conn, ids)
    refused: dict[UUID, ActOutcome] = {}
    for job_id in ids:
        place = places.get(job_id)
        why = _why_not(verb, place, signature, seen.get(job_id) if seen else None)
        if why:
            state, attempt = (place.state, place.attempt) if place else (None, None)
            refused[job_id] = ActOutcome(job_id, False, _ASKED[verb], None, state, attempt, why)
    return refused


_ASKED: Final = {
    "cancel": "cancelled",
    "retry": "retried",
    "release": "released",
    "confirm": "confirmed",
    "close": "closed",
    "assign": "assigned",
    "note": "noted",
    "reveal": "revealed",
}


def _why_not(
    verb: str, place: Place | None, signature: Signature, saw: tuple[str, int] | None
) -> Why | None:
    """Say why `verb` does not apply to a job that stands at `place`; None where it does."""
    if place is None or (verb in NEED_BODY and not place.has_body):
        return "not_found"
    if saw and (kind_of(saw[0]), saw[1]) != (kind_of(place.state), place.attempt):
        return "moved_on"
    if place.state not in _applies(verb):
        return "wrong_state"
    asked = verb == "cancel" and place.stop_requested_at and not _adds(signature, place)
    return "already_asked" if asked else None


def _adds(signature: Signature, place: Place) -> bool:
    """Say whether a request to stop adds the seconds that the one before it left out."""
    return signature.kill_after is not None and place.kill_after is None


def _applies(verb: str) -> frozenset[State]:
    return MARKS[verb] if verb in MARKS else MOVES[verb].sources
