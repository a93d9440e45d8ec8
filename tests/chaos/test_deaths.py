"""Children and supervisors killed at random moments: no run is lost, and none counts twice."""

from collections import Counter
from typing import Any

import pytest

from queue_core import cancel, release, retry
from tests.chaos.conftest import IS_LONG
from tests.chaos.load import mixed
from tests.queue_core.worker.conftest import wait_for

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1_800), pytest.mark.xdist_group("chaos-line")]

KILLS, JOBS = (300, 30_000) if IS_LONG else (12, 900)
AT_ONCE = JOBS // KILLS
MOST_READY = 5 * AT_ONCE
"""So that kills meet jobs from the first to the last, however slow the machine."""
READY = "SELECT count(*) AS jobs FROM countersign.ready"
SUPERVISORS = 4
"""Each fourth of the killed is a supervisor."""
STRUCK = "SELECT job_id FROM countersign.runs WHERE outcome IN ('lost', 'crashed') LIMIT 1"
SIGNED: dict[str, Any] = {"by": "ops:alice", "reason": "chaos_goes_on"}
PICK = {
    "ready": "SELECT id FROM countersign.ready ORDER BY id LIMIT 3",
    "failed": "SELECT id FROM countersign.ended WHERE state = 'failed' LIMIT 20",
    "review": "SELECT id FROM countersign.review LIMIT 1000",
}


def ids(conn, place):
    return [row["id"] for row in conn.execute(PICK[place]).fetchall()]


def act(books, conn, dice):
    """Do what people do meanwhile: cancel what waits, retry what failed, release what is known."""
    books.sign(cancel(conn, ids(conn, "ready"), **SIGNED))
    books.sign(retry(conn, ids(conn, "failed"), **SIGNED))
    if dice.random() < 0.5:
        books.sign(release(conn, ids(conn, "review"), **SIGNED))


def test_whoever_is_killed_at_whatever_moment_the_books_agree(database, books, staff, dice):
    conn = database.connect()
    for _ in range(3):
        staff.hire(
            stale_after=120.0
        )  # deaths are seen at once; nobody is slow enough to be given up
    staff.await_ready()
    kills = 0
    exits: Counter[int] = Counter()
    while kills < KILLS or not conn.execute(STRUCK).fetchone():
        wait_for(lambda: conn.execute(READY).fetchone()["jobs"] < MOST_READY, 300)
        books.ask(conn, *mixed(dice, AT_ONCE))
        kills += staff.kill_one(dice, supervisor=kills % SUPERVISORS == 0)
        exits.update(staff.replace_ended())
        if dice.random() < 0.2:
            act(books, conn, dice)
    books.await_rest(conn, 600)
    while to_release := ids(conn, "review"):
        books.sign(release(conn, to_release, **SIGNED))
        books.await_rest(conn, 120)
    staff.await_ready()
    assert set(staff.dismiss()) == {0}
    books.prove(conn)
    assert set(exits) <= {2}, staff.lines("ERROR")  # three children died before the first hello
    assert max(books.overlaps().values(), default=0.0) < 5  # what a killed child had sent may come
    print(f"{kills} killed, {len(books.asked)} jobs: {dict(books.balance(conn))}")  # noqa: T201
