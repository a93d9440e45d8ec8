"""The list of jobs and the page of one."""

import re
import uuid

import pytest

from console import listing
from console.frame import MOST_ON_BADGE
from queue_core import confirm
from queue_core.queries import counts, jobs, tabs
from queue_core.states import STATES
from queue_core.transitions import retry as retrying


def listed(page):
    """The ids of the jobs on a page of a list, in its order."""
    return [
        uuid.UUID(found) for found in re.findall(r'<a href="/jobs/([0-9a-f-]{36})\?', page.text)
    ]


def link(page, word):
    """The address behind a link of a page."""
    found = re.search(rf'href="([^"]+)">{word}<', page.text)
    return found[1].replace("&amp;", "&") if found else None


@pytest.mark.parametrize("state", STATES)
def test_each_state_has_its_tab_with_a_number_and_its_list(alice, books, state):
    page = alice.get(f"/jobs/?state={state}")
    assert page.status_code == 200
    number = counts.capped_counts(books)[state]
    word = state.replace("_", " ").capitalize()
    tab = f'aria-current="page">\n          <span class="state {state}">{word}</span>'
    assert re.search(rf'{tab}\s*<b class="number">{number:,}</b>', page.text)
    assert len(listed(page)) == min(number, 50)
    tabs = re.findall(r'href="/jobs/\?state=(\w+)"', page.text.partition('class="tabs"')[2])
    assert tabs[: len(STATES)] == list(STATES)


def test_without_a_state_the_failed_jobs_are_listed(alice):
    assert "Failed · newest first" in " ".join(
        re.sub("<[^>]+>", " ", alice.get("/jobs/").text).split()
    )


def test_pages_lead_there_and_back_with_every_job_once(alice, books, shop):
    first = alice.get("/jobs/?state=completed&queue=media")
    seen, page = [listed(first)], first
    while there := link(page, "Next"):
        page = alice.get(there)
        seen.append(listed(page))
    everything = [job for each in seen for job in each]
    assert [len(each) for each in seen] == [50, 50, 18]
    assert len(set(everything)) == 118
    back = [seen[-1]]
    while there := link(page, "Previous"):
        page = alice.get(there)
        back.insert(0, listed(page))
    assert back == seen
    assert link(first, "Previous") is None
    assert listed(alice.get(link(page, "Next"))) == seen[1]


def test_filters_narrow_the_list_and_the_numbers_and_stay_in_every_link(alice):
    page = alice.get("/jobs/?state=failed&queue=mail&name=send_invoice")
    assert 'href="/jobs/?state=cancelled&amp;queue=mail&amp;name=send_invoice"' in page.text
    assert re.search(r'name="queue"\s+value="mail"', page.text)
    names = set(re.findall(r'next=[^"]+"><bdi>([^<]+)</bdi>', page.text))
    assert names == {"send_invoice"}
    assert ">Show all<" in page.text


def test_four_kinds_of_nothing_are_told_apart(alice, shop, monkeypatch):
    with shop.owner() as owner:
        owner.execute("DELETE FROM countersign.blocked")  # other tests left some there
    assert "No job is held back by a serial key" in alice.get("/jobs/?state=blocked&queue=").text
    filtered = alice.get("/jobs/?state=failed&queue=nowhere")
    assert (filtered.status_code, "No failed job matches these filters" in filtered.text) == (
        200,
        True,
    )
    far = f"{-(2**40)}_{'0' * 32}"
    assert "There are no jobs this far" in alice.get(f"/jobs/?state=failed&after={far}").text

    def slowly(conn, *_, **__):
        conn.execute("SET LOCAL statement_timeout = 20")
        conn.execute("SELECT pg_sleep(5)")

    monkeypatch.setattr(jobs, "list_jobs", slowly)
    slow = alice.get("/jobs/?state=failed&queue=mail")
    assert slow.status_code == 503
    assert "This list took longer than 3 seconds" in slow.text
    assert 'value="mail"' in slow.text
    assert '<b class="number">' in slow.text


