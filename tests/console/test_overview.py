"""The first page: what needs a person, then how everything stands."""

import re

from queue_core import fleet
from queue_core.queries import counts
from queue_core.states import STATES
from tests.console import scenes
from tests.console.people import Person
from tests.console.test_jobs import words


def test_what_needs_a_person_comes_first(alice, books):
    page = words(alice.get("/"))
    number = counts.capped_counts(books)
    review, failed = number["needs_review"], number["failed"]
    oldest = rf"What needs a person {review} jobs wait for review oldest (4\d|5\d|1 h)"
    assert re.search(oldest, page)
    assert f"{failed} failed" in page
    assert "may have run in part" in page
    assert re.search(r"\d+ min the oldest ready job waits in queue reports, which is paused", page)
    assert (
        page.index("What needs a person")
        < page.index("Jobs by state")
        < page.index("Queues")
        < page.index("Workers")
    )


def test_counts_by_state_come_in_the_order_of_life_and_lead_to_their_lists(alice):
    part = alice.get("/").text.partition("Jobs by state")[2].partition("</section>")[0]
    assert re.findall(r'href="/jobs/\?state=(\w+)"', part) == list(STATES)


def test_queues_and_workers_are_listed(alice):
    page = words(alice.get("/"))
    assert re.search(r"mail 4 \d+ min 0 0", page)
    assert "stock 0 – 1 2" in page
    assert "pay-3 4121 8 all" in page
    assert "pay-1 977" not in page


def test_an_empty_queue_says_that_all_is_well_and_a_fleet_that_is_gone_does_not(app_on, database):
    with database.owner() as owner:
        scenes.add_operators(owner)
    page = words(Person(app_on(database.url), "ops:alice").get("/"))
    for sentence in (
        "0 jobs wait for review nobody has to decide",
        "0 ready jobs nothing is due",
        "0 workers live nothing will run",
        "No worker is live",
        "No queue holds a job",
    ):
        assert sentence in page


LONG = """
INSERT INTO countersign.ready (id, queue, name, rank, run_at)
SELECT countersign.new_id(), 'long', 'mail.send', 0, now() FROM generate_series(1, 1200)
"""


def test_a_long_queue_is_counted_up_to_a_thousand_and_all_of_them_further(app_on, database):
    with database.owner() as owner:
        scenes.add_operators(owner)
        owner.execute(LONG)
    page = words(Person(app_on(database.url), "ops:alice").get("/"))
    assert "long 1,000+ " in page
    assert "Ready 1,200" in page


def test_of_a_large_fleet_the_first_are_listed_with_the_way_to_all(app_on, database):
    with database.owner() as owner:
        scenes.add_operators(owner)
        for pid in range(1, 52):
            fleet.register(owner, fleet.Identity("pay-3", pid, "b", "p", "0.1.0", [], 1))
    page = Person(app_on(database.url), "ops:alice").get("/")
    assert page.text.count('href="/workers/0') == 50
    assert "All 51 live workers" in words(page)
