"""What the page of one job tells beside its state: the axis, the handler, what was lost with it."""

import re
from datetime import timedelta
from typing import Any

import pytest

from queue_core import fleet, handlers, retry
from queue_core.handlers import Declared
from queue_core.queries import acts, facts
from queue_core.transitions.recover import recover
from tests.console.scenes import NAUGHTY

SIGNED: dict[str, Any] = {"by": "ops:bob", "reason": "deploy_error", "via": "console:1"}


def words(page):
    """The words of a page, as a reader sees them."""
    seen = re.sub("<[^>]+>", " ", page.text.partition("<main")[2])
    return " ".join(seen.split()).replace(" ,", ",")


def part(page, name):
    """The words of the sheet with this id for its heading."""
    sheet = page.text.partition(f'aria-labelledby="{name}"')[2].partition("</section>")[0]
    seen = re.sub("<[^>]+>", " ", f"<{sheet}")
    return " ".join(seen.split()).replace(" ,", ",")


def test_each_attempt_is_a_bar_that_is_told_in_words_too(alice, scene):
    page = alice.get(f"/jobs/{scene.told}").text
    told = re.findall(r'role="img" aria-label="(Attempt \d: from [^"]+)"', page)
    assert [each[:9] for each in told] == ["Attempt 1", "Attempt 2", "Attempt 3"]
    assert all(re.search(r"from [\d:.]{10}, ended [\d:.]{10}$", each) for each in told)
    assert page.count('<rect class="ran"') == 3
    assert " style=" not in page


def test_a_job_that_never_ran_has_no_axis(alice, scene):
    assert 'class="axis"' not in alice.get(f"/jobs/{scene.ready}").text


def test_the_timeline_tells_of_the_last_beat_and_the_loss(alice, scene):
    told = part(alice.get(f"/jobs/{scene.review}"), "timeline")
    assert "Last heard of worker pay-1, pid 977" in told
    assert "Declared lost: worker pay-1, pid 977: its process was gone" in told


def test_a_job_that_waits_says_when_its_next_attempt_is_due(alice, scene):
    assert "Attempt 2 due" in part(alice.get(f"/jobs/{scene.retrying}"), "timeline")


def test_what_came_of_a_retry_is_the_end_of_its_run_with_the_time(alice, scene):
    told = part(alice.get(f"/jobs/{scene.told}"), "acts")
    moment = r"\d\d \w{3} \d{4} [\d:]{8} UTC"
    assert re.search(f"What came of it: attempt 3 passed its time limit, {moment}", told)
    assert re.search(f"What came of it: attempt 2 failed, {moment}", told)


def test_what_is_declared_of_the_name_stands_on_the_page(alice, scene):
    card = part(alice.get(f"/jobs/{scene.review}"), "handler")
    for fact in (
        "What is declared of charge_card",
        "Safe to repeat not declared",
        "When a run is lost a person decides",
        "Time limit 30 s",
        "What it does outside Takes money from a card",
        "Owner payments team",
    ):
        assert fact in card
    page = alice.get(f"/jobs/{scene.review}").text
    assert '<a href="https://runbooks.shop.example/charge-card" rel="noreferrer">' in page


def test_who_decides_on_a_lost_job_reads_first_how_safe_it_is_and_how_to_check(alice, scene):
    beside = part(alice.get(f"/jobs/{scene.review}"), "decide")
    assert "Not declared safe to repeat." in beside
    assert "How to check: Search the captures" in beside
    assert "declared safe" not in part(alice.get(f"/jobs/{scene.failed}"), "decide")


def test_a_name_that_no_worker_ever_declared_says_so(alice, job_at):
    card = part(alice.get(f"/jobs/{job_at('failed')}"), "handler")
    assert "Nothing: no worker has said yet that it handles this name" in card


def test_case_86_what_code_declares_is_never_taken_for_markup(alice, shop, job_at):
    job = job_at("failed")
    naughty = NAUGHTY + "x" * 400
    told = Declared("mail.send", "q", effects=naughty, how_to_check=naughty, runbook=naughty)
    with shop.owner() as owner:
        worker = fleet.register(owner, fleet.Identity("h", 1, "b", "p", "0.1.0", [], 1))
        handlers.declare(owner, worker, [told])
        try:
            page = alice.get(f"/jobs/{job}").text
        finally:
            owner.execute("DELETE FROM countersign.handlers WHERE name = 'mail.send'")
    assert "<img src=x" not in page
    assert page.count("&lt;img src=x") >= 3
    assert 'href="javascript' not in page


@pytest.fixture
def lost_together(job_in, books):
    """Give a function that loses three jobs with one worker, and names them."""

    def lose():
        made = [job_in(books, "running", on_lost="review") for _ in range(3)]
        worker = made[0].worker
        jobs = [each.id for each in made]
        books.execute(
            "UPDATE countersign.running SET worker = %s WHERE id = ANY(%s)", [worker, jobs]
        )
        fleet.give_up(books, worker)
        recover(books, worker=worker)
        return jobs

    return lose


def test_what_was_lost_with_the_same_worker_is_listed_as_it_stands_now(alice, books, lost_together):
    one, two, three = lost_together()
    alice.act(two, "confirm", reason="checked_outside_effect")
    page = alice.get(f"/jobs/{one}?next=/review/")
    told = part(page, "siblings")
    assert told.count("mail.send") == 2
    assert "Completed" in told
    assert "Needs review" in told
    listed = page.text.partition('aria-labelledby="siblings"')[2].partition("</section>")[0]
    assert f"/jobs/{one}?" not in listed
    for job in (two, three):
        assert f'href="/jobs/{job}?next=/review/"' in listed


def test_a_job_that_was_lost_alone_or_not_at_all_has_no_such_list(alice, scene):
    for job in (scene.crashed, scene.failed, scene.running):
        assert 'id="siblings"' not in alice.get(f"/jobs/{job}").text


@pytest.mark.parametrize(("place", "days"), [("failed", 30), ("completed", 7), ("cancelled", 7)])
def test_a_job_that_ended_says_until_when_it_is_kept(alice, books, job_at, place, days):
    job = job_at(place)
    found = facts.job(books, job)
    assert found
    assert found.ended_at
    until = found.ended_at + timedelta(days=days)
    assert f"Kept until {until:%d %b %Y} at least" in part(alice.get(f"/jobs/{job}"), "facts")


def test_one_that_may_have_run_in_part_is_kept_until_somebody_decides(alice, scene):
    told = part(alice.get(f"/jobs/{scene.uncertain}"), "facts")
    assert "Kept until somebody has decided" in told


def test_a_deleted_jobs_page_tells_what_its_id_and_its_acts_still_say(alice, books, shop, job_at):
    job = job_at("failed")
    asked = facts.job(books, job)
    assert asked
    retry(books, [job], **SIGNED)
    with shop.owner() as owner:
        owner.execute("DELETE FROM countersign.ready WHERE id = %s", [job])
        owner.execute("DELETE FROM countersign.jobs WHERE id = %s", [job])
        owner.execute("DELETE FROM countersign.runs WHERE job_id = %s", [job])
    page = alice.get(f"/jobs/{job}")
    assert page.status_code == 200
    told = part(page, "deleted")
    assert f"Asked for {asked.created_at:%d %b %Y %H:%M:%S} UTC" in told
    (act,) = acts.acts_of(books, job)
    assert f"Its last act {act.at:%d %b %Y %H:%M:%S} UTC" in told
    assert "when is not recorded" in told
    assert "ops:bob gave it one more attempt: deploy_error" in words(page)
    assert '<form class="act"' not in page.text