def test_where_looking_stopped_is_said_with_the_way_on_and_back(alice, monkeypatch):
    monkeypatch.setattr(jobs, "WINDOW", 40)
    path = "/jobs/?state=completed&name=nothing"
    page, opened = alice.get(path), 1
    assert "No completed job matches" not in page.text
    assert "None matches among the 5,000 completed jobs" in words(page)
    while there := link(page, "Look further"):
        page, opened = alice.get(there), opened + 1
    assert opened >= 3
    assert "There are no jobs this far" in page.text
    assert link(page, "First page") == path
    while there := link(page, "Previous") or link(page, "Look further"):
        page, opened = alice.get(there), opened + 1
        assert opened < 40
    assert "There are no jobs this far" in page.text


def test_a_page_that_was_cut_off_shows_what_it_found(alice, monkeypatch, scene):
    monkeypatch.setattr(jobs, "WINDOW", 2)  # two that failed are older still
    page = alice.get("/jobs/?state=failed&name=export_ledger")
    while not listed(page):
        page = alice.get(link(page, "Look further"))
    assert listed(page) == [scene.uncertain]
    assert "1 matches among the 5,000 failed jobs" in words(page)
    assert link(page, "Look further")


def test_numbers_under_filters_say_where_there_may_be_more(alice, monkeypatch):
    monkeypatch.setattr(tabs, "WINDOW", 3)
    page = alice.get("/jobs/?state=failed&queue=nowhere").text
    assert '<b class="number">0+</b>' in page
    assert '<b class="number">0</b>' in page


def test_numbers_under_filters_that_take_too_long_leave_the_list_alone(alice, monkeypatch):
    def slowly(conn, **_):
        conn.execute("SET LOCAL statement_timeout = 20")
        conn.execute("SELECT pg_sleep(5)")

    monkeypatch.setattr(tabs, "tabs", slowly)
    page = alice.get("/jobs/?state=failed&queue=mail")
    assert (page.status_code, bool(listed(page))) == (200, True)
    assert '<b class="number">' not in page.text


def test_a_whole_id_leads_to_its_job_and_a_part_narrows(alice, scene):
    for text in (str(scene.told), scene.told.hex):
        answer = alice.get(f"/jobs/?state=ready&queue=mail&q={text}")
        assert (answer.status_code, answer.headers["Location"]) == (303, f"/jobs/{scene.told}")
    shown = f"{str(scene.told)[:13]}…{str(scene.told)[-4:]}"
    assert listed(alice.get(f"/jobs/?state=failed&q={shown}")) == [scene.told]
    assert listed(alice.get("/jobs/?state=failed&q=LEDGER")) == [scene.uncertain]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("error_type=ConnectionRefusedError", 6),
        ("error_type=ValueError&error_place=shop.mail:send_invoice", 1),
        ("not_error_type=ConnectionRefusedError", 4),
        ("not_error_type=ConnectionRefusedError&not_name=charge_card", 3),
        ("operator=ops:bob", 1),
        ("worker=pay-3", 10),
        ("worker=pay-1", 0),
        ("schedule=hourly", 0),
        ("from=2020-01-01", 10),
        ("to=2020-01-01", 0),
    ],
)
def test_each_filter_of_the_address_is_kept_to(alice, query, found):
    others = "not_name=mail.send&not_name=unknown"  # other tests' jobs, however many by now
    page = alice.get(f"/jobs/?state=failed&{others}&{query}")
    names = re.findall(r'next=[^"]+"><bdi>([^<]+)</bdi>', page.text)
    assert len(names) == found


def test_a_filter_in_force_is_named_with_ways_to_take_it_off_and_turn_it_round(alice):
    page = alice.get("/jobs/?state=failed&queue=mail&name=send_invoice&rows=200")
    chips = page.text.partition('class="chips"')[2].partition("</ul>")[0].replace("&amp;", "&")
    assert 'href="/jobs/?state=failed&name=send_invoice&rows=200">remove' in chips
    assert 'href="/jobs/?state=failed&name=send_invoice&not_queue=mail&rows=200">leave out' in chips
    turned = alice.get("/jobs/?state=failed&not_queue=mail")
    assert "Queue is not mail only these" in words(turned)
    assert 'class="chips"' not in alice.get("/jobs/").text


def test_an_error_leads_to_all_jobs_that_failed_so(alice):
    page = alice.get("/jobs/?state=failed&queue=mail")
    there = re.search(r'class="plain sub" href="([^"]+ValueError[^"]+)"', page.text)
    assert there
    same = alice.get(there[1].replace("&amp;", "&"))
    assert len(listed(same)) == 1
    assert "Error place shop.mail:send_invoice" in words(same)


