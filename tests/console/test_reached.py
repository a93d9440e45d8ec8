"""States of pages that no address leads to: refused, done, shown once, cut off, too slow."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
from playwright.sync_api import Page

from queue_core import retry
from queue_core.errors import DatabaseAwayError
from queue_core.queries import jobs, ledger, overview, review
from tests.console import looks, scenes
from tests.console.browsing import holding
from tests.console.people import Person
from tests.console.screens import DRAWS_NOTHING, browser
from tests.console.serving import console_on, served

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("stories")]


@dataclass(frozen=True)
class Stage:
    """What it takes to bring a page into a state."""

    opened: Callable[..., Page]
    job_at: Callable[..., Any]
    lost: Callable[[str], Any]
    scene: scenes.Scene
    shop: Any
    monkeypatch: pytest.MonkeyPatch


@pytest.fixture(scope="module")
def chromium():
    """Start a browser for pages that are only looked at; how they are come by is no click."""
    with browser(DRAWS_NOTHING) as started:
        yield started


@pytest.fixture
def stage(opened, job_at, lost, scene, shop, monkeypatch):
    return Stage(opened, job_at, lost, scene, shop, monkeypatch)


def slowly(conn, *_, **__):
    """Read for longer than a page waits."""
    conn.execute("SET LOCAL statement_timeout = 1")
    conn.execute("SELECT pg_sleep(5)")


def press(form, button):
    """Press a button, and wait for the page that it leads to."""
    page = getattr(form, "page", form)
    with page.expect_navigation():
        form.get_by_role("button", name=button).first.dispatch_event("click")


def pressed(page, button, reason="deploy_error", **fields):
    """Sign, and press a button; what is hidden is opened first."""
    form = page.locator("form", has=page.get_by_role("button", name=button))
    for label, text in {"Reason": reason, **fields}.items():
        form.get_by_label(label).fill(text)
    press(form, button)
    return page


def chosen(stage):
    jobs = [stage.job_at("needs_review") for _ in range(2)]
    page = stage.opened("/jobs/?state=needs_review&rows=200")
    for job in jobs:
        page.locator(f"#tick-{job}").dispatch_event("click")
    press(page, "Act on the chosen jobs…")
    return page


def none_chosen(stage):
    page = stage.opened("/jobs/?state=needs_review")
    press(page, "Act on the chosen jobs…")
    return page


def too_slow(stage, module, name, path):
    stage.monkeypatch.setattr(module, name, slowly)
    return stage.opened(path)


def cut_off(stage):
    stage.monkeypatch.setattr(jobs, "WINDOW", 40)
    return stage.opened("/jobs/?state=completed&name=nothing")


def acts_cut_off(stage):
    stage.monkeypatch.setattr(ledger, "list_acts", partial(ledger.list_acts, window=1))
    return stage.opened("/acts/?reason=of_nobody")


def deleted(stage):
    job = stage.job_at("failed")
    with stage.shop.owner() as owner:
        retry(owner, [job], by="ops:bob", reason="deploy_error", via="console:1")
        owner.execute("DELETE FROM countersign.ready WHERE id = %s", [job])
        owner.execute("DELETE FROM countersign.jobs WHERE id = %s", [job])
    return stage.opened(f"/jobs/{job}")


def away(stage):
    def read(_):
        raise DatabaseAwayError("off")

    stage.monkeypatch.setattr(overview, "overview", read)
    return stage.opened("/")


def refused_sign_in(stage):
    page = stage.opened("/sign-in", None)
    page.get_by_label("Operator code").fill("ops:nobody")
    page.get_by_label("Password").fill("wrong horse battery")
    press(page, "Sign in")
    return page


def wrong_password(stage):
    page = stage.opened("/account/", "ops:bob")
    for label, text in (("Present", "x"), ("New password", "short"), ("New password again", "y")):
        page.get_by_label(label, exact=label != "Present").fill(text)
    press(page, "Change the password")
    return page


def paused(stage):
    return pressed(stage.opened("/queues/show?name=media"), "Pause: take no more jobs")


STATES = {
    "jobs, cut off": cut_off,
    "jobs, too slow": lambda stage: too_slow(stage, jobs, "list_jobs", "/jobs/?queue=mail"),
    "review, too slow": lambda stage: too_slow(stage, review, "list_review", "/review/"),
    "ledger, cut off": acts_cut_off,
    "ledger, too slow": lambda stage: too_slow(stage, ledger, "list_acts", "/acts/"),
    "overview, too slow": lambda stage: too_slow(stage, overview, "overview", "/"),
    "overview, database away": away,
    "overview, for a viewer": lambda stage: stage.opened("/", "ops:viola"),
    "review, for a viewer": lambda stage: stage.opened("/review/", "ops:viola"),
    "job, for a viewer": lambda stage: stage.opened(f"/jobs/{stage.scene.told}", "ops:viola"),
    "operators, for a viewer": lambda stage: stage.opened("/operators/", "ops:viola"),
    "job, disputed": lambda stage: stage.opened(f"/jobs/{stage.scene.disputed}"),
    "job, unreadable": lambda stage: stage.opened(f"/jobs/{stage.scene.unreadable}"),
    "job, uncertain": lambda stage: stage.opened(f"/jobs/{stage.scene.uncertain}"),
    "job, retrying": lambda stage: stage.opened(f"/jobs/{stage.scene.retrying}"),
    "job, ready": lambda stage: stage.opened(f"/jobs/{stage.scene.ready}"),
    "job, cancelled": lambda stage: stage.opened(f"/jobs/{stage.scene.cancelled}"),
    "job, deleted": deleted,
    "job, wrong fields": lambda stage: pressed(
        stage.opened(f"/jobs/{stage.job_at('failed')}"), "Retry once more", reason=" "
    ),
    "job, done": lambda stage: pressed(
        stage.opened(f"/jobs/{stage.job_at('failed')}"), "Retry once more"
    ),
    "job, revealed": lambda stage: pressed(
        stage.opened(f"/jobs/{stage.scene.told}?form=reveal"), "Reveal the arguments"
    ),
    "job, code to be typed": lambda stage: stage.opened(
        f"/jobs/{stage.lost('stale')}?form=release"
    ),
    "job, wrong code typed": lambda stage: pressed(
        stage.opened(f"/jobs/{stage.lost('stale')}?form=release"),
        "Release: run it again",
        **{"Operator code": "ops:nobody"},
    ),
    "chosen, to be decided": chosen,
    "chosen, none": none_chosen,
    "queue, done": paused,
    "queue, wrong fields": lambda stage: pressed(
        stage.opened("/queues/show?name=mail"), "Pause: take no more jobs", reason=" "
    ),
    "operators, wrong fields": lambda stage: pressed(
        stage.opened("/operators/", "ops:root"), "Add this operator", **{"Their code": " "}
    ),
    "operators, added": lambda stage: pressed(
        stage.opened("/operators/", "ops:root"), "Add this operator", **{"Their code": "ops:nora"}
    ),
    "account, wrong fields": wrong_password,
    "sign-in, refused": refused_sign_in,
    "act, of a bulk": lambda stage: stage.opened(f"/acts/?bulk={stage.scene.bulk}"),
    "method not allowed": lambda stage: stage.opened(f"/jobs/{stage.scene.failed}/retry"),
}
"""What is looked for, and how it is come by."""


@pytest.mark.parametrize("name", STATES)
def test_axe_finds_nothing_in_states_that_no_address_leads_to(stage, name):
    page = STATES[name](stage)
    assert looks.faults(page) == {}
    assert looks.too_wide(page) == {}


@pytest.fixture(scope="module")
def nothing(shared_database):
    """Serve a console where nothing has happened yet; give its address and an admin's cookies."""
    with shared_database.owner() as owner:
        scenes.add_operators(owner)
    app = console_on(shared_database.url)
    with served(app) as base:
        cookies = holding(Person(app, "ops:root").cookie())
        yield {"base_url": base, "storage_state": cookies}


