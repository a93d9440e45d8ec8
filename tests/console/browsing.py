"""Pages in a browser: as whom they are opened, and what the browser complains of."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, StorageState

PATIENCE = 30_000
"""Milliseconds that a browser has for what it is asked to do."""
USUAL = {"viewport": {"width": 1_440, "height": 800}, "reduced_motion": "reduce"}
"""A colour on its way from light to dark is neither."""
ON_PURPOSE = "the server responded with a status of "
"""So browsers report a page that answers 404, 409 or 503."""


@contextmanager
def opening(
    chromium: Browser, address: str, cookies: Callable[[str], StorageState]
) -> Iterator[Callable[..., Page]]:
    """Give a function that opens a page; what the browser complains of is raised at the end."""
    contexts: list[BrowserContext] = []
    complaints: list[str] = []

    def open_page(
        path: str, code: str | None = "ops:alice", *, script: bool = True, **more: Any
    ) -> Page:
        known = {"storage_state": cookies(code)} if code else {}
        given = {"base_url": address, **USUAL, **known, **more}
        contexts.append(chromium.new_context(java_script_enabled=script, **given))
        page = contexts[-1].new_page()
        page.set_default_timeout(PATIENCE)
        note_complaints(page, complaints)
        page.goto(path)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []


def note_complaints(page: Page, complaints: list[str]) -> None:
    """Add to `complaints` whatever the browser says of the page from now on."""

    def of_console(message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"} and ON_PURPOSE not in message.text:
            complaints.append(message.text)

    def of_request(request: Request) -> None:
        if request.failure != "net::ERR_ABORTED":  # the page was left before all of it came
            complaints.append(f"{request.url}: {request.failure}")

    page.on("console", of_console)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("requestfailed", of_request)


def holding(value: str) -> StorageState:
    """Return the cookies of a browser in which somebody is signed in by a cookie of this value."""
    return {
        "cookies": [{"name": "countersign", "value": value, "domain": "127.0.0.1", "path": "/"}]
    }
