"""Handlers: the card of each name, and names that nobody handles."""

import re

from queue_core import enqueue, fleet, handlers
from queue_core.handlers import Declared
from tests.conftest import CANARY
from tests.console import scenes
from tests.console.people import Person
from tests.console.scenes import NAUGHTY
from tests.console.test_jobs import words


def show(person, name):
    return person.get("/handlers/show", query_string={"name": name})


def test_names_are_listed_with_their_options_and_who_handles_them(alice):
    page = words(alice.get("/handlers/"))
    assert re.search(
        r"charge_card (\d workers?|Nobody) payments 3 30 s a person decides not declared payments",
        page,
    )
    assert re.search(r"send_invoice (\d workers?|Nobody) mail 5 20 s runs again yes mail", page)
    assert re.search(r"resize_image (\d workers?|Nobody) media 1 – runs again yes web team", page)


def test_the_card_says_what_a_person_needs_before_they_decide(alice):
    page = show(alice, "charge_card")
    told = words(page)
    for sentence in (
        "Not declared: a second run may do it twice",
        "Takes money from a card, once for each order.",
        "Search the captures for the order.",
        "payments team",
        "a person decides",
    ):
        assert sentence in told
    assert '<a href="https://runbooks.shop.example/charge-card" rel="noreferrer">' in page.text
    assert re.search(r"By pay-1, pid 1033", told)


def test_what_is_no_address_of_a_page_is_no_link(alice):
    page = show(alice, NAUGHTY)
    assert 'href="javascript' not in page.text
    assert "<img" not in page.text
    assert "Runbook javascript:alert(1)" in words(page)


def test_what_nobody_said_is_told_as_not_said(alice):
    assert words(show(alice, "resize_image")).count("not said") == 3


def test_a_name_that_no_worker_declared_is_told_so(alice):
    page = show(alice, "nobody.knows")
    assert page.status_code == 200
    assert "No worker has ever said that it handles this name" in words(page)


def test_what_cannot_be_a_name_has_no_page(alice):
    for name in ("", "a\0b", "x" * 201):
        assert show(alice, name).status_code == 404


def test_ready_jobs_that_nobody_handles_come_first_on_both_pages(app_on, database, registry):
    with database.owner() as owner:
        scenes.add_operators(owner)
        worker = fleet.register(owner, fleet.Identity("pay-3", 1, "b", "p", "0.1.0", [], 4))
        handlers.declare(owner, worker, [Declared("audit.file", "default")])
        enqueue(owner, "mail.send", {"address": CANARY}, queue="mail")
        somebody = Person(app_on(database.url), "ops:alice")
        page = words(somebody.get("/handlers/"))
        assert re.search(r"No worker handles this name .* mail\.send mail due .* audit\.file", page)
        assert re.search(
            r"1 name that no worker handles jobs of mail\.send ready for", words(somebody.get("/"))
        )
        told = words(show(somebody, "mail.send"))
        assert "No worker handles this name" in told
        assert "No worker that lives and takes jobs handles this name." in told
        handlers.declare(owner, worker, [Declared("mail.send", "mail")])
        assert "No worker handles" not in words(somebody.get("/handlers/"))
        assert "that no worker handles" not in words(somebody.get("/"))


def test_names_come_a_page_at_a_time(app_on, database):
    with database.owner() as owner:
        scenes.add_operators(owner)
        worker = fleet.register(owner, fleet.Identity("pay-3", 1, "b", "p", "0.1.0", [], 4))
        names = [f"name & {number:03}" for number in range(120)]
        handlers.declare(owner, worker, [Declared(each, "default") for each in names])
        somebody = Person(app_on(database.url), "ops:alice")
        seen, page = [], somebody.get("/handlers/")
        while True:
            seen += re.findall(r"<bdi>name &amp; (\d+)</bdi></a></th>", page.text)
            found = re.search(r'rel="next" href="([^"]+)"', page.text)
            if not found:
                break
            page = somebody.get(found[1].replace("&amp;", "&"))
        assert [int(each) for each in seen] == list(range(120))
        found = re.search(r'rel="prev" href="([^"]+)"', page.text)
        assert found
        back = somebody.get(found[1].replace("&amp;", "&")).text
        assert "name &amp; 050" in back
        assert "name &amp; 049" not in back


def test_there_may_be_no_names_yet(app_on, database):
    with database.owner() as owner:
        scenes.add_operators(owner)
    somebody = Person(app_on(database.url), "ops:alice")
    assert "No worker has said yet what it handles." in words(somebody.get("/handlers/"))
    assert "There are no names this far" in words(somebody.get("/handlers/?after=z"))
