"""All tests of the core that do not need a session to themselves, through PgBouncer."""

import pytest

from tests.chaos.conftest import IS_LONG
from tests.pooler import PGBOUNCER, passed_through_it

SECONDS = 3_000

pytestmark = [
    pytest.mark.chaos,
    pytest.mark.skipif(PGBOUNCER is None, reason="NOT RUN: no pgbouncer (Debian: pgbouncer)"),
    pytest.mark.skipif(not IS_LONG, reason="tests/test_pgbouncer.py has those that stand for all"),
]


@pytest.mark.timeout(SECONDS + 40)
def test_case_73_all_tests_of_the_core_pass_through_a_pooler():
    assert passed_through_it("tests/queue_core", seconds=SECONDS) > 1_000
