"""A problem that `check` found: a code for programs, what is wrong, how to mend it."""

from dataclasses import dataclass
from typing import Final, Literal

MOST_PROBLEMS: Final = 100
"""Of a kind."""

Code = Literal[
    "schema.missing",
    "migration.edited",
    "ledger.trigger_missing",
    "ledger.trigger_disabled",
    "ledger.act_changed",
    "ledger.act_removed",
    "ledger.act_inserted",
    "ledger.seal_changed",
    "ledger.seal_removed",
    "ledger.ids_set_back",
    "ledger.unsealed",
    "ledger.one_role",
    "job.two_places",
    "job.no_place",
    "job.no_body",
    "counts.wrong",
    "partition.missing",
    "partition.kept",
    "run.unowned",
]


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is not as it should be. `mend` is what to do about it."""

    code: Code
    what: str
    mend: str

    def __str__(self) -> str:
        """Say both in one sentence."""
        return f"{self.what}: {self.mend}"
