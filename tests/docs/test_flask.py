"""docs/flask.md is true: its service runs, and its console is there, with who the service names."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.console.people import Person

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "flask.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def service(database, tmp_path, monkeypatch) -> dict[str, Any]:
    """Give what the page's module defines."""
    monkeypatch.setenv("DATABASE_URL", database.url)
    monkeypatch.setenv("QUEUE_DATA", str(tmp_path))
    monkeypatch.setenv("QUEUE_HOSTS", "shop.example")
    known: dict[str, Any] = {"__name__": "myservice"}
    for block in BLOCKS:
        exec(compile(block, "flask.md", "exec"), known)
    known["app"].add_url_rule("/enter", "enter", lambda: _enter(known))
    known["proxied"].add_url_rule("/enter", "enter", lambda: _enter(known))
    return known


def _enter(known: dict[str, Any]) -> str:
    known["session"].update(user="ada", on_call=True)
    return "welcome"


@pytest.mark.parametrize("name", ["app", "proxied"])
def test_its_services_have_the_console_behind_their_own_sign_in(service, name) -> None:
    somebody = Person(service[name])
    assert somebody.get("/").text == "the shop"
    assert somebody.get("/ops/").status_code == 401
    somebody.get("/enter")
    page = somebody.get("/ops/")
    assert page.status_code == 200
    assert "<bdi>shop:ada</bdi> · operator" in page.text


def test_its_proxy_fix_reaches_the_console(service) -> None:
    somebody = Person(service["proxied"])
    headers = {"X-Forwarded-Proto": "https", "X-Forwarded-Host": "shop.example"}
    page = somebody.get("/ops/", headers=headers | {"X-Forwarded-Prefix": "/shop"})
    assert page.status_code == 401
    assert 'href="/shop/ops/jobs/"' in page.text
