"""docs/operators-guide.md names what is there: pictures, headings, labels, buttons, refusals."""

import ast
import re
from pathlib import Path

import pytest

from queue_core.states import STATES, legal_verbs

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGE = (DOCS / "operators-guide.md").read_text(encoding="utf-8")


def texts() -> list[str]:
    """Return what stands in templates, and in the console's own strings but for docstrings."""
    found = [path.read_text(encoding="utf-8") for path in (ROOT / "templates").rglob("*.html")]
    for path in (ROOT / "console").rglob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        found += [str(node.value) for node in nodes if isinstance(node, ast.Constant)]
        found += [filled(node) for node in nodes if isinstance(node, ast.JoinedStr)]
    return [plain(text) for text in found]


def filled(text: ast.JoinedStr) -> str:
    """Return an f-string with "…" for what is filled in."""
    return "".join(str(p.value) if isinstance(p, ast.Constant) else "…" for p in text.values)


def plain(text: str) -> str:
    """Return a text without tags, and with one space where there are several."""
    return " ".join(re.sub(r"<[^>]*>", " ", text).replace("’", "'").split())


SAID = texts()


def stands(sentence: str) -> bool:
    """Say whether one text has all of it; "…" is for what is filled in."""
    parts = [plain(part) for part in sentence.split("…") if part.strip()]
    return any(all(part in text for part in parts) for text in SAID)


def first_column(title: str) -> list[str]:
    """Return the first column of the table under a title."""
    part = re.split(rf"^## {re.escape(title)}$", PAGE, flags=re.MULTILINE)[1]
    part = re.split(r"^## ", part, maxsplit=1, flags=re.MULTILINE)[0]
    return [row.strip("*") for row in re.findall(r"^\| ([^|]+?) \|", part, re.MULTILINE)[2:]]


@pytest.mark.parametrize("target", re.findall(r"\]\((screens/[^)]+)\)", PAGE))
def test_every_picture_is_there(target: str) -> None:
    assert (DOCS / target).is_file()


def test_every_link_within_the_page_leads_to_a_heading() -> None:
    headings = re.findall(r"^#+ (.+)$", PAGE, re.MULTILINE)
    there = {re.sub(r"[^\w\- ]", "", each).lower().replace(" ", "-") for each in headings}
    assert set(re.findall(r"\]\(#([^)]+)\)", PAGE)) - there == set()


@pytest.mark.parametrize("label", sorted(set(re.findall(r"\*\*(.+?)\*\*", PAGE, re.DOTALL))))
def test_what_is_bold_stands_on_a_page_of_the_console(label: str) -> None:
    states = {state.replace("_", " ").capitalize() for state in STATES}
    assert plain(label) in states or stands(label.removesuffix("…"))


@pytest.mark.parametrize("refusal", first_column("When something is not done"))
def test_every_refusal_is_what_the_console_says(refusal: str) -> None:
    assert stands(refusal)


def test_each_state_has_its_acts() -> None:
    rows = re.findall(r"^\| \*\*(.+?)\*\* \| .* \| ([^|]+) \|$", PAGE, re.MULTILINE)
    told = {state.lower().replace(" ", "_"): acts for state, acts in rows}
    for state in STATES:
        assert re.findall(r"\b(release|confirm|close|cancel|retry)\b", told[state]) == list(
            legal_verbs(state)
        )
