"""What people come to the console for, from first page to last, with scripts and without."""

import uuid

import pytest

from console import rights
from console.formats import iso
from queue_core import NewJob, enqueue_many, fleet, retry
from queue_core.outcomes import Failed
from queue_core.queries import ledger
from queue_core.queries.acts import acts_of
from queue_core.queries.ledger import Wanted
from queue_core.transitions.claim import Claimable, claim
from queue_core.transitions.fail import fail
from queue_core.transitions.recover import recover
from tests.conftest import Made
from tests.console import looks
from tests.console.addresses import filled
from tests.console.scenes import PASSWORD

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("stories")]

either_way = pytest.mark.parametrize("script", [True, False], ids=["with scripts", "without"])
"""Pages do all that they do without scripts."""


def check(page, script):
    """Look at a state that no address leads to; axe is a script itself."""
    assert not script or looks.faults(page) == {}
    page.set_viewport_size({"width": 1_440, "height": 800})


@pytest.fixture
def lost(job_in, books, shop):
    """Give a job whose worker was lost while it ran, and which may not simply run again."""
    made = job_in(books, "running", on_lost="review")
    fleet.give_up(books, made.worker)
    recover(books, worker=made.worker)
    with shop.owner() as owner:
        owner.execute(FIRST_OF_ALL, [made.id])
    return made.id


FIRST_OF_ALL = "UPDATE countersign.review SET entered_at = now() - interval '9 h' WHERE id = %s"
"""On the first page of the list, whatever other tests left there before."""


def test_a_job_is_found_and_retried_without_any_script(opened, job_at, stands):
    job = job_at("failed")
    page = opened("/", script=False)
    page.get_by_role("link", name="Failed").last.click()
    page.get_by_label("Search").fill(str(job))
    page.get_by_role("button", name="Filter").first.click()
    page.get_by_label("Reason").fill("provider_outage")
    page.get_by_role("button", name="Retry once more").click()
    page.get_by_text("Queued for one more attempt").wait_for()
    act = page.locator("li[id^=act-]").first.get_attribute("id").removeprefix("act-")
    page.get_by_role("link", name="in the ledger").click()
    assert page.url.endswith(f"/acts/{act}")
    assert stands(job) == ("ready", ["retried"])


@either_way
def test_woken_at_night_somebody_finds_the_lost_job_reads_and_releases_it(
    opened, lost, stands, script
):
    page = opened("/", script=script)
    page.get_by_role("link", name="for review").click()
    row = page.get_by_role("row").filter(has=page.locator(f'a[href*="{lost}"]'))
    assert "Its worker was lost while it ran" in row.inner_text()
    row.get_by_role("link", name="Release").click()
    evidence = page.locator("main").inner_text()
    for sentence in ("it may have run in part", "worker lost: it gave itself up"):
        assert sentence in evidence
    page.locator("#release-reason").fill("checked_outside_effect")
    page.get_by_role("button", name="Release: run it again").click()
    page.get_by_text("Released: it will run again").wait_for()
    assert "/review/" in page.url
    check(page, script)
    assert stands(lost) == ("ready", ["released"])


@either_way
def test_woken_at_night_somebody_does_all_of_it_by_the_keyboard(opened, lost, stands, script):
    page = opened("/", None, script=script)
    tab_to(page, "Operator code")
    page.keyboard.type("ops:alice")
    tab_to(page, "Password")
    page.keyboard.type(PASSWORD)
    press_enter(page)
    tab_to(page, "for review")
    press_enter(page)
    release = f"/jobs/{lost}?form=release"
    tab_to(page, release)
    press_enter(page)
    tab_to(page, "Reason")
    page.keyboard.type("the_provider_has_no_capture")  # one on offer keeps a list open over Enter
    tab_to(page, "Release: run it again")
    press_enter(page)
    assert "Released: it will run again" in page.locator("main").inner_text()
    assert stands(lost) == ("ready", ["released"])


FOCUSED = """
() => {
    if (document.activeElement === document.body) return "";
    const { labels, innerText, href } = document.activeElement;
    return [...(labels ?? [])].map(each => each.innerText).join(" ") + innerText + (href ?? "");
}
"""
MOST_TABS = 500


def tab_to(page, name):
    """Press Tab until what has the focus is called so, or leads there."""
    for _ in range(MOST_TABS):
        page.keyboard.press("Tab")
        if name in page.evaluate(FOCUSED):
            return
    pytest.fail(f"{name} is not reached by Tab on {page.url}")


