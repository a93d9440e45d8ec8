"""The review list: what waits for a person, by the worker that was lost, and the way back."""

import re
import uuid
from typing import Any

import pytest

from queue_core import confirm
from queue_core.marks import assign, note
from queue_core.outcomes import Failed, RunReport
from queue_core.queries import review
from queue_core.queries.review import list_review
from queue_core.transitions.fail import fail
from queue_core.transitions.recover import recover
from tests.console.people import Person, forms
from tests.console.scenes import HOSTILE, add_operators

SIGNED: dict[str, Any] = {"by": "ops:bob", "reason": "on_call"}


def words(text):
    """The words of a page, as a reader sees them."""
    seen = re.sub("<[^>]+>", " ", text.partition("<main")[2])
    return " ".join(seen.split()).replace(" ,", ",")


def listed(page):
    """The jobs on a page of the list, in its order."""
    return [
        uuid.UUID(each) for each in re.findall(r'<a href="/jobs/([0-9a-f-]{36})\?next', page.text)
    ]


def row(page, job):
    """The row of a job, as text with its markup."""
    return next(
        part for part in page.text.split('<tr role="row">') if f"/jobs/{job}?next" in part
    ).partition("</tr>")[0]


def test_what_waits_is_listed_oldest_first(alice, books, scene):
    page = alice.get("/review/")
    assert page.status_code == 200
    wanted = [each.id for each in list_review(books, "needs_review").rows]
    assert listed(page) == wanted
    assert scene.review in wanted
    assert scene.uncertain not in wanted
    assert listed(alice.get("/review/?list=uncertain"))[:1] == [scene.uncertain]


def test_a_group_says_what_became_of_its_worker_and_what_it_held(alice, scene):
    page = alice.get("/review/").text
    group = words(
        "<main"
        + next(each for each in page.split('<div class="sheet') if str(scene.review) in each)
    )
    assert "Lost with worker pay-1, pid 977" in group
    assert "It held 2 jobs when it was lost" in group
    assert "its process was gone" in group
    assert re.search(r"Last heard \d\d \w{3} \d{4} [\d:]{8} UTC", group)


def test_a_row_says_what_is_known_and_what_is_not(alice, scene):
    page = alice.get("/review/")
    known = words("<main" + row(page, scene.review))
    assert "Its worker was lost while it ran" in known
    assert "Attempt 1, process 4180" in known
    assert re.search(r"Claimed [\d:.]{10}, its code started [\d:.]{10}", known)
    assert re.search(r"\d\d \w{3} \d{4} [\d:]{8} UTC \d+ (min|h) ago", known)
    assert "signal 9" in words("<main" + row(page, scene.crashed))
    assert "Claimed: unknown" in words("<main" + row(page, scene.disputed))
    assert "its code was not entered" in words("<main" + row(page, scene.unreadable))


def test_who_looks_after_a_job_and_the_last_note_stand_in_its_row(alice, books, job_at):
    job = job_at("needs_review")
    assert "nobody" in words("<main" + row(last_page(alice), job))
    assign(books, job, **SIGNED)
    note(books, job, **SIGNED, note="<b>Asked</b> the provider.")
    found = row(last_page(alice), job)
    assert "ops:bob" in found
    assert "&lt;b&gt;Asked&lt;/b&gt; the provider." in found


def last_page(somebody, kind="needs_review"):
    """Walk the list to its end: tests put their jobs there."""
    page = somebody.get(f"/review/?list={kind}")
    while there := re.search(r'rel="next"\s+href="([^"]+)"', page.text):
        page = somebody.get(there[1].replace("&amp;", "&"))
    return page


@pytest.mark.parametrize("verb", ["release", "confirm", "close"])
def test_each_decision_opens_the_jobs_form_and_leads_back_to_the_list(alice, job_at, stands, verb):
    job = job_at("needs_review")
    page = last_page(alice)
    link = re.search(rf'href="(/jobs/{job}\?form={verb}[^"]+)"', row(page, job))
    assert link
    opened = alice.get(link[1].replace("&amp;", "&").partition("#")[0])
    assert f'name="decision" id="{verb}" open' in opened.text
    form = {**forms(opened)[f"/jobs/{job}/{verb}"], "reason": "checked_outside_effect"}
    answer = alice.post(f"/jobs/{job}/{verb}", form)
    assert answer.status_code == 303
    assert answer.headers["Location"].startswith("/review/")
    assert job not in listed(alice.get(answer.headers["Location"]))
    assert stands(job)[0] != "needs_review"


def test_a_viewer_sees_the_list_and_no_decision(viola, scene):
    page = viola.get("/review/")
    found = row(page, scene.review)
    assert "form=" not in found
    assert "Operators decide" in found
    assert "abandoned by its worker" not in page.text


def test_pages_lead_there_and_back(alice, monkeypatch, job_at):
    jobs = [job_at("needs_review") for _ in range(3)]
    real = review.list_review
    monkeypatch.setattr(review, "list_review", lambda *a, **k: real(*a, **k, limit=2))
    pages = [alice.get("/review/")]
    while there := re.search(r'rel="next"\s+href="([^"]+)"', pages[-1].text):
        pages.append(alice.get(there[1].replace("&amp;", "&")))
    everything = [job for page in pages for job in listed(page)]
    assert len(set(everything)) == len(everything)
    assert [job for job in everything if job in jobs] == jobs
    back = re.search(r'rel="prev"\s+href="([^"]+)"', pages[-1].text)
    assert back
    assert listed(alice.get(back[1].replace("&amp;", "&"))) == listed(pages[-2])


