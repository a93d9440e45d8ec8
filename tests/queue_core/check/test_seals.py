"""Whatever is done to sealed acts and to the seals is named by its own code."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg.rows import DictRow

from queue_core import check, seals
from queue_core.check import chain, sealed
from queue_core.errors import OptionError
from queue_core.queries.seals import Head, newest, read_head
from tests.sealing import ACT, RECHAIN, seal_all, sign, tamper, with_a_past


@pytest.fixture(scope="module")
def aged(databases) -> Iterator[Any]:
    """Give a database whose ledger has 20 acts in 10 seals, one each hour, none with id 5."""
    with databases.lend() as made:
        with_a_past(made.connect(), made.owner())
        yield made


@pytest.fixture
def owner(aged) -> Iterator[psycopg.Connection[DictRow]]:
    """Give a connection of the superuser whose one transaction is rolled back."""
    connection = aged.owner(autocommit=False)
    yield connection
    connection.close()  # the database keeps what it gave until the module's end


def codes(problems: list[check.Problem]) -> set[str]:
    return {problem.code for problem in problems}


def named(conn: Any, *, full: bool = False) -> list[str]:
    """Return the codes and the words of all problems, each of which says what to do."""
    found = check.check(conn, full=full)
    assert all(problem.mend for problem in found)
    return [f"{problem.code} {problem.what}" for problem in found]


@pytest.mark.parametrize("full", [False, True])
def test_a_ledger_with_a_past_is_sound(owner, full):
    assert check.check(owner, full=full) == []


INSERT = """
INSERT INTO countersign.acts (id, at, xid, by, act, subject_kind, subject_id, subject_name, attempt,
    reason, via)
SELECT {}, {}, {}, acts.by, acts.act, acts.subject_kind, acts.subject_id, acts.subject_name,
    acts.attempt, acts.reason, acts.via
