"""Cases from the field: what a worker with nothing to do costs its database."""

from typing import Any

import pytest

SECONDS = 8
MOST_PER_SECOND = 6
"""Of one worker at the settings that it comes with; idle, each statement is a transaction."""
TAKEN = """
SELECT clock_timestamp() AS at, xact_commit + xact_rollback AS transactions
FROM pg_stat_database
WHERE datname = current_database()
"""


@pytest.fixture
def database(new_database: Any) -> Any:
    return new_database


def test_case_83_an_idle_worker_asks_little_of_its_database(database, start_worker) -> None:
    watch: Any = database.owner()
    start_worker(stale_after=60.0).id()
    watch.execute("SELECT pg_sleep(4)")  # its first round of chores is not idling
    (before,) = watch.execute(TAKEN).fetchall()
    watch.execute("SELECT pg_sleep(%s)", [SECONDS])
    (after,) = watch.execute(TAKEN).fetchall()
    seconds = (after["at"] - before["at"]).total_seconds()
    assert (after["transactions"] - before["transactions"]) / seconds <= MOST_PER_SECOND
