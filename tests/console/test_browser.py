"""The pages in a real browser: nothing that keeps people out, on a phone and on a desk."""

import pytest

from tests.console import looks, scenes
from tests.console.browsing import USUAL, opening
from tests.console.screens import DRAWS_NOTHING, browser

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

PATHS = {
    "sign-in": "/sign-in",
    "overview": "/",
    "jobs, failed": "/jobs/?state=failed&queue=mail",
    "jobs, in review": "/jobs/?state=needs_review",
    "jobs, waiting": "/jobs/?state=waiting",
    "jobs, a page": "/jobs/?state=completed&queue=media",
    "jobs, none": "/jobs/?state=failed&queue=nowhere",
    "jobs, filtered": "/jobs/?state=failed&queue=mail&not_name=x&q=s&error_type=ValueError",
    "jobs, all ticked": "/jobs/?state=failed&tick=all",
    "chosen, done": "/jobs/chosen/{scene.bulk}",
    "jobs, a wrong filter": "/jobs/?queue=" + "x" * 201,
    "review": "/review/",
    "review, failed": "/review/?list=uncertain",
    "job, in review": "/jobs/{scene.review}",
    "job, to be decided": "/jobs/{scene.review}?form=release&next=/review/",
    "job, to be taken": "/jobs/{scene.review}?form=assign",
    "job, to be revealed": "/jobs/{scene.told}?form=reveal",
    "job, failed": "/jobs/{scene.told}?next=/jobs/",
    "job, hostile": "/jobs/{scene.hostile}",
    "job, stopping": "/jobs/{scene.stopping}",
    "job, completed": "/jobs/{scene.completed}",
    "ledger": "/acts/",
    "ledger, filtered": "/acts/?by=ops:bob&act=retried&since=2026-01-01",
    "ledger, none": "/acts/?by=ops:nobody",
    "ledger, a wrong filter": "/acts/?since=yesterday",
    "act": "/acts/1",
    "handover": "/acts/handover",
    "queues": "/queues/",
    "queue, open": "/queues/show?name=mail",
    "queue, paused": "/queues/show?name=reports",
    "schedules": "/schedules/",
    "schedules, archived": "/schedules/?archived=yes",
    "schedule, active": "/schedules/show?name=stock-check",
    "schedule, paused": "/schedules/show?name=nightly-report",
    "schedule, archived": "/schedules/show?name=old-cleanup",
    "handlers": "/handlers/",
    "handlers, too far": "/handlers/?after=zzz",
    "handler": "/handlers/show?name=charge_card",
    "handler, unknown": "/handlers/show?name=nobody.knows",
    "workers": "/workers/",
    "workers, lost": "/workers/?fate=lost",
    "workers, too far": "/workers/?fate=stopped&after=0_" + "0" * 32,
    "worker, lost": "/workers/{scene.lost_worker}",
    "worker, live": "/workers/{scene.worker}",
    "worker, draining": "/workers/{scene.draining_worker}",
    "account": "/account/",
    "operators": "/operators/",
    "operator": "/operators/one?code=ops:bob",
    "operator, the last admin": "/operators/one?code=ops:root",
    "not found": "/nowhere",
}
"""Every page, and each state of one that looks different."""


def whose(name):
    """Say who looks at a page."""
    return None if name == "sign-in" else "ops:root" if "operator" in name else "ops:alice"


@pytest.fixture(scope="module")
def chromium():
    """Start a browser for pages that are only looked at."""
    with browser(DRAWS_NOTHING) as started:
        yield started


@pytest.fixture(scope="module")
def tab(chromium, address, cookies):
    """Give a function that opens a page in a tab that everything of its reader is opened in."""
    tabs = {}
    with opening(chromium, address, cookies) as open_page:

        def turn_to(path, code):
            if code not in tabs:
                tabs[code] = open_page("/sign-in", code)
            tabs[code].set_viewport_size(USUAL["viewport"])
            tabs[code].emulate_media(color_scheme="light")
            tabs[code].goto(path)
            return tabs[code]

        yield turn_to


@pytest.fixture(scope="module", params=PATHS)
def shown(request, tab, scene):
    """Open each page in turn, once for all that is looked for on it."""
    return tab(PATHS[request.param].format(scene=scene), whose(request.param))


def test_axe_finds_nothing_on_a_desk_or_a_phone_in_light_or_dark(shown):
    assert looks.faults(shown) == {}


def test_no_page_is_wider_than_its_window(shown):
    assert looks.too_wide(shown) == {}


def test_at_twice_the_size_no_words_are_cut_off_or_lie_over_others(shown):
    assert looks.cramped(shown, [1_082, 902, 640, 320]) == {}
    assert looks.cramped(shown, [1_280, 640, 360], text=30) == {}


def test_everything_is_reached_by_the_keyboard_in_the_order_it_is_read(opened, scene):
    page = opened(f"/jobs/{scene.told}")
    reached = []
    for _ in range(60):
        page.keyboard.press("Tab")
        name = page.evaluate("document.activeElement.innerText || document.activeElement.id")
        reached.append(name.strip().split("\n")[0])
        if name == "Retry once more":
            break
    wanted = ["Skip to content", "Countersign", "Overview", "Jobs", "Sign out", "retry-code"]
    wanted += ["retry-reason", "retry-note", "Retry once more"]
    assert [reached.index(name) for name in wanted] == sorted(map(reached.index, wanted))


def test_the_skip_link_leads_past_the_frame(opened):
    page = opened("/jobs/")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"


def test_what_has_the_focus_is_seen(opened, scene):
    page = opened(f"/jobs/{scene.told}")
    for _ in range(12):
        page.keyboard.press("Tab")
        style = "getComputedStyle(document.activeElement).outlineStyle"
        assert page.evaluate(style) != "none"


MOVING = """
[...document.querySelectorAll("*")].filter(each => {
    const style = getComputedStyle(each);
    return style.transitionDuration !== "0s" || style.animationName !== "none"
        || style.scrollBehavior !== "auto";
}).length
"""


def test_nothing_moves_for_whoever_asked_for_stillness(opened, scene):
    for path in ("/", "/jobs/?state=failed", f"/jobs/{scene.told}"):
        assert opened(path, reduced_motion="no-preference").evaluate(MOVING) > 0
        assert opened(path, reduced_motion="reduce").evaluate(MOVING) == 0


def test_direction_marks_in_values_do_not_turn_the_page_round(opened, scene):
    page = opened(f"/jobs/{scene.hostile}")
    assert "\u202e" not in page.content()
    assert page.locator("h1").inner_text() == scenes.NAUGHTY
    assert page.evaluate("document.images.length") == 0


def test_print_leaves_out_what_only_a_screen_needs(opened, scene):
    page = opened(f"/jobs/{scene.told}")
    page.emulate_media(media="print")
    assert not page.get_by_role("button", name="Retry once more").is_visible()
    assert page.get_by_text("Ours has one.").is_visible()
