"""What a list is filtered by: read from the URL, written back into every link of the page."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from queue_core.errors import OptionError
from queue_core.jobs import MAX_NAME_CHARACTERS
from queue_core.states import STATES, State

FIRST_STATE: Final[State] = "failed"
"""The list that people come for when they name none."""

_KNOWN: Final[Mapping[str, State]] = {state: state for state in STATES}


class FilterError(OptionError):
    """A filter of the URL cannot be one; `fields` says what is wrong with each."""

    def __init__(self, fields: Mapping[str, str]) -> None:
        self.fields = dict(fields)
        super().__init__("; ".join(self.fields.values()))


@dataclass(frozen=True, slots=True)
class JobFilter:
    """One state, and of it the jobs of one queue, one name, both, or all."""

    state: State
    queue: str | None = None
    name: str | None = None

    @property
    def narrows(self) -> bool:
        """Whether there may be jobs in this state that the list does not show."""
        return self.queue is not None or self.name is not None

    def of(self, state: State) -> "JobFilter":
        """Return the same filters over another state."""
        return replace(self, state=state)

    def query(self, **more: str) -> dict[str, str]:
        """Return what stands in the URL, with `more` beside it."""
        given = {"state": self.state, "queue": self.queue, "name": self.name}
        return {key: value for key, value in given.items() if value is not None} | more

    def faults(self) -> dict[str, str]:
        """Say of each filter what is wrong with it; nothing where all can be looked for."""
        fields = {"queue": self.queue, "name": self.name}
        return {field: fault for field, text in fields.items() if (fault := _fault(field, text))}


def job_filter(arguments: Mapping[str, str]) -> JobFilter:
    """Read the filters of a job list, as they are, good or not; blank ones do not count.

    Raises FilterError where the state is none that there is.
    """
    state = arguments.get("state") or FIRST_STATE
    found = _KNOWN.get(state)
    if found is None:
        raise FilterError({"state": f"There is no such state; the states are {', '.join(STATES)}."})
    return JobFilter(found, arguments.get("queue") or None, arguments.get("name") or None)


def _fault(field: str, text: str | None) -> str | None:
    if text is None or (len(text) <= MAX_NAME_CHARACTERS and "\0" not in text):
        return None
    return f"A {field} has at most {MAX_NAME_CHARACTERS} characters, none of them NUL."
