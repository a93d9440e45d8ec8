"""The pages in a real browser: nothing that keeps people out, on a phone and on a desk."""

import pytest
from axe_playwright_python.base import AXE_SCRIPT

from tests.console import scenes
from tests.console.screens import signed_in

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}
ASK = """
async rules => (await axe.run({...rules, resultTypes: ["violations"]})).violations
    .map(each => ({id: each.id, target: each.nodes[0].target}))
"""
COLOURS = {"runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}}
"""What can differ between light and dark."""


@pytest.fixture(scope="module")
def state(chromium, address):
    """Give the cookies of an operator who is signed in."""
    return signed_in(chromium, address, "ops:alice")


@pytest.fixture
def opened(chromium, address, state):
    """Give a function that opens a page; whatever the browser complains of fails the test."""
    contexts, complaints = [], []

    def tell(message):
        if message.type in {"error", "warning"}:
            complaints.append(message.text)

    def failed(request):
        if request.failure != "net::ERR_ABORTED":  # the page was left before all of it came
            complaints.append(f"{request.url}: {request.failure}")

    def open_page(path, *, width=1440, scheme="light", script=True, known=True):
        context = chromium.new_context(
            viewport={"width": width, "height": 800},
            color_scheme=scheme,
            java_script_enabled=script,
            storage_state=state if known else None,
            reduced_motion="reduce",  # a colour on its way from light to dark is neither
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", tell)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("requestfailed", failed)
        page.goto(address + path)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert [each for each in complaints if not EXPECTED(each)] == []


def EXPECTED(complaint):  # noqa: N802 - reads as the constant that it is for
    """A page that answers 404 or 409 on purpose is reported as one."""
    return "the server responded with a status of 4" in complaint


PATHS = {
    "sign-in": "/sign-in",
    "overview": "/",
    "jobs, failed": "/jobs/?state=failed&queue=mail",
    "jobs, in review": "/jobs/?state=needs_review",
    "jobs, waiting": "/jobs/?state=waiting",
    "jobs, a page": "/jobs/?state=completed&queue=media",
    "jobs, none": "/jobs/?state=failed&queue=nowhere",
    "jobs, a wrong filter": "/jobs/?queue=" + "x" * 201,
    "job, in review": "/jobs/{scene.review}",
    "job, failed": "/jobs/{scene.told}?next=/jobs/",
    "job, hostile": "/jobs/{scene.hostile}",
    "job, stopping": "/jobs/{scene.stopping}",
    "job, completed": "/jobs/{scene.completed}",
    "not found": "/nowhere",
}
"""Every page, and each state of one that looks different."""


@pytest.mark.parametrize("name", PATHS)
def test_axe_finds_nothing_on_a_phone_or_a_desk_in_light_or_dark(opened, scene, name):
    page = opened(PATHS[name].format(scene=scene), known=name != "sign-in")
    page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
    page.evaluate(AXE_SCRIPT)
    found = {}
    for width in (1_440, 360):
        page.set_viewport_size({"width": width, "height": 800})
        page.emulate_media(color_scheme="light")
        found[width, "light"] = faults(page, RULES)
        page.emulate_media(color_scheme="dark")
        found[width, "dark"] = faults(page, COLOURS)
    assert {way: each for way, each in found.items() if each} == {}


def faults(page, rules):
    """What axe has against a page that it was put into."""
    violations = page.evaluate(ASK, rules)
    return [f"{each['id']}: {each['target']}" for each in violations]


@pytest.mark.parametrize("name", PATHS)
def test_no_page_is_wider_than_its_window(opened, scene, name):
    page = opened(PATHS[name].format(scene=scene), width=320)
    for width in (320, 360, 500, 768, 1_000, 1_440):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.scrollingElement.scrollWidth") <= width


def test_a_job_is_found_and_retried_without_any_script(opened, job_at, stands):
    job = job_at("failed")
    page = opened("/", script=False)
    page.get_by_role("link", name="Failed").last.click()
    page.goto(page.url.split("/jobs/")[0] + f"/jobs/{job}")
    page.get_by_label("Reason").fill("provider_outage")
    page.get_by_role("button", name="Retry once more").click()
    page.get_by_text("Queued for one more attempt").wait_for()
    page.get_by_role("link", name="in the job’s history").click()
    assert page.url.endswith(page.locator("li[id^=act-]").first.get_attribute("id"))
    assert stands(job) == ("ready", ["retried"])


def test_everything_is_reached_by_the_keyboard_in_the_order_it_is_read(opened, scene):
    page = opened(f"/jobs/{scene.told}")
    reached = []
    for _ in range(60):
        page.keyboard.press("Tab")
        name = page.evaluate("document.activeElement.innerText || document.activeElement.id")
        reached.append(name.strip().split("\n")[0])
        if name == "Retry once more":
            break
    wanted = ["Skip to content", "Countersign", "Overview", "Jobs", "Sign out", "operator_code"]
    wanted += ["reason", "note", "Retry once more"]
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
