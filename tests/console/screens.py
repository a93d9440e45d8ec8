"""`bin/screenshots`: every page and state that matters, light and dark, on phone and desk."""

import argparse
import base64
import os
import re
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
from playwright.sync_api import Browser, StorageState, sync_playwright
from psycopg.rows import DictRow, dict_row

from queue_core import embedded, migrate, sessions
from queue_core.errors import OperatorRefusedError
from tests.console import scenes
from tests.console.pictures import Look, Scheme, all_looks
from tests.console.serving import console_on, served
from tests.console.shop import BELIEVABLE

SHRINK = Path(__file__).with_name("shrink.js").read_text(encoding="utf-8")
OUT = Path(__file__).resolve().parents[2] / "docs" / "screens"
CHROMIUM = (
    "chromium-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
)

DRAWS_NOTHING = "--disable-threaded-compositing"
"""Takes a third less work. But no click gets through: playwright never finds anything at rest."""


def main() -> None:
    """Make every picture, into docs/screens unless told otherwise."""
    parser = argparse.ArgumentParser(prog="bin/screenshots", description=__doc__)
    parser.add_argument("--out", type=Path, default=OUT, help="the folder for the pictures")
    parser.add_argument("--only", default="", help="only pages whose name this expression fits")
    parser.add_argument("--width", type=int, help="only pictures this wide: 360 or 1440")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    with staged() as (url, owner, scene), served(console_on(url)) as base, browser() as chromium:
        looks = [look for look in all_looks(scene, owner) if re.search(options.only, look.name)]
        states = {code: signed_in(chromium, base, code) for code in {look.code for look in looks}}
        for look in looks:
            ways = [way for way in look.ways() if options.width in {None, way[0]}]
            for width, scheme in ways:
                take(chromium, base, look, states[look.code], width, scheme, options.out)


@contextmanager
def staged() -> Iterator[tuple[str, scenes.Conn, scenes.Scene]]:
    """Start a database of its own with the shop's night in it, and workers that go on beating."""
    folder = Path(tempfile.mkdtemp(prefix="cs-"))
    folder.chmod(0o755)
    try:
        server = embedded.start(folder)
        with connected(server.owner_url) as owner:
            migrate.migrate(owner)
            scenes.add_operators(owner)
            seen_before(owner)
            scene = scenes.stage(owner, completed=5_260, given=BELIEVABLE, hostile=False)
            with beating(server.owner_url):
                yield server.url, owner, scene
    finally:
        embedded.stop()
        shutil.rmtree(folder, ignore_errors=True)


def connected(url: str) -> psycopg.Connection[DictRow]:
    """Return a connection that commits each statement."""
    return psycopg.Connection[DictRow].connect(url, autocommit=True, row_factory=dict_row)


def seen_before(owner: scenes.Conn) -> None:
    """Let an operator be signed in elsewhere, and somebody guess passwords."""
    phone = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_1 like Mac OS X) Version/18.1 Mobile Safari"
    sessions.sign_in(owner, "ops:alice", scenes.PASSWORD, address="198.51.100.23", agent=phone)
    owner.execute(
        "UPDATE countersign.sessions SET created_at = now() - interval '5 h 12 min', "
        "seen_at = now() - interval '38 min'"
    )
    for code in ("ops:bob", "ops:bob", "ops:alice", "my-password"):
        with suppress(OperatorRefusedError):
            sessions.sign_in(owner, code, "wrong horse battery", address="203.0.113.7")
    owner.execute(
        "UPDATE countersign.sign_in_failures SET last_at = last_at - "
        "CASE failures WHEN 2 THEN interval '7 h' ELSE interval '26 min' END"
    )


BEAT = b"""
UPDATE countersign.workers SET beat_at = now() WHERE lost_at IS NULL AND stopped_at IS NULL;
UPDATE countersign.schedules
SET seen_at = now(), due_at = GREATEST(due_at, now() + interval '6 min')
WHERE archived_at IS NULL
"""


@contextmanager
def beating(url: str) -> Iterator[None]:
    """Let the workers that live go on doing so for as long as pictures are taken."""
    over = threading.Event()

    def beat() -> None:
        with connected(url) as conn:
            while not over.wait(5):
                conn.execute(BEAT)

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def browser(*more: str) -> Iterator[Browser]:
    """Start the machine's own Chromium, with more of its options if need be."""
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, CHROMIUM)), None)
    root = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=found, args=["--disable-gpu", "--disable-dev-shm-usage", *root, *more]
        )
        yield chromium
        chromium.close()


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
    scheme: Scheme,
    out: Path,
) -> None:
    """Take one picture of the whole page."""
    context = chromium.new_context(
        storage_state=state,
        viewport={"width": width, "height": 740 if width < 600 else 900},
        color_scheme=scheme,
        java_script_enabled=look.script,
    )
    page = context.new_page()
    look.go(page, base)
    picture = page.screenshot(full_page=look.whole)
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
