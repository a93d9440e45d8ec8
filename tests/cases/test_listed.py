"""The list of cases says the truth: each is tested, cannot arise, or waits for what it is about."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROW = re.compile(r"^\| (\d+a?) \|", re.MULTILINE)
TEST = re.compile(r"^(?:async )?def test_(?:[a-d]\d\d_)?case_0*(\d+a?)_", re.MULTILINE)
CASES = """
1 2 3 6 7 8 9 10 12 14 15 16 18 19 21 23 24 24a 25 27 28 29 30 32 33 35 37 39 40 41 42 44 45 46 48
49 50 51 53 55 57 59 60 62 64 65 67 69 71 72 73 74 76 77 78 79 81 83 84 86 87 89
"""


def test_each_case_is_tested_or_listed_and_never_both() -> None:
    listed = ROW.findall((ROOT / "docs" / "cases.md").read_text())
    tested = {
        case
        for file in (ROOT / "tests").rglob("test_*.py")
        for case in TEST.findall(file.read_text())
    }
    assert len(set(listed)) == len(listed)
    assert tested & set(listed) == set()
    assert tested | set(listed) == set(CASES.split())
