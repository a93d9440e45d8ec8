"""The triggers that guard the ledger, as its migrations made them."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

OWNER: Final = "countersign_owner"
FIXED_PATH: Final = ["search_path=pg_catalog, pg_temp"]
ROW, BEFORE, INSERT, DELETE, UPDATE, TRUNCATE = 1, 2, 4, 8, 16, 32
"""The bits of pg_trigger.tgtype."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A trigger of the ledger; `sha256` is of its function's body."""

    kind: int
    function: str
    sha256: str
    definer: bool


def _stamp(function: str, sha256: str) -> Wanted:
    return Wanted(ROW | BEFORE | INSERT, function, sha256, definer=True)


def _refuse(kind: int) -> Wanted:
    sha256 = "ab064d9bedd6eb0f0bfbe21b0cdb64fda4707118e30f681e1d57bf79fab0e467"
    return Wanted(BEFORE | UPDATE | DELETE | kind, REFUSE, sha256, definer=False)


REFUSE: Final = "countersign.refuse_change"
STAMP_ACT: Final = _stamp(
    "countersign.stamp_act", "5080336d3ac40dca0a4434d07f8cd54f9e95d3fa12b09b15f84528bc6423ceff"
)
STAMP_SEAL: Final = _stamp(
    "countersign.stamp_seal", "f66912fdff30dc5c3b571e7d2f65619d777cf5af45a07ff7170a54dfca93abc3"
)
GUARDED: Final[Mapping[str, str]] = MappingProxyType({"acts": "ledger", "seals": "chain of seals"})
"""The tables that are only ever added to, and what they are called."""
TRIGGERS: Final[Mapping[str, Mapping[str, Wanted]]] = MappingProxyType(
    {
        "acts": {
            "acts_stamp": STAMP_ACT,
            "acts_refuse_row": _refuse(ROW),
            "acts_refuse_statement": _refuse(TRUNCATE),
        },
        "seals": {
            "seals_stamp": STAMP_SEAL,
            "seals_refuse_row": _refuse(ROW),
            "seals_refuse_statement": _refuse(TRUNCATE),
        },
    }
)
