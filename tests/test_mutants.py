"""The mutants' runner: what it refuses, what it kills, and that it sees a survivor."""

import shlex
from pathlib import Path

import pytest

from tests import mutants

CODE = "def twice(n):\n    return n + n\n\n\ndef never_tested():\n    return 1\n"
TESTS = """
from queue_core import twice

def test_twice():
    assert twice(3) == 6
"""
ENTRY = """
[[mutant]]
name = "{name}"
file = "queue_core/__init__.py"
old = "{old}"
new = "{new}"
test = "tests/test_twice.py::test_twice"
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Return a tiny project in the place of this one."""
    for folder in ("queue_core", "console", "tests"):
        (tmp_path / folder).mkdir()
    (tmp_path / "queue_core" / "__init__.py").write_text(CODE)
    (tmp_path / "console" / "__init__.py").write_text("")
    (tmp_path / "tests" / "test_twice.py").write_text(TESTS)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # half of what pytest's start takes
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    monkeypatch.setattr(mutants, "LIST", tmp_path / "tests" / "mutants.toml")
    return tmp_path


def listed(project: Path, **entry: str) -> None:
    with (project / "tests" / "mutants.toml").open("a") as file:
        file.write(ENTRY.format(**entry))


def test_a_break_that_no_test_notices_survives(project, capfd):
    listed(project, name="adds-one", old="n + n", new="n + n + 1")
    listed(project, name="unseen", old="return 1", new="return 2")
    assert mutants.main([]) == 1
    assert "1 mutants killed, 1 survived unseen" in capfd.readouterr().out


def test_a_break_that_does_not_even_load_proves_nothing(project, capfd):
    listed(project, name="no-python", old="return 1", new="return (")
    assert mutants.main([]) == 1
    assert "proves nothing" in capfd.readouterr().out


def test_only_the_mutants_named_are_tried_and_one_that_a_test_notices_is_killed(project, capfd):
    listed(project, name="adds-one", old="n + n", new="n + n + 1")
    listed(project, name="unseen", old="return 1", new="return 2")
    assert mutants.main(["adds-one"]) == 0
    printed = capfd.readouterr().out
    assert "1 mutants killed, 0 survived" in printed
    assert "unseen" not in printed
    assert (project / "queue_core" / "__init__.py").read_text() == CODE


@pytest.mark.parametrize(
    ("entry", "complaint"),
    [
        ({"name": "twice", "old": "return", "new": ""}, "stands 2 times"),
        ({"name": "gone", "old": "n - n", "new": ""}, "stands 0 times"),
        ({"name": "same", "old": "n + n", "new": "n + n"}, "changes nothing"),
    ],
)
def test_an_entry_that_cannot_be_made_is_refused(project, capfd, entry, complaint):
    listed(project, **entry)
    assert mutants.main([]) == 2
    assert complaint in capfd.readouterr().err


def test_a_test_that_fails_unbroken_is_refused(project, capfd):
    listed(project, name="adds-one", old="n + n", new="n + n + 1")
    (project / "tests" / "test_twice.py").write_text(TESTS.replace("6", "7"))
    assert mutants.main([]) == 2
    assert "fails before anything is broken" in capfd.readouterr().err


def test_a_name_that_is_not_in_the_list_is_refused(project, capfd):
    listed(project, name="adds-one", old="n + n", new="n + n + 1")
    assert mutants.main(["adds-two"]) == 2
    assert "not in the list: adds-two" in capfd.readouterr().err


def test_every_break_on_the_list_still_has_its_place_in_the_code():
    found = mutants.chosen([])
    assert found
    paths = [shlex.split(each.test)[0].split("::")[0] for each in found]
    assert [path for path in paths if not (mutants.ROOT / path).is_file()] == []
