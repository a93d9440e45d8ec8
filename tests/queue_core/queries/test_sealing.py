"""Which seal an act is said to be in: just the one that holds it, however many there are."""

import pytest

from queue_core import seals
from queue_core.queries.sealing import MOST_LOOKED_THROUGH, sealing
from tests.sealing import RECHAIN, seal_all, sealed, sign, tamper

OTHER_SERVER = "UPDATE countersign.seals SET system_identifier = 1"
AHEAD = """
UPDATE countersign.seals SET horizon = (horizon::text::bigint + 900000000)::text::xid8;
UPDATE countersign.acts SET xid = (xid::text::bigint + 900000000)::text::xid8
"""


def told(conn, ids):
    """Return what is said of each act: its seal where it is in it, None, or `astray`."""
    found = sealing(conn, ids)
    return [
        (each.seal if each.held or not each.seal else "astray")
        for each in map(found.__getitem__, ids)
    ]


def truth(conn, ids):
    """Return the number of the seal that holds each act, from the seals themselves."""
    held = {act: number for number, acts in enumerate(sealed(conn), start=1) for act in acts}
    return [held.get(act) for act in ids]


@pytest.fixture
def conn(database):
    """Give an autocommit connection to a database of the test's own."""
    return database.connect()


def test_an_act_is_not_sealed_until_it_is(conn):
    ids = sign(conn, 2)
    assert told(conn, ids) == [None, None]
    seal_all(conn)
    assert told(conn, ids) == [1, 1]
    assert told(conn, [*sign(conn), *ids]) == [None, 1, 1]


@pytest.mark.parametrize("count", [1, 2, 3, 8, 13])
def test_each_of_many_seals_is_found(conn, count):
    ids = []
    for number in range(count):
        ids += sign(conn, number % 3 + 1)
        seals.seal(conn)
    ids += sign(conn)
    assert told(conn, ids) == truth(conn, ids)
    assert told(conn, ids)[-2:] == [count, None]


def test_an_act_whose_transaction_ended_late_is_found_in_the_seal_that_took_it(conn, database):
    late = database.connect(autocommit=False)
    held = sign(late)
    early = sign(conn)
    assert seal_all(conn) == []
    late.commit()
    seal_all(conn)
    newer = sign(conn)
    seal_all(conn)
    ids = held + early + newer
    assert told(conn, ids) == truth(conn, ids) == [1, 1, 2]


@pytest.mark.parametrize("change", [OTHER_SERVER, AHEAD])
def test_on_another_server_it_is_found_across_the_rebase(conn, database, change):
    ids = []
    for _ in range(3):
        ids += sign(conn, 2)
        seals.seal(conn)
    tamper(database.owner(), f"{change}; {RECHAIN}")
    ids += sign(conn, 2)
    assert told(conn, ids) == [1, 1, 2, 2, 3, 3, None, None]
    for _ in range(3):
        seals.seal(conn)
        ids += sign(conn, 2)
    assert told(conn, ids) == truth(conn, ids)
    assert told(conn, ids)[6:] == [4, 4, 5, 5, 6, 6, None, None]


def test_acts_that_came_with_numbers_of_another_server_are_in_the_rebase_that_took_them(
    conn, database
):
    old = sign(conn, 3)
    tamper(
        database.owner(), "UPDATE countersign.acts SET xid = (xid::text::bigint + 40)::text::xid8"
    )
    seal_all(conn)
    new = [sign(conn)[0] for _ in range(60)]
    seal_all(conn)
    assert told(conn, old + new) == truth(conn, old + new)


def test_an_act_put_in_past_the_triggers_is_in_no_seal(conn, database):
    sign(conn, 2)
    database.owner().execute("SELECT nextval('countersign.acts_id')")
    sign(conn)
    seal_all(conn)
    tamper(
        database.owner(),
        "INSERT INTO countersign.acts (id, at, xid, by, act, subject_kind, subject_name, reason, "
        "via) SELECT 3, acts.at, acts.xid, 'ops:mallory', 'added', 'operator', 'x', "
        "'x', 'code' FROM countersign.acts WHERE acts.id = 2",
    )
    assert told(conn, [2, 3, 4]) == [1, "astray", 1]


def test_an_act_of_a_seal_that_was_removed_is_in_no_seal(conn, database):
    ids = []
    for _ in range(3):
        ids += sign(conn)
        seals.seal(conn)
    tamper(database.owner(), "DELETE FROM countersign.seals WHERE number = 2")
    assert told(conn, ids)[1] == "astray"


def test_in_a_seal_too_large_to_look_through_the_horizon_decides(conn):
    ids = sign(conn, MOST_LOOKED_THROUGH + 1)
    seal_all(conn)
    assert told(conn, ids[:1] + ids[-1:]) == [1, 1]


def test_without_acts_nothing_is_asked(conn):
    assert sealing(conn, []) == {}
