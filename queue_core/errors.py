"""Every error that Countersign raises on purpose. None carries an argument's value."""

from collections.abc import Sequence


class CountersignError(Exception):
    """The root of all errors below: catch this one to catch them all."""


class NotACodeError(CountersignError):
    """Who or why, given for an act, is not a code.

    `what` names the field (`by` or `reason`); the text itself is never repeated.
    """

    def __init__(self, what: str) -> None:
        self.what = what
        super().__init__(
            f"`{what}` must be 1 to 200 characters, not blank, without line breaks, control, "
            "invisible or direction-changing characters"
        )


class NoteError(CountersignError):
    """The note of an act is longer than 2,000 characters or cannot be stored."""

    def __init__(self) -> None:
        super().__init__("a note must be at most 2,000 characters, without control characters")


class ArgumentsError(CountersignError):
    """A job's arguments do not fit its handler or cannot be stored; nothing was inserted.

    `fields` maps each field's path (empty for the whole) to what is wrong with it.
    """

    def __init__(self, name: str, fields: dict[str, str]) -> None:
        self.name = name
        self.fields = fields
        listed = "; ".join(f"{field or 'arguments'}: {wrong}" for field, wrong in fields.items())
        super().__init__(f"the arguments of {name!r} do not fit: {listed}")


class OptionError(CountersignError):
    """An option of a job, such as its priority or time limit, is out of its range."""


class UnknownNameError(CountersignError):
    """No registry of this process declares a job of this name."""

    def __init__(self, name: str, nearest: Sequence[str]) -> None:
        self.name = name
        self.nearest = tuple(nearest)
        meant = f"; did you mean {' or '.join(map(repr, nearest))}?" if nearest else ""
        super().__init__(f"no job is declared under the name {name!r}{meant}")


class DeclarationError(CountersignError):
    """A handler or job is declared in a way that cannot work; found when the code is imported."""


class ContendedError(CountersignError):
    """Others kept changing the same jobs, or the transaction is stricter than READ COMMITTED.

    Nothing was written. Roll back and run it again, in a READ COMMITTED transaction.
    """


class TransitionRefusedError(CountersignError):
    """An act does not apply to its job in the state it is in; nothing was written."""

    def __init__(self, job_id: object, act: str, why: str, state: str | None) -> None:
        self.job_id = job_id
        self.act = act
        self.why = why
        self.state = state
        place = f"it is {state}" if state else "there is no such job"
        super().__init__(f"job {job_id} was not {act}: {why.replace('_', ' ')} ({place})")


class QueueRefusedError(CountersignError):
    """A queue cannot be paused or resumed as asked: it is so already. Nothing was written."""


class ScheduleRefusedError(CountersignError):
    """An act does not apply to its schedule as it is; nothing was written.

    `why` is not_found, already_paused, not_paused, archived, last_job_queued or
    last_job_running; `because` says it in words.
    """

    def __init__(self, name: str, act: str, why: str) -> None:
        self.name = name
        self.act = act
        self.why = why
        self.because = _WHY_NOT[why]
        super().__init__(f"schedule {name!r}: not {act}: {self.because}")


_WHY_NOT = {
    "not_found": "there is no such schedule",
    "already_paused": "it is paused already",
    "not_paused": "it is not paused",
    "archived": "it is archived, since no code has it any more",
    "last_job_queued": "its last job has not run yet",
    "last_job_running": "its last job is still running",
}


class OperatorRefusedError(CountersignError):
    """An operator cannot be added, changed or signed in as asked; the text says why."""


class TooManyTriesError(CountersignError):
    """Too many failed sign-ins: the next one is not looked at for `seconds`."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(f"too many failed sign-ins; try again in {seconds:.0f} s")


class RunCutOffError(CountersignError):
    """A run was ended before its time: by a signal, or since the database was away too long.

    `exit_code` is the one of a worker that ends so.
    """

    def __init__(self, exit_code: int) -> None:
        self.exit_code = exit_code
        super().__init__("the run was cut off before its end")


class SchemaError(CountersignError):
    """The schema is missing, newer than this code, edited or unsound; the text says how to mend."""


class DatabaseAwayError(CountersignError):
    """The database could not be reached or went away."""


class TookTooLongError(CountersignError):
    """The database ended a statement that took longer than it may; nothing was written."""


class EmbeddedError(CountersignError):
    """The embedded Postgres cannot be started here; the text says what to do."""


class SettingsError(CountersignError):
    """A setting in the environment cannot be used; the text names it and says what it takes."""