FROM countersign.acts
WHERE acts.id = 4
"""
LATER = "acts.at + interval '10 min'"
HORIZON = "(SELECT seals.horizon FROM countersign.seals ORDER BY seals.number DESC LIMIT 1)"
OWN = "pg_current_xact_id()"
INSERTED = {
    "into a gap, of an old transaction": INSERT.format(5, LATER, "acts.xid"),
    "into a gap, of a transaction not yet sealed": INSERT.format(5, LATER, HORIZON),
    "into a gap, of its own transaction": INSERT.format(5, LATER, OWN),
    "into a gap, dated today": INSERT.format(5, "clock_timestamp()", OWN),
    "as the newest, backdated": INSERT.format(22, LATER, OWN),
    "as the newest, of an old transaction": INSERT.format(22, "clock_timestamp()", "acts.xid"),
    "as the newest, dated tomorrow": INSERT.format(22, "now() + interval '1 d'", OWN),
    "as the newest, dated never": INSERT.format(22, "'infinity'", OWN),
    "of a transaction to come": INSERT.format(22, "clock_timestamp()", "'999999999'::xid8"),
}


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("statement", INSERTED.values(), ids=INSERTED)
def test_an_act_that_was_put_in_is_named(owner, statement, full):
    owner.execute("SELECT setval('countersign.acts_id', 22)")
    tamper(owner, statement)
    found = check.check(owner, full=full)
    assert codes(found) == {"ledger.act_inserted"}
    assert all("act 5" in str(problem) or "act 22" in str(problem) for problem in found)


def test_an_act_that_was_put_in_before_the_first_is_named_in_full(owner):
    tamper(owner, INSERT.format(-1, "acts.at - interval '9 h'", "acts.xid"))
    (found,) = named(owner, full=True)
    assert found.startswith("ledger.act_inserted act -1 ")


CHANGED = {
    "at": "at = at + interval '1 microsecond'",
    "at, to never": "at = '-infinity'",
    "by": "by = 'ops:mallory'",
    "act": "act = 'retried'",
    "subject_kind": "subject_kind = 'queue', subject_id = NULL, attempt = NULL",
    "subject_id": "subject_id = gen_random_uuid()",
    "subject_name": "subject_name = subject_name || ' '",
    "attempt": "attempt = attempt + 1",
    "reason": "reason = 'another'",
    "note": "note = 'x'",
    "bulk_id": "bulk_id = gen_random_uuid()",
    "via": "via = 'cli:alice@pay-3'",
    "xid": "xid = (xid::text::bigint - 1)::text::xid8",
}


@pytest.mark.parametrize("column", CHANGED)
def test_an_act_that_was_changed_is_named(owner, column):
    tamper(owner, f"UPDATE countersign.acts SET {CHANGED[column]} WHERE id = 8")
    assert named(owner) == ["ledger.act_changed act 8 was changed after seal 4 was made"]


@pytest.mark.parametrize("act", [1, 9, 21])
def test_an_act_that_was_removed_is_named(owner, act):
    tamper(owner, f"DELETE FROM countersign.acts WHERE id = {act}")
    (found,) = named(owner)
    assert found.startswith(f"ledger.act_removed act {act}, which seal ")


def test_all_acts_removed_are_named_one_by_one(owner):
    tamper(owner, "DELETE FROM countersign.acts")
    assert codes(check.check(owner)) == {"ledger.act_removed"}
    assert len(check.check(owner)) == 20


def test_an_act_under_another_id_is_removed_and_inserted(owner):
    tamper(owner, "UPDATE countersign.acts SET id = 5 WHERE id = 6")
    assert codes(check.check(owner)) == {"ledger.act_removed", "ledger.act_inserted"}


def test_two_acts_that_changed_places_are_named(owner):
    tamper(
        owner,
        "UPDATE countersign.acts SET id = -6 WHERE id = 6; "
        "UPDATE countersign.acts SET id = 6 WHERE id = 7; "
        "UPDATE countersign.acts SET id = 7 WHERE id = -6",
    )
    assert codes(check.check(owner)) == {"ledger.act_changed"}


SEAL_CHANGED = {
    "at": "at = at + interval '1 microsecond'",
    "xid": "xid = '3'",
    "system_identifier": "system_identifier = 1",
    "rebase": "rebase = true",
    "horizon": "horizon = '3'",
    "base": "base = 99",
    "ids": "ids = ARRAY[ids[2], ids[1]]",
    "digests": "digests = ARRAY[digests[2], digests[1]]",
    "count": "count = 1, ids = ids[1:1], digests = digests[1:1]",
    "sha256": "sha256 = sha256('x')",
    "previous": "previous = sha256('x')",
}


@pytest.mark.parametrize("seal", [4, 10])
@pytest.mark.parametrize("column", SEAL_CHANGED)
def test_a_seal_that_was_changed_is_named(owner, column, seal):
    tamper(owner, f"UPDATE countersign.seals SET {SEAL_CHANGED[column]} WHERE number = {seal}")
    assert named(owner) == [f"ledger.seal_changed seal {seal} is not as it was made"]


def test_a_seal_made_anew_is_named(owner):
    tamper(
        owner,
        "UPDATE countersign.seals SET horizon = '3' WHERE number = 4; "
        "UPDATE countersign.seals SET sha256 = countersign.seal_digest(seals) WHERE number = 4",
    )
    assert named(owner) == [
        "ledger.seal_changed seal 4 was made anew: seal 5 follows another",
    ]


@pytest.mark.parametrize(
    ("which", "said"),
    [
        ("number = 4", "seal 4 is missing before seal 5"),
        ("number = 1", "seal 1 is missing before seal 2"),
        ("number BETWEEN 3 AND 6", "seals 3 to 6 are missing before seal 7"),
        ("number < 10", "seals 1 to 9 are missing before seal 10"),
    ],
)
def test_a_seal_that_was_removed_is_named(owner, which, said):
    tamper(owner, f"DELETE FROM countersign.seals WHERE {which}")
    assert named(owner) == [f"ledger.seal_removed {said}"]


def test_seals_numbered_anew_are_named(owner):
    tamper(
        owner,
        "DELETE FROM countersign.seals WHERE number = 4; "
        "UPDATE countersign.seals SET number = number - 1 WHERE number > 4",
    )
    assert codes(check.check(owner)) == {"ledger.seal_changed"}


# The newest seals, and a chain made anew, show against what was kept outside


def test_the_head_is_in_the_chain_while_nothing_is_done_to_it(owner):
    kept = [seal.head for seal in newest(owner)]
    assert len(kept) == 10
    assert check.check(owner, heads=kept) == []


@pytest.mark.parametrize("which", ["number = 10", "number > 3", "true"])
def test_the_newest_seals_removed_show_against_a_head_kept_outside(owner, which):
    head = newest(owner)[0].head
    tamper(owner, f"DELETE FROM countersign.seals WHERE {which}")
    assert check.check(owner, full=True) == []
    (found,) = check.check(owner, heads=[head])
    assert found.code == "ledger.seal_removed"
    assert "seal 10, whose hash was kept outside, is not there" in found.what


def test_a_chain_made_anew_shows_against_a_head_kept_outside(owner):
    head = newest(owner)[0].head
    tamper(owner, f"UPDATE countersign.acts SET by = 'ops:mallory' WHERE id = 8; {RECHAIN}")
    assert check.check(owner, full=True) == []
    (found,) = check.check(owner, heads=[head])
    assert found.code == "ledger.seal_changed"
    assert "another hash than the one kept outside" in found.what


def test_a_head_is_read_as_it_is_written():
    head = Head(12, "0a" * 32)
    assert read_head(str(head)) == head
    assert read_head(f" 12:{'0A' * 32}\n") == head


@pytest.mark.parametrize(
    "text",
    ["", "12", "12:", "0:" + "0a" * 32, "12:" + "0g" * 32, "-1:" + "0a" * 32, "٣:" + "0a" * 32],
)
def test_what_is_no_head_is_refused(text):
    with pytest.raises(OptionError):
        read_head(text)


# Quick and full


def test_old_seals_and_their_acts_are_looked_at_in_full_only(owner, monkeypatch):
    monkeypatch.setattr(chain, "NEWEST_SEALS", 3)
    tamper(
        owner,
        "UPDATE countersign.acts SET by = 'ops:mallory' WHERE id = 3; "
        "UPDATE countersign.seals SET horizon = '3' WHERE number = 4",
    )
    assert check.check(owner) == []
    assert codes(check.check(owner, full=True)) == {"ledger.act_changed", "ledger.seal_changed"}


def test_what_was_put_in_long_ago_is_looked_for_in_full_only(owner, monkeypatch):
    monkeypatch.setattr(chain, "NEWEST_SEALS", 3)
    tamper(owner, INSERTED["into a gap, of an old transaction"])
    assert check.check(owner) == []
    assert codes(check.check(owner, full=True)) == {"ledger.act_inserted"}


def test_the_quick_form_finds_what_was_put_among_the_newest(owner, monkeypatch):
    monkeypatch.setattr(chain, "NEWEST_SEALS", 3)
    tamper(
        owner,
        INSERTED["as the newest, of an old transaction"].replace("acts.id = 4", "acts.id = 20"),
    )
    owner.execute("SELECT setval('countersign.acts_id', 22)")
    assert codes(check.check(owner)) == {"ledger.act_inserted"}


def test_only_the_newest_acts_are_put_in_order_by_the_quick_form(owner, monkeypatch):
    monkeypatch.setattr(sealed, "NEWEST_ACTS", 5)
    tamper(owner, f"UPDATE countersign.acts SET at = now() WHERE id = 3; {RECHAIN}")
    assert "ledger.act_inserted act 3" in named(owner)[0]
    assert len(named(owner)) == 1
    assert len(named(owner, full=True)) == 2


def test_of_very_many_problems_the_first_hundred_are_told(owner, monkeypatch):
    monkeypatch.setattr(sealed, "MOST_PROBLEMS", 3)
    tamper(owner, "DELETE FROM countersign.acts")
    assert len(check.check(owner)) == 3


# What is committed, and goes on


def test_a_backdated_act_is_named_after_it_was_sealed_too(database):
    conn, owner = database.connect(), database.owner()
    with_a_past(conn, owner)
    tamper(owner, INSERTED["into a gap, of its own transaction"])
    assert seal_all(conn) == [1]
    (found,) = named(conn, full=True)
    assert found.startswith("ledger.act_inserted act 5 is dated ")
    assert "but came in after the seal of" in found


@pytest.mark.parametrize(("seconds", "found"), [(299, 0), (301, 2)])
def test_dates_within_five_minutes_of_the_order_are_honest(owner, seconds, found):
    tamper(
        owner,
        "UPDATE countersign.acts SET at = (SELECT at FROM countersign.acts WHERE id = 9) "
        f"+ interval '{seconds} s' WHERE id = 8; {RECHAIN}",
    )
    assert len(named(owner)) == found


def test_acts_that_nobody_sealed_yet_are_quiet(database):
    conn = database.connect()
    sign(conn, 3)
    assert check.check(conn, full=True) == []
    seals.seal(conn)
    sign(conn, 3)
    assert check.check(conn, full=True) == []
    conn.execute(ACT.replace("'why_not'", "'why'"), [1])
    assert check.check(conn) == []


def test_acts_of_the_callers_own_transaction_are_quiet(owner):
    sign(owner, 2)
    assert check.check(owner, full=True) == []
    assert check.check(owner) == []


# What is hashed

FIELDS = {
    "id": "9",
    "at": "at + interval '1 microsecond'",
    "by": "by || 'x'",
    "act": "'released'",
    "subject_kind": "'operator'",
    "subject_id": "NULL",
    "subject_name": "subject_name || 'x'",
    "attempt": "NULL",
    "reason": "reason || 'x'",
    "note": "''",
    "kill_after": "30",
    "bulk_id": "gen_random_uuid()",
    "via": "via || E'\\n'",
    "xid": "'9'::xid8",
}


def test_every_column_of_an_act_is_hashed(owner):
    columns = owner.execute(
        "SELECT attname::text AS name FROM pg_attribute "
        "WHERE attrelid = 'countersign.acts'::regclass AND attnum > 0 ORDER BY attnum"
    ).fetchall()
    names = [row["name"] for row in columns]
    assert set(names) == set(FIELDS)
    digests = set()
    for changed in [None, *names]:
        fields = ", ".join(FIELDS[name] if name == changed else name for name in names)
        row = owner.execute(
            f"SELECT countersign.act_digest(ROW({fields})::countersign.acts) AS digest "
            "FROM countersign.acts WHERE id = 8"
        ).fetchone()
        digests.add(row["digest"])
    assert len(digests) == 1 + len(names)


@pytest.mark.parametrize(
    "setting",
    [
        "timezone = 'Pacific/Kiritimati'",
        "datestyle = 'German'",
        "intervalstyle = 'sql_standard'",
        "bytea_output = 'escape'",
        "extra_float_digits = -3",
        "lc_numeric = 'C'",
        "search_path = ''",
        "client_encoding = 'LATIN1'",
        "standard_conforming_strings = off",
    ],
)
def test_no_setting_of_a_session_has_a_say_in_a_hash(owner, setting):
    owner.execute(f"SET LOCAL {setting}")
    assert check.check(owner, full=True) == []
