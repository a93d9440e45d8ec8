"""docs/storage.md lists the tables that there are."""

import re
from pathlib import Path

from queue_core.check.schema import COLUMNS

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "storage.md").read_text(encoding="utf-8")


def test_every_table_is_listed_and_no_other() -> None:
    part = PAGE.partition("## Tables")[2].partition("\n## ")[0]
    listed = re.findall(r"^\| `(\w+)` \|", part, re.MULTILINE)
    assert sorted(listed) == sorted(set(COLUMNS) - {"job_states"})
    assert "`countersign.job_states`" in part
