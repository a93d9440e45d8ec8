"""Workers: the living with what they run, and tombstones with what was lost with them."""

import re
from uuid import uuid4

import pytest

from queue_core import fleet
from queue_core.queries import workers
from tests.console.test_jobs import words


def part(page, heading):
    """Return the words of the section under a heading."""
    return words(page).partition(heading)[2]


def test_the_living_are_listed_with_what_they_run(alice, scene):
    page = words(alice.get("/workers/"))
    assert re.search(r"mail-2 (Live|Silent) 30551 all 2 days ago", page)
    assert re.search(r"2 of 8 sync_stock \d+ min ago sync_stock \d+ min ago", page)
    assert "night shift mail-3" in page
    assert re.search(r"pay-1 (Live|Silent) 1033 ", page)
    assert "977" not in re.findall(r"(?:Live|Silent) (\d+)", page)
    assert "pay-2 " not in page


def test_lost_and_stopped_ones_have_lists_of_their_own(alice):
    lost, stopped = (words(alice.get(f"/workers/?fate={fate}")) for fate in ("lost", "stopped"))
    assert re.search(r"pay-1 Lost 977 all .* 8 .*its process was gone", lost)
    assert "pay-2 Stopped 1204" in stopped
    assert "pay-1" not in stopped


def test_a_fate_that_there_is_none_of_is_a_wrong_filter(alice):
    answer = alice.get("/workers/?fate=undead")
    assert answer.status_code == 400
    assert "There are only live, lost, stopped workers" in answer.text


def test_the_tombstone_says_what_was_lost_and_where_it_is_now(alice, scene):
    page = alice.get(f"/workers/{scene.lost_worker}")
    assert page.status_code == 200
    told = part(page, "What it held when it was lost")
    assert re.search(r"charge_card \S+ Needs review payments 1", told)
    assert f"/jobs/{scene.review}" in page.text
    assert f"/jobs/{scene.disputed}" in page.text
    assert "Lost: its process was gone" in words(page)


def test_a_worker_that_was_only_silent_may_still_be_alive(alice, books):
    silent, judge = (
        fleet.register(books, fleet.Identity(host, 5, "boot-9", "pid:[9]", "0.1.0", [], 1))
        for host in ("far-1", "near-1")
    )
    books.execute(
        "UPDATE countersign.workers SET lost_at = now(), lost_by = %s, lost_rule = 'stale'"
        " WHERE id = %s",
        [judge, silent],
    )
    page = alice.get(f"/workers/{silent}")
    assert "it may still be alive" in words(page)
    assert f'href="/workers/{judge}"' in page.text
    assert "either it held no run, or retention has deleted those jobs" in words(page)


def test_the_page_of_a_living_one_says_what_it_runs(alice, scene):
    page = alice.get(f"/workers/{scene.worker}")
    told = part(page, "What it runs")
    assert "2 runs in 8 slots" in told
    assert re.search(r"sync_stock .* stock 1 .* 4180", told)
    assert "asked to stop" in told
    assert "What it held when it was lost" not in words(page)


def test_a_draining_one_says_so(alice, scene, books):
    books.execute(
        "UPDATE countersign.workers SET beat_at = clock_timestamp() WHERE id = %s",
        [scene.draining_worker],
    )
    page = words(alice.get(f"/workers/{scene.draining_worker}"))
    assert "Draining: it takes no more jobs" in page
    assert "Draining since" in page
    assert "mail, reports" in page


def test_a_silent_one_says_what_happens_to_its_runs(alice, scene, books):
    books.execute(
        "UPDATE countersign.workers SET beat_at = clock_timestamp() - interval '7 min'"
        " WHERE id = %s",
        [scene.worker],
    )
    page = words(alice.get(f"/workers/{scene.worker}"))
    assert "Silent mail-2" in page
    assert "Not heard from for 7 min" in page


def test_a_worker_that_never_was_is_not_found(alice):
    assert alice.get(f"/workers/{uuid4()}").status_code == 404


MANY = """
INSERT INTO countersign.workers (id, host, pid, boot_id, pid_namespace, version, queues, slots,
    stopped_at)
SELECT countersign.new_id(), 'many-' || n, n, 'b', 'p', 'v', '{}', 1, now() - n * interval '1 min'
FROM generate_series(1, 120) AS n
"""


def test_thousands_of_tombstones_come_a_page_at_a_time(alice, books):
    books.execute(MANY)
    seen, address = [], "/workers/?fate=stopped"
    while address:
        page = alice.get(address)
        seen += re.findall(r"many-(\d+)<", page.text)
        found = re.search(r'rel="next"\s+href="([^"]+)"', page.text)
        address = found and found[1].replace("&amp;", "&")
    assert [int(each) for each in seen] == list(range(1, 121))
    assert alice.get("/workers/?fate=stopped&after=x").status_code == 400
    assert "There are no workers this far" in words(
        alice.get(f"/workers/?fate=stopped&after=0_{'0' * 32}")
    )


@pytest.mark.parametrize("fate", ["live", "lost", "stopped"])
def test_an_empty_list_says_whether_that_is_good(alice, fate, monkeypatch):
    monkeypatch.setattr(
        workers, "list_workers", lambda *_, **__: workers.WorkerPage([], None, None)
    )
    told = {
        "live": "No worker is live, so nothing will run",
        "lost": "No worker was ever lost",
        "stopped": "No worker has stopped yet",
    }
    assert told[fate] in words(alice.get(f"/workers/?fate={fate}"))


def test_what_a_worker_held_comes_a_page_at_a_time(alice, books, monkeypatch):
    identity = fleet.Identity("far-7", 5, "boot-7", "pid:[7]", "0.1.0", [], 1)
    gone = fleet.register(books, identity)
    books.execute(
        "UPDATE countersign.workers SET lost_at = now(), lost_rule = 'stale' WHERE id = %s", [gone]
    )
    books.execute(
        "INSERT INTO countersign.runs (job_id, attempt, outcome, worker)"
        " SELECT countersign.new_id(), 1, 'lost', %s FROM generate_series(1, 201)",
        [gone],
    )
    first = alice.get(f"/workers/{gone}")
    assert "200 of more, in the order they were asked for" in words(first)
    (following,) = re.findall(r'rel="next"\s+href="([^"]+)"', first.text)
    second = alice.get(following)
    assert "1 of more, in the order they were asked for" in words(second)
    (back,) = re.findall(r'rel="prev"\s+href="([^"]+)"', second.text)
    assert "200 of more" in words(alice.get(back))
    nothing = alice.get(f"/workers/{gone}?after={'f' * 32}_9")
    assert "There is no more of it this far" in words(nothing)
    assert alice.get(f"/workers/{gone}?after=x").status_code == 400
    assert alice.get(f"/workers/{gone}?after={'f' * 32}_9&before={'f' * 32}_9").status_code == 400
