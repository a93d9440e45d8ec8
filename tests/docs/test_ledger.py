"""The page on the ledger: whoever follows it computes the same hashes as the database."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from queue_core import cancel, enqueue, operators
from queue_core.check.problem import Code
from tests.sealing import seal_all, sign, tamper

PAGE = Path(__file__).parents[2] / "docs" / "ledger.md"


@pytest.fixture
def followed() -> dict[str, Any]:
    """Give what the page's Python defines."""
    names: dict[str, Any] = {"datetime": datetime, "timedelta": timedelta, "UTC": UTC}
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    exec(code, names)
    return names


def test_the_pages_own_python_verifies_a_ledger(database, registry, job_in, followed):
    conn = database.connect()
    job = enqueue(conn, "mail.send").id
    note = "zwei Zeilen:\nid 1:7\n\N{SNOWMAN}"
    cancel(conn, [job], by="ops:älice", reason="warum", note=note)
    running = job_in(conn, "running").id
    cancel(conn, [running], by="ops:älice", reason="warum", kill_after=30)
    operators.add(conn, "ops:bob", "admin", "correct horse", by="setup:x", reason="x", via="code")
    seal_all(conn)
    sign(conn, 3)
    seal_all(conn)

    followed["verify"](conn)

    tamper(database.owner(), "UPDATE countersign.acts SET note = NULL WHERE id = 1")
    with pytest.raises(AssertionError):
        followed["verify"](conn)


def test_every_code_of_the_ledger_is_explained():
    text = PAGE.read_text()
    codes = [code for code in Code.__args__ if code.startswith("ledger.")]
    assert [code for code in codes if f"`{code}`" not in text and code != "ledger.one_role"] == []