@pytest.mark.parametrize(("rows", "shown"), [("200", 118), ("1000", 118), ("7", 50), ("x", 50)])
def test_a_page_is_as_long_as_asked(alice, monkeypatch, rows, shown):
    monkeypatch.setattr(listing, "MOST", 40)
    first = alice.get(f"/jobs/?state=completed&queue=media&rows={rows}")
    assert len(listed(first)) == len(set(listed(first))) == shown
    beyond = alice.get(link(first, "Next")) if shown < 118 else first
    if shown < 118:
        assert listed(alice.get(link(beyond, "Previous"))) == listed(first)


def test_numbers_that_take_too_long_leave_the_list_alone(alice, monkeypatch):
    real = counts.capped_counts

    def slowly(conn, *, cap=counts.CAP, **more):
        if cap == counts.CAP:
            conn.execute("SET LOCAL statement_timeout = 20")
            conn.execute("SELECT pg_sleep(5)")
        return real(conn, cap=cap, **more)

    monkeypatch.setattr(counts, "capped_counts", slowly)
    page = alice.get("/jobs/?state=failed")
    assert page.status_code == 200
    assert listed(page)
    assert '<b class="number">' not in page.text


def test_every_statement_of_a_list_has_three_seconds(alice, monkeypatch):
    seen = []

    def ask(conn, *_, **__):
        seen.append(conn.execute("SHOW statement_timeout").fetchone()["statement_timeout"])
        return jobs.Page([], None, None)

    monkeypatch.setattr(jobs, "list_jobs", ask)
    alice.get("/jobs/")
    assert seen == ["3s"]


@pytest.mark.parametrize(
    "query",
    [
        "state=done",
        "state=FAILED",
        "after=x",
        "before=x",
        "after=1_2",
        "after=1_" + "0" * 32 + "&before=1_" + "0" * 32,
        "after=" + "9" * 18 + "_" + "0" * 32,
    ],
)
def test_an_address_that_names_no_list_is_refused_in_a_sentence(alice, query):
    page = alice.get(f"/jobs/?{query}")
    assert page.status_code == 400
    assert (
        "no such state" in page.text
        or "no place" in page.text
        or "after a row or before one" in page.text
    )


@pytest.mark.parametrize("value", ["a%00b", "x" * 201])
def test_a_filter_that_nothing_can_match_is_said_at_its_field(alice, value):
    page = alice.get(f"/jobs/?state=failed&queue={value}")
    assert page.status_code == 400
    assert 'id="queue-fault"' in page.text
    assert "A queue has at most 200 characters" in page.text


def test_a_job_that_has_run_before_waits_in_amber_with_its_count(alice, scene):
    for path in ("/jobs/?state=waiting", f"/jobs/{scene.retrying}"):
        assert '<span class="state retrying">Waiting · retry 2 of 3</span>' in alice.get(path).text
    assert '<span class="state waiting">Waiting</span>' in alice.get(f"/jobs/{scene.later}").text


def test_times_in_lists_are_relative_with_the_absolute_one_in_the_title(alice):
    page = alice.get("/jobs/?state=needs_review").text
    absolute = r'datetime="[\d-]{10}T[\d:]{8}Z" title="\d\d \w{3} \d{4} [\d:]{8} UTC"'
    assert re.search(rf"<time {absolute}>\d+ min ago</time>", page)


@pytest.mark.parametrize("path", ["/", "/jobs/", "/jobs/?state=running"])
def test_the_footer_tells_the_databases_clock_and_the_age_of_the_numbers(alice, path):
    page = alice.get(path).text
    assert re.search(r"Database clock <time [^>]+>\d\d \w{3} \d{4} [\d:]{8} UTC</time>", page)
    assert re.search(r"Numbers (under 1|\d) s old when sent", page)


def test_the_instance_is_named_on_every_page(alice, person):
    for page in (alice.get("/"), person().get("/sign-in"), alice.get("/nowhere")):
        assert "production · eu-west" in page.text