def press_enter(page):
    """Follow the link, or press the button, that has the focus."""
    with page.expect_navigation():
        page.keyboard.press("Enter")


def press_retry(page, reason="provider_outage", note="They said it is mended."):
    """Sign, on a job's page, and press the button."""
    page.get_by_label("Reason").fill(reason)
    page.get_by_label("Note").fill(note)
    page.get_by_role("button", name="Retry once more").click()


@either_way
def test_a_job_that_moves_on_between_page_and_click_is_left_alone_and_the_page_says_how_it_changed(
    opened, job_at, books, stands, script
):
    job = job_at("failed")
    page = opened(f"/jobs/{job}", script=script)
    retry(books, [job], by="ops:bob", reason="deploy_error", via="console:1")
    before = acts_of(books, job)
    press_retry(page)
    notice = page.get_by_role("alert").inner_text()
    for sentence in (
        "Nothing was done: the job has moved on",
        "You saw it failed after attempt 1.",
        "It is ready after attempt 1 now.",
        "ops:bob gave it one more attempt, reason deploy_error",
        "You had typed as the reason",
        "They said it is mended.",
    ):
        assert sentence in notice
    assert page.get_by_role("button", name="Cancel: never run it").is_visible()
    check(page, script)
    assert stands(job) == ("ready", ["retried"])
    assert acts_of(books, job) == before


@either_way
def test_of_two_operators_at_one_job_the_second_is_told_by_whom_and_when_the_first_acted(
    opened, job_at, books, stands, script
):
    job = job_at("needs_review")
    first, second = (
        opened(f"/jobs/{job}?form=close", code, script=script) for code in ("ops:bob", "ops:alice")
    )
    for page, reason in ((first, "never_took_effect"), (second, "duplicate")):
        page.locator("#close-reason").fill(reason)
        page.get_by_role("button", name="Close: never run it").click()
    assert "Closed: it will never run." in first.get_by_role("status").inner_text()
    (act,) = acts_of(books, job)
    notice = second.get_by_role("alert")
    assert "ops:bob closed it, never to run, reason never_took_effect" in notice.inner_text()
    assert notice.locator("time").get_attribute("datetime") == iso(act.at)
    assert second.locator(f"#act-{act.id}").is_visible()
    assert stands(job) == ("cancelled", ["closed"])


FOR_VIEWERS = {
    "overview": "/",
    "list": "/jobs/?state=failed&queue=mail",
    "job": "/jobs/{scene.told}",
    "job in review": "/jobs/{scene.review}",
    "review": "/review/",
    "what was done": "/jobs/chosen/{scene.bulk}",
    "ledger": "/acts/",
    "queue": "/queues/show?name=mail",
    "schedule": "/schedules/show?name=nightly-report",
    "worker": "/workers/{scene.lost_worker}",
    "handler": "/handlers/show?name=charge_card",
    "operators": "/operators/",
}
HARMLESS = {"Sign out", "Filter", "Keyboard shortcuts"}
"""Buttons that move nothing of anybody else's."""


@either_way
def test_a_viewer_sees_no_button_anywhere_and_gets_403_by_hand(opened, scene, app, books, script):
    page = opened("/", "ops:viola", script=script)
    token = page.locator("[name=csrf_token]").first.get_attribute("value")
    for name, path in FOR_VIEWERS.items():
        page.goto(path.format(scene=scene))
        buttons = page.locator("button:visible, [type=submit]:visible, [type=checkbox]:visible")
        assert set(map(str.strip, buttons.all_inner_texts())) <= HARMLESS, name
        refused = page.get_by_text("Your role does not allow this").count()
        assert refused == (name == "operators")
    if script:
        return  # what is sent by hand is the same either way
    newest = ledger.list_acts(books, Wanted()).rows[0].id
    for rule in app.url_map.iter_rules():
        if "POST" in rule.methods and rights.TABLE[rule.endpoint] in {"operator", "admin"}:
            answer = page.request.post(filled(rule, scene), form={"csrf_token": token})
            assert answer.status == 403, rule.endpoint
            assert "Your role does not allow this. Nothing was done." in answer.text()
    assert ledger.list_acts(books, Wanted()).rows[0].id == newest


