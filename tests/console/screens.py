"""`bin/screenshots`: every page and state that matters, light and dark, on phone and desk."""

import argparse
import base64
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Final, Literal

import psycopg
from playwright.sync_api import Browser, Page, StorageState, sync_playwright
from psycopg.rows import DictRow, dict_row

from queue_core import embedded, migrate, retry
from tests.console import scenes
from tests.console.serving import console_on, served

SHRINK = Path(__file__).with_name("shrink.js").read_text(encoding="utf-8")
OUT = Path(__file__).resolve().parents[2] / "docs" / "screens"
WIDTHS = (360, 1440)
SCHEMES: Final[tuple[Literal["light", "dark"], ...]] = ("light", "dark")
CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@dataclass(frozen=True)
class Look:
    """One page in one state: how to get there, and as whom (None: nobody)."""

    name: str
    go: Callable[[Page, str], object]
    code: str | None = "ops:alice"
    is_page: bool = False
    """A page is pictured in every size and scheme, another state of one in two."""

    def ways(self) -> Iterable[tuple[int, Literal["light", "dark"]]]:
        """Return the sizes and schemes to picture it in."""
        return product(WIDTHS, SCHEMES) if self.is_page else ((360, "dark"), (1440, "light"))


def main() -> None:
    """Make every picture, into docs/screens unless told otherwise."""
    parser = argparse.ArgumentParser(prog="bin/screenshots", description=__doc__)
    parser.add_argument("--out", type=Path, default=OUT, help="the folder for the pictures")
    parser.add_argument("--only", default="", help="only pages whose name holds this")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    with staged() as (url, owner, scene), served(console_on(url)) as base, browser() as chromium:
        looks = [look for look in all_looks(scene, owner) if options.only in look.name]
        states = {code: signed_in(chromium, base, code) for code in {look.code for look in looks}}
        for look in looks:
            for width, scheme in look.ways():
                take(chromium, base, look, states[look.code], width, scheme, options.out)


@contextmanager
def staged() -> Iterator[tuple[str, scenes.Conn, scenes.Scene]]:
    """Start a database of its own with the shop's queue in it."""
    folder = Path(tempfile.mkdtemp(prefix="cs-"))
    folder.chmod(0o755)
    try:
        server = embedded.start(folder)
        with psycopg.Connection[DictRow].connect(
            server.owner_url, autocommit=True, row_factory=dict_row
        ) as owner:
            migrate.migrate(owner)
            scenes.add_operators(owner)
            yield server.url, owner, scenes.stage(owner)
    finally:
        embedded.stop()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def browser() -> Iterator[Browser]:
    """Start the machine's own Chromium."""
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, CHROMIUM)), None)
    root = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=found, args=["--disable-gpu", "--disable-dev-shm-usage", *root]
        )
        yield chromium
        chromium.close()


def all_looks(scene: scenes.Scene, owner: scenes.Conn) -> list[Look]:
    """Name every page and state."""
    return [
        Look("sign-in", opened("/sign-in"), None, is_page=True),
        Look("overview", opened("/"), is_page=True),
        Look("jobs-review", opened("/jobs/?state=needs_review")),
        Look("jobs-failed", opened("/jobs/?state=failed"), is_page=True),
        Look("jobs-waiting", opened("/jobs/?state=waiting")),
        Look("jobs-completed", opened("/jobs/?state=completed&queue=media")),
        Look("jobs-nothing-matches", opened("/jobs/?state=failed&queue=nowhere")),
        Look("job-review", opened(f"/jobs/{scene.review}"), is_page=True),
        Look("job-failed", opened(f"/jobs/{scene.told}?next=/jobs/"), is_page=True),
        Look("job-running", opened(f"/jobs/{scene.stopping}")),
        Look("job-retrying", opened(f"/jobs/{scene.retrying}")),
        Look("job-viewer", opened(f"/jobs/{scene.told}"), "ops:viola"),
        Look("job-hostile", opened(f"/jobs/{scene.hostile}")),
        Look("job-moved-on", moved_on(scene, owner)),
        Look("interrupted", interrupted(scene)),
        Look("not-found", opened("/jobs/00000000-0000-0000-0000-000000000000")),
    ]


def opened(path: str) -> Callable[[Page, str], object]:
    """Open an address."""
    return lambda page, base: page.goto(base + path)


def moved_on(scene: scenes.Scene, owner: scenes.Conn) -> Callable[[Page, str], object]:
    """Press the button a moment after somebody else did."""

    spare = iter(scene.spare)

    def go(page: Page, base: str) -> None:
        job = next(spare)
        page.goto(f"{base}/jobs/{job}")
        retry(owner, [job], by="ops:bob", reason="deploy_error", via="console:1")
        page.get_by_label("Reason").fill("provider_outage")
        page.get_by_label("Note").fill("They said it is mended.")
        page.get_by_role("button", name="Retry once more").click()

    return go


def interrupted(scene: scenes.Scene) -> Callable[[Page, str], object]:
    """Press the button after the session was over."""

    def go(page: Page, base: str) -> None:
        page.goto(f"{base}/jobs/{scene.told}")
        page.get_by_label("Reason").fill("provider_outage")
        page.context.clear_cookies()
        page.get_by_role("button", name="Retry once more").click()

    return go


def signed_in(chromium: Browser, base: str, code: str | None) -> StorageState | None:
    """Sign in as an operator of the scenes, and return the browser's cookies."""
    if code is None:
        return None
    page = chromium.new_page()
    page.goto(f"{base}/sign-in")
    page.get_by_label("Operator code").fill(code)
    page.get_by_label("Password").fill(scenes.PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"{base}/")
    state = page.context.storage_state()
    page.close()
    return state


def take(
    chromium: Browser,
    base: str,
    look: Look,
    state: StorageState | None,
    width: int,
    scheme: Literal["light", "dark"],
    out: Path,
) -> None:
    """Take one picture of the whole page."""
    context = chromium.new_context(
        storage_state=state,
        viewport={"width": width, "height": 740 if width < 600 else 900},
        color_scheme=scheme,
        java_script_enabled=False,
    )
    page = context.new_page()
    look.go(page, base)
    picture = page.screenshot(full_page=True)
    context.close()
    (out / f"{look.name}-{width}-{scheme}.png").write_bytes(shrunk(chromium, picture))


def shrunk(chromium: Browser, picture: bytes) -> bytes:
    """Write a PNG anew with a palette: a third of the size, and no package for it."""
    page = chromium.new_page()
    answer = page.evaluate(SHRINK, base64.b64encode(picture).decode())
    page.close()
    return base64.b64decode(answer)


if __name__ == "__main__":
    main()
