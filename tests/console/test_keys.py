"""One-key shortcuts: what each does, when none does anything, and how they are switched off."""

import pytest

from tests.console import looks

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("stories")]

FOCUSED = "document.activeElement.id || document.activeElement.name"


def is_open(page):
    return page.get_by_role("dialog", name="Keyboard shortcuts").is_visible()


def test_a_slash_leads_to_the_search_of_a_list_and_from_elsewhere_to_that_of_the_jobs(opened):
    page = opened("/jobs/?state=failed&q=mail")
    page.keyboard.press("/")
    assert page.evaluate(FOCUSED) == "search"
    page.keyboard.type("send/8")
    assert page.locator("#search").input_value() == "send/8"
    page.goto("/acts/")
    page.keyboard.press("/")
    assert page.evaluate(FOCUSED) == "by"
    page.goto("/workers/")
    page.keyboard.press("/")
    page.wait_for_url("**/jobs/#search")
    page.wait_for_function(f"({FOCUSED}) === 'search'")


def test_a_question_mark_lists_the_shortcuts_and_closes_the_list_again(opened, scene):
    page = opened(f"/jobs/{scene.told}")
    page.keyboard.press("?")
    assert is_open(page)
    assert looks.faults(page) == {}
    assert looks.too_wide(page) == {}
    listed = page.get_by_role("dialog").inner_text().split()
    assert {"/", "n", "p", "?", "Tab", "Enter", "Space"} <= set(listed)
    page.keyboard.press("?")
    assert not is_open(page)
    page.get_by_role("button", name="Keyboard shortcuts").click()
    assert is_open(page)
    page.keyboard.press("/")
    assert page.evaluate(FOCUSED) != "search"
    page.keyboard.press("Escape")
    assert not is_open(page)
    assert page.evaluate("document.activeElement.innerText") == "Keyboard shortcuts"
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Close").click()
    assert not is_open(page)


def test_n_and_p_turn_the_pages_of_a_list(opened):
    page = opened("/jobs/?state=completed&queue=media")
    page.keyboard.press("p")
    for key, place in (("n", "after="), ("n", "after="), ("p", "before=")):
        with page.expect_navigation():
            page.keyboard.press(key)
        assert place in page.url


@pytest.mark.parametrize("field", ["input[type=search]", "select", "textarea"])
def test_no_shortcut_works_while_somebody_types(opened, scene, field):
    page = opened(
        {"select": "/acts/", "textarea": f"/jobs/{scene.told}"}.get(field, "/jobs/?state=completed")
    )
    before = page.url
    page.locator(field).first.focus()
    page.keyboard.type("?/n?")
    assert not is_open(page)
    assert page.url == before
    if field != "select":
        assert page.locator(field).first.input_value() == "?/n?"


@pytest.mark.parametrize("held", ["Control", "Alt", "Meta"])
def test_keys_of_the_browsers_own_are_left_to_it(opened, held):
    page = opened("/jobs/?state=completed")
    before = page.url
    for key in ("/", "?", "n"):
        page.keyboard.press(f"{held}+{key}")
    assert not is_open(page)
    assert page.url == before
    assert page.evaluate(FOCUSED) != "search"


def test_shortcuts_that_are_switched_off_stay_off_until_they_are_switched_on(opened):
    page = opened("/jobs/?state=completed")
    page.keyboard.press("?")
    page.get_by_label("One-key shortcuts are on").uncheck()
    page.get_by_role("button", name="Close").click()
    for _ in range(2):
        page.keyboard.press("/")
        page.keyboard.press("?")
        assert page.evaluate(FOCUSED) != "search"
        assert not is_open(page)
        page.goto("/jobs/?state=failed")
    page.get_by_role("button", name="Keyboard shortcuts").click()
    page.get_by_label("One-key shortcuts are on").check()
    page.keyboard.press("?")
    assert not is_open(page)
    page.keyboard.press("/")
    assert page.evaluate(FOCUSED) == "search"


def test_nobody_is_told_of_shortcuts_where_none_works(opened):
    page = opened("/jobs/", script=False)
    assert not page.get_by_text("Keyboard shortcuts").first.is_visible()
    assert not is_open(page)


def test_where_a_browser_keeps_nothing_shortcuts_work_all_the_same(opened):
    page = opened("about:blank")
    page.add_init_script(
        "Object.defineProperty(window, 'localStorage', {get() { throw new Error('off') }})"
    )
    page.goto("/jobs/")
    page.keyboard.press("?")
    page.get_by_label("One-key shortcuts are on").uncheck()
    page.get_by_role("button", name="Close").click()
    page.keyboard.press("?")
    assert not is_open(page)