@pytest.fixture
def failures(books, registry, make_worker):
    """Give a function that makes so many failed jobs in a queue of their own, by a bad deploy."""

    def make(count):
        queue = f"line-{uuid.uuid4().hex[:12]}"
        asked = enqueue_many(books, [NewJob("mail.send", queue=queue)] * count)
        worker, names = make_worker(books), [Claimable("mail.send", 1, "attempts")]
        claim(books, worker=worker, names=names, queues=[queue], count=count)
        made = [Made(job.id, 1, queue, worker) for job in asked]
        broken = Failed("ImportError: no module named mail", retryable=False)
        fail(books, worker, [each.report(broken) for each in made])
        return queue, [each.id for each in made]

    return make


@either_way
def test_three_hundred_chosen_failures_are_retried_under_one_signature(
    opened, failures, books, script
):
    queue, jobs = failures(303)
    page = opened(f"/jobs/?state=failed&queue={queue}", script=script)
    page.get_by_role("link", name="1,000").click()
    page.get_by_role("link", name="Tick all 303 on this page").click()
    page.get_by_role("button", name="Act on the chosen jobs…").first.click()
    assert page.locator("h1").inner_text() == "303 chosen jobs"
    check(page, script)
    faster = retry(books, jobs[:3], by="ops:bob", reason="deploy_error", via="console:1")
    page.get_by_label("Operator code, typed in full").fill("ops:bob")
    page.get_by_label("Reason").fill("deploy_error")
    page.get_by_label("Note").fill("Rolled back at 14:10.")
    page.get_by_role("button", name="Retry each once more").click()
    assert (
        "Type your own operator code in full, ops:alice: this" in page.locator("main").inner_text()
    )
    assert page.get_by_label("Note").input_value() == "Rolled back at 14:10."
    page.get_by_label("Operator code, typed in full").fill("ops:alice")
    page.get_by_role("button", name="Retry each once more").click()
    assert page.locator("h1").inner_text() == "300 jobs queued for one more attempt"
    assert "3 left alone" in page.get_by_role("status").inner_text()
    why = page.get_by_role("region", name="Table of jobs left alone")
    assert why.inner_text().count("It had moved on: it was ready after attempt 1.") == 3
    bulk = uuid.UUID(page.url.partition("/chosen/")[2][:36])
    signed = ledger.list_acts(books, Wanted(act="retried", bulk=bulk), limit=1_000).rows
    assert {row.subject_id for row in signed} == set(jobs[3:])
    assert {(row.by, row.reason, row.note) for row in signed} == {
        ("ops:alice", "deploy_error", "Rolled back at 14:10.")
    }
    assert len(signed) == 300
    everything = ledger.list_acts(books, Wanted(act="retried"), limit=1_000).rows
    assert sum(row.subject_id in set(jobs) for row in everything) == 300 + len(faster)


@either_way
def test_a_session_that_ends_while_a_reason_is_typed_costs_nothing_of_it(
    opened, job_at, books, stands, script
):
    job = job_at("failed")
    page = opened(f"/sign-in?next=/jobs/{job}", None, script=script)
    sign_in(page, "ops:bob")
    page.get_by_label("Reason").fill("provider_outage")
    books.execute(LEAVE_ALONE)
    press_retry(page, note="They rang: it is mended.\nTwice.")
    assert "What you typed is kept" in page.get_by_role("alert").inner_text()
    assert stands(job) == ("failed", [])
    check(page, script)
    sign_in(page, "ops:bob")
    assert "Nothing was done yet" in page.get_by_role("alert").inner_text()
    assert page.get_by_label("Reason").input_value() == "provider_outage"
    assert page.get_by_label("Note").input_value() == "They rang: it is mended.\nTwice."
    check(page, script)
    page.get_by_role("button", name="Retry once more").click()
    page.get_by_text("Queued for one more attempt").wait_for()
    (act,) = acts_of(books, job)
    assert (act.by, act.reason) == ("ops:bob", "provider_outage")
    assert act.note == "They rang: it is mended.\nTwice."
    assert stands(job) == ("ready", ["retried"])


LEAVE_ALONE = """
UPDATE countersign.sessions SET seen_at = now() - interval '13 hours'
WHERE id = (SELECT id FROM countersign.sessions ORDER BY created_at DESC LIMIT 1)
"""
"""For longer than a session lives without a click."""


def sign_in(page, code):
    page.get_by_label("Operator code").fill(code)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
