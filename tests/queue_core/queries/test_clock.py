"""The database's clock."""

from queue_core.queries.clock import now


def test_the_clock_goes_on_within_a_transaction(conn) -> None:
    (began,) = conn.execute("SELECT now() AS at").fetchall()
    first, second = now(conn), now(conn)
    assert began["at"] < first < second
    assert first.utcoffset() is not None
