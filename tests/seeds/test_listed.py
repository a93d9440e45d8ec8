"""The list of behaviours says the truth: each row has tests of its name, in the files it names."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROW = re.compile(r"^\| ([A-D]\d+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
ROWS = ROW.findall((ROOT / "docs" / "seeds.md").read_text())
TEST = re.compile(r"^def (test_([a-d]\d\d)_\w+)", re.MULTILINE)
NAMED = (
    "A1 A2 A3 A4 A5 A6 A7 A8 A9 A10 A11 A12 A13 A14 A15 A16 A17 A18 A19 A20 A21 A22 A23 A24 A25 "
    "A26 B1 B4 B6 B8 B9 C1 C2 C3 C4 C6 C7 C9 D6"
)


def begins(row: str) -> str:
    """Return how the tests of a row begin: A7 is test_a07_."""
    return f"test_{row[0].lower()}{int(row[1:]):02}_"


@pytest.mark.parametrize(("row", "_", "files", "modules"), ROWS, ids=[row[0] for row in ROWS])
def test_a_row_has_its_tests_and_its_module(row: str, _: str, files: str, modules: str) -> None:
    for file in files.split(", "):
        names = [name for name, _ in TEST.findall((ROOT / file).read_text())]
        assert [name for name in names if name.startswith(begins(row))], file
    for module in modules.split(", "):
        assert (ROOT / module).is_file(), module


def test_every_behaviour_that_is_due_is_listed_once_and_every_test_has_its_row() -> None:
    listed = [row for row, *_ in ROWS]
    assert set(NAMED.split()) <= set(listed)
    assert len(set(listed)) == len(listed)
    tested = {
        id_
        for file in (ROOT / "tests").rglob("test_*.py")
        for _, id_ in TEST.findall(file.read_text())
    }
    assert {f"test_{id_}_" for id_ in tested} == {begins(row) for row in listed}