def test_the_badge_says_how_many_wait_for_review(alice, books, job_at):
    number = counts.capped_counts(books, cap=MOST_ON_BADGE)["needs_review"]
    assert f'<span class="badge">{number}<' in alice.get("/").text
    job_at("needs_review")
    assert f'<span class="badge">{number + 1}<' in alice.get("/jobs/").text


def test_the_page_of_a_lost_job_says_what_is_known_and_what_is_not(alice, scene):
    page = words(alice.get(f"/jobs/{scene.review}"))
    assert "Its worker was lost while it ran" in page
    assert "it may have run in part" in page
    assert "worker pay-1, pid 977" in page
    assert "What ended it worker lost: its process was gone" in page
    assert "Starts attempt 2 from its beginning, and does not undo what attempt 1 did." in page
    assert "may still be at work" not in page  # its process was seen to be gone


def words(page):
    """The words of a page, as a reader sees them."""
    return " ".join(re.sub("<[^>]+>", " ", page.text.partition("<main")[2]).split()).replace(
        " ,", ","
    )


def test_each_reason_for_a_review_has_its_sentence(alice, scene):
    assert "Its process died while it ran" in words(alice.get(f"/jobs/{scene.crashed}"))
    assert "signal 9" in words(alice.get(f"/jobs/{scene.crashed}"))
    assert "may have been done twice" in words(alice.get(f"/jobs/{scene.disputed}"))
    assert "completed after it was given up" in words(alice.get(f"/jobs/{scene.disputed}"))
    unreadable = words(alice.get(f"/jobs/{scene.unreadable}"))
    assert "Nothing ran, so there is nothing to undo" in unreadable
    assert "Its code started never: it was not entered" in unreadable
    assert "tried to read its arguments" in unreadable


def test_a_filter_at_fault_is_not_folded_away(alice):
    assert '<details class="more" open>' in alice.get("/jobs/?from=yesterday").text
    assert '<details class="more" >' in alice.get("/jobs/?state=failed").text


def test_the_timeline_tells_the_story_in_order(alice, scene):
    page = words(alice.get(f"/jobs/{scene.told}")).partition("Timeline")[2].partition("Decide")[0]
    story = (
        *(
            "Asked for",
            "Attempt 1 claimed by",
            "Its code started, process 4180",
            "Attempt 1 failed",
        ),
        *("ops:bob gave it one more attempt: provider_outage", "Attempt 2 claimed by"),
        *("Attempt 2 failed", "ops:alice gave it one more attempt: deploy_error"),
        *("Attempt 3 claimed by", "Attempt 3 passed its time limit"),
    )
    places = [page.find(sentence) for sentence in story]
    assert -1 not in places
    assert places == sorted(places)
    assert re.search(r"\d\d:\d\d:\d\d\.\d", page)


def test_the_history_says_who_why_and_what_came_of_it(alice, scene):
    page = words(alice.get(f"/jobs/{scene.told}")).partition("What people did")[2]
    for sentence in (
        "ops:alice gave it one more attempt: deploy_error",
        "Ours has one.",
        "What came of it: attempt 3 passed its time limit",
        "ops:bob gave it one more attempt: provider_outage",
        "What came of it: attempt 2 failed",
    ):
        assert sentence in page


def test_a_run_that_was_asked_to_stop_says_by_whom_and_since_when(alice, scene):
    page = words(alice.get(f"/jobs/{scene.stopping}"))
    assert re.search(r"Asked to stop by ops:bob, \d\d \w{3} \d{4} [\d:]{8} UTC", page)
    assert "Nothing was killed" in page
    assert "Asked to stop" in alice.get("/jobs/?state=running").text


def test_an_uncertain_failure_says_so_and_asks_to_check_first(alice, scene):
    page = words(alice.get(f"/jobs/{scene.uncertain}"))
    assert "it may have run in part" in page
    assert "check outside first" in page
    assert "May have run in part" in alice.get("/jobs/?state=failed&queue=reports").text


def test_a_job_that_never_was_is_not_found_and_retention_is_mentioned(alice):
    page = alice.get(f"/jobs/{uuid.uuid4()}")
    assert page.status_code == 404
    assert "deleted by retention" in page.text