GOOD = {
    "/jobs/?state=needs_review": "Nothing waits for review: nobody has to decide.",
    "/jobs/?state=failed": "No failed job is kept.",
    "/review/": "Nothing is in review: nobody has to decide.",
    "/review/?list=uncertain": "No failed job may have run in part: nobody has to decide.",
    "/queues/": "No queue holds a job that is still to run: all work is done.",
    "/workers/?fate=lost": "No worker was ever lost.",
}
"""Where there is nothing, and that is as it should be."""


@pytest.mark.parametrize("path", ["/", "/acts/", "/workers/", "/schedules/", "/handlers/", *GOOD])
def test_axe_finds_nothing_where_nothing_has_happened_yet(opened, nothing, path):
    page = opened(path, None, **nothing)
    if path in GOOD:
        assert page.locator(".empty.good").inner_text() == GOOD[path]
    assert looks.faults(page) == {}
    assert looks.too_wide(page) == {}


def test_four_kinds_of_nothing_differ_in_words_and_in_looks(stage, nothing):
    kinds = {
        "good": (stage.opened("/jobs/?state=failed", None, **nothing), "No failed job is kept."),
        "filtered": (stage.opened("/jobs/?state=failed&queue=nowhere"), "matches these filters."),
        "cut": (cut_off(stage), "None matches among the 5,000 completed jobs looked through"),
        "wrong": (STATES["jobs, too slow"](stage), "This list took longer than 3 seconds"),
    }
    edges = set()
    for kind, (page, words) in kinds.items():
        told = page.locator(".sheet.empty")
        assert words in told.inner_text()
        assert [each for each in kinds if told.evaluate(HAS, each)] == [kind]
        others = [other for name, (_, other) in kinds.items() if name != kind]
        assert not any(other in told.inner_text() for other in others)
        edges.add(told.evaluate("element => getComputedStyle(element).borderLeftColor"))
    assert len(edges) == 3  # both "look elsewhere" are amber


HAS = "(element, name) => element.classList.contains(name)"