@pytest.mark.parametrize(
    "query", ["list=failed", "after=x", f"after=1_{'0' * 32}", "after=a&before=b", "before=%00"]
)
def test_an_address_that_names_no_list_is_refused_in_a_sentence(alice, query):
    page = alice.get(f"/review/?{query}")
    assert page.status_code == 400
    assert "no such list" in page.text or "no place" in page.text or "not both" in page.text


def test_kinds_of_nothing_are_told_apart(alice, monkeypatch):
    monkeypatch.setattr(review, "list_review", lambda *_, **__: review.ReviewPage([], None, None))
    assert "Nothing is in review: nobody has to decide" in words(alice.get("/review/").text)
    assert "No failed job may have run in part" in words(alice.get("/review/?list=uncertain").text)
    far = f"1_{'0' * 32}_{'0' * 32}"
    assert "Nothing waits this far" in words(alice.get(f"/review/?after={far}").text)


def test_a_list_that_takes_too_long_says_so_and_keeps_its_tabs(alice, monkeypatch):
    def slowly(conn, *_, **__):
        conn.execute("SET LOCAL statement_timeout = 20")
        conn.execute("SELECT pg_sleep(5)")

    monkeypatch.setattr(review, "list_review", slowly)
    page = alice.get("/review/")
    assert page.status_code == 503
    assert "This list took longer than 3 seconds" in page.text
    assert '<b class="number">' in page.text


def test_numbers_that_take_too_long_leave_the_list_alone(alice, scene, monkeypatch):
    def slowly(conn, **_):
        conn.execute("SET LOCAL statement_timeout = 20")
        conn.execute("SELECT pg_sleep(5)")

    monkeypatch.setattr(review, "waiting", slowly)
    page = alice.get("/review/")
    assert page.status_code == 200
    assert scene.review in listed(page)
    assert '<b class="number">' not in page.text


def test_case_86_what_a_worker_and_a_handler_said_is_never_taken_for_markup(
    alice, shop, books, job_at
):
    job = job_at("needs_review")
    with shop.owner() as owner:
        owner.execute(
            "UPDATE countersign.review SET error = %s, why = 'lost' WHERE id = %s", [HOSTILE, job]
        )
        owner.execute(
            "UPDATE countersign.workers SET host = %s FROM countersign.review"
            " WHERE review.id = %s AND workers.id = review.worker",
            [HOSTILE, job],
        )
    page = last_page(alice).text
    assert "<img src=x" not in page
    assert "\u202e" not in page
    assert page.count("&lt;img src=x onerror=alert(1)&gt;") >= 2
    confirm(books, [job], **SIGNED)


def test_the_navigation_and_the_first_page_lead_here(alice, scene):
    for path in ("/", "/jobs/", f"/jobs/{scene.failed}"):
        assert '<a href="/review/"' in alice.get(path).text
    assert re.search(r'class="need review"\s+href="/review/"', alice.get("/").text)
    assert re.search(r'href="/review/"\s+aria-current="page"', alice.get("/review/").text)


LOST_AT = "UPDATE countersign.workers SET lost_at = now(), lost_rule = 'stale' WHERE id = %s"


def test_what_one_worker_lost_is_one_group_in_however_many_sweeps(app_on, database, job_in):
    books = database.connect()
    add_operators(database.owner())
    mine = [job_in(books, "running", on_lost="review") for _ in range(3)]
    other = job_in(books, "running", on_lost="review")
    move = "UPDATE countersign.running SET worker = %s WHERE id = ANY(%s)"
    books.execute(move, [mine[0].worker, [each.id for each in mine]])
    for worker, limit in ((mine[0].worker, 1), (other.worker, 9), (mine[0].worker, 9)):
        books.execute(LOST_AT, [worker])
        recover(books, worker=worker, limit=limit)
    page = Person(app_on(database.url), "ops:alice").get("/review/")
    assert page.text.count("Lost with worker") == 2
    first, second = page.text.split('<div class="sheet known')[1:3]
    assert all(str(each.id) in first for each in mine)
    assert str(other.id) in second
    assert "It held 3 jobs when it was lost" in first


def test_crashes_of_a_living_worker_stay_in_the_order_of_their_time(app_on, database, job_in):
    books = database.connect()
    add_operators(database.owner())
    made = [job_in(books, "running", on_lost="review") for _ in range(3)]
    move = "UPDATE countersign.running SET worker = %s WHERE id = %s"
    books.execute(move, [made[0].worker, made[2].id])
    for each, worker in zip(made, (made[0].worker, made[1].worker, made[0].worker), strict=True):
        crashed = Failed("crashed: signal 9", outcome="crashed", signal=9)
        fail(books, worker, [RunReport(each.id, 1, crashed)])
    page = Person(app_on(database.url), "ops:alice").get("/review/")
    assert page.text.count("Left by worker") == 3
    assert listed(page) == [each.id for each in made]