@pytest.mark.parametrize(
    "name", ["x", "1", "0199f2c4-7d1e-7b02-9f11", "g" * 36, "0199f2c4-7d1e-7b02-9f11-5c1f0a6ce0d4x"]
)
def test_what_is_no_id_is_not_found(alice, name):
    assert alice.get(f"/jobs/{name}").status_code == 404


def test_a_job_deleted_by_retention_keeps_its_acts(alice, shop, books, job_at):
    job = job_at("failed")
    retrying.retry(books, [job], by="ops:bob", reason="deploy_error", via="console:1")
    form = {**alice.form(job, "cancel"), "reason": "duplicate"}
    with shop.owner() as owner:
        owner.execute("DELETE FROM countersign.ready WHERE id = %s", [job])
        owner.execute("DELETE FROM countersign.jobs WHERE id = %s", [job])
    page = alice.get(f"/jobs/{job}")
    assert page.status_code == 200
    assert "Deleted by retention" in page.text
    assert "ops:bob gave it one more attempt: deploy_error" in words(page)
    assert "mail.send" in page.text
    answer = alice.post(f"/jobs/{job}/cancel", form)
    assert answer.status_code == 404
    assert "duplicate" in answer.text


def test_a_job_in_review_whose_body_is_gone_is_there_to_be_seen(alice, shop, job_at):
    job = job_at("needs_review")
    with shop.owner() as owner:
        body = owner.execute("DELETE FROM countersign.jobs WHERE id = %s RETURNING *", [job])
        assert body.fetchone()
    assert job in listed(alice.get("/jobs/?state=needs_review"))
    page = words(alice.get(f"/jobs/{job}"))
    assert "What was asked for unknown: its row is gone" in page
    assert "its handler’s" not in page
    assert f"/jobs/{job}/release" not in alice.get(f"/jobs/{job}").text
    answer = alice.post(f"/jobs/{job}/release", {**alice.form(job, "confirm"), "reason": "seen"})
    assert answer.status_code == 404
    assert "Nothing was done: a job cannot be released" in answer.text
    assert alice.act(job, "close").status_code == 303


def test_a_job_that_a_person_confirmed_says_who_did_and_no_run_completed_it(alice, books, job_at):
    job = job_at("needs_review")
    confirm(books, [job], by="ops:bob", reason="seen_at_the_bank")
    page = words(alice.get(f"/jobs/{job}"))
    assert "Completed, as ops:bob confirmed" in page
    assert "ops:bob confirmed that it did run: seen_at_the_bank" in page
    assert "Attempt 1 completed" not in page


def test_opening_an_act_as_a_page_leads_back_to_the_job(alice, scene):
    page = alice.get(f"/jobs/{scene.failed}/retry")
    assert page.status_code == 405
    assert f'href="/jobs/{scene.failed}"' in page.text


def test_a_job_page_knows_the_way_back_to_its_list(alice, scene):
    there = "/jobs/?state=failed&queue=mail"
    (way, *_) = re.findall(rf'href="(/jobs/{scene.failed}\?next=[^"]+)"', alice.get(there).text)
    page = alice.get(way)
    assert link(page, "Back to the list") == there
    assert "Back to the list" not in alice.get(f"/jobs/{scene.failed}?next=//evil.example").text


def test_a_job_of_very_many_runs_shows_the_newest(alice, shop, job_at):
    job = job_at("failed")
    with shop.owner() as owner:
        owner.execute(
            "INSERT INTO countersign.runs (job_id, attempt, outcome)"
            " SELECT %s, n, 'failed' FROM generate_series(2, 400) AS n",
            [job],
        )
    page = alice.get(f"/jobs/{job}")
    assert "The oldest 350" in page.text
    assert page.text.count("Attempt 400 failed") == 2
    assert "Attempt 7 failed" not in page.text


def test_what_nobody_recorded_is_called_unknown(alice, shop, job_at):
    job = job_at("needs_review")
    with shop.owner() as owner:
        owner.execute(
            "UPDATE countersign.review SET why = 'lost', worker = NULL, claimed_at = NULL,"
            " started_at = NULL, signal = NULL WHERE id = %s",
            [job],
        )
    page = words(alice.get(f"/jobs/{job}"))
    for sentence in (
        "Claimed unknown",
        "Its code started unknown",
        "By an unknown worker",
        "Its worker last heard unknown",
        "What ended it unknown",
    ):
        assert sentence in page
