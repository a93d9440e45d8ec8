"""docs/operations.md lists what there is: settings, problem codes, exit codes, lines of the log."""

import ast
import re
from pathlib import Path
from typing import get_args

from console.cli import failures
from queue_core import settings
from queue_core.check.problem import Code
from queue_core.queries import attention

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
WARNINGS = {"partition.missing", "partition.kept", "ledger.one_role", "ledger.unsealed"}


def rows(title: str) -> list[str]:
    """Return what the first column of the table under a title names."""
    part = re.split(rf"^#+ {re.escape(title)}$", PAGE, flags=re.MULTILINE)[1]
    part = re.split(r"^#", part, maxsplit=1, flags=re.MULTILINE)[0]
    return re.findall(r"^\| `?([^`|]+?)`? \|", part, re.MULTILINE)[2:]


def test_every_setting_is_listed_and_no_other() -> None:
    read = re.findall(
        r"\b(?:QUEUE_[A-Z_]+|DATABASE_URL)\b", Path(settings.__file__).read_text(encoding="utf-8")
    )
    assert sorted(rows("Settings")) == sorted(set(read))


def test_every_problem_code_is_listed_and_no_other() -> None:
    codes = set(get_args(Code))
    assert set(rows("Problem codes")) | WARNINGS == codes
    assert set(rows("Warnings")) == WARNINGS


def test_every_reason_to_call_a_person_is_listed_and_no_other() -> None:
    assert set(rows("When a person is needed")) == set(get_args(attention.Code))


def test_every_warning_and_error_of_a_worker_is_listed_and_no_other() -> None:
    assert sorted(rows("A worker's log")) == sorted(set(said()))


def said() -> list[str]:
    """Return the events that the worker's code logs as warnings or errors."""
    calls = [
        node
        for file in (ROOT / "queue_core" / "worker").glob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"logs.warning", "logs.error"}
    ]
    return [str(node.args[0].value) for node in calls if isinstance(node.args[0], ast.Constant)]


def test_every_exit_code_is_listed() -> None:
    assert rows("Exit codes") == list("012345")
    assert (failures.REFUSED, failures.Mistake.exit_code, failures.NO_DATABASE) == (1, 2, 3)
