"""A ledger on another server: dumped and restored, or prepared transactions that outlast it."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import conninfo, sql
from psycopg.rows import DictRow, dict_row

from queue_core import cancel, check, enqueue, seals
from queue_core.check import unsealed
from queue_core.embedded.binaries import BIN, installed
from queue_core.queries.seals import newest
from tests.sealing import RECHAIN, seal_all, sealed, sign, tamper

SERVER = """
import sys
from pathlib import Path
import psycopg
from queue_core import embedded, migrate

folder = Path(sys.argv[1])
with psycopg.connect(embedded.start(folder).owner_url, autocommit=True) as owner:
    owner.execute("ALTER SYSTEM SET max_prepared_transactions = 4")
    owner.execute("ALTER SYSTEM SET fsync = off")
embedded.stop()
server = embedded.start(folder)
with psycopg.connect(server.owner_url, autocommit=True) as owner:
    migrate.migrate(owner)
print(server.url, server.owner_url, flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[tuple[str, str]]:
    """Start another server, with an identifier of its own, and give its two URLs."""
    with tempfile.TemporaryDirectory(prefix="cs-") as folder:
        Path(folder).chmod(0o755)
        process = subprocess.Popen(
            [sys.executable, "-c", SERVER, folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stdout
            url, owner_url = process.stdout.readline().split()
            yield url, owner_url
        finally:
            process.communicate(timeout=60)


def connect(url: str, **options: Any) -> psycopg.Connection[DictRow]:
    return psycopg.Connection[DictRow].connect(
        url, **{"autocommit": True, "row_factory": dict_row, **options}
    )


def restored(database: Any, elsewhere: tuple[str, str], name: str) -> tuple[str, str]:
    """Dump a database and restore it on the other server; return its URLs there."""
    programs = installed()[0] / BIN
    there = elsewhere[1]
    with connect(there) as admin:
        admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    urls = tuple(conninfo.make_conninfo(url, dbname=name) for url in elsewhere)
    with tempfile.TemporaryDirectory() as folder:
        dump = Path(folder) / "dump"
        subprocess.run([programs / "pg_dump", "-Fc", "-f", dump, database.owner_url], check=True)
        command = [programs / "pg_restore", "--exit-on-error", "-d", urls[1], dump]
        subprocess.run(command, check=True)
    return urls[0], urls[1]


def test_a_restored_dump_goes_on_with_a_rebase(database, elsewhere, registry):
    conn = database.connect()
    old = sign(conn, 3)
    seal_all(conn)
    unsealed_acts = sign(conn, 2)
    head = newest(conn)[0].head
    url, owner_url = restored(database, elsewhere, "restored")

    with connect(url) as there, connect(owner_url) as owner:
        assert check.check(there, full=True, heads=[head]) == []
        job = enqueue(there, "mail.send").id
        cancel(there, [job], by="ops:alice", reason="why_not")
        assert check.check(there, full=True) == []

        assert seals.seal(there) == 3
        assert newest(there)[0].rebase
        assert set(sealed(there)[1]) > set(unsealed_acts)
        later = sign(there)
        assert seal_all(there) == [1]
        assert not newest(there)[0].rebase
        assert sealed(there)[2] == later
        assert check.check(there, full=True, heads=[head]) == []

        tamper(owner, f"UPDATE countersign.acts SET note = 'x' WHERE id = {old[0]}")
        assert [found.code for found in check.check(there, full=True)] == ["ledger.act_changed"]


LEFT = "'left by ''pay'''"


def test_transactions_prepared_and_left_are_named_and_sealed_at_last(elsewhere, monkeypatch):
    monkeypatch.setattr(unsealed, "LONGEST_SECONDS", 0)
    url, owner_url = elsewhere
    with connect(url) as conn, connect(owner_url) as preparing:
        preparing.execute("BEGIN")
        held = sign(preparing)
        preparing.execute(f"PREPARE TRANSACTION {LEFT}".encode())
        others = sign(conn)

        assert seals.seal(conn) == 0
        assert check.check(conn, full=True) == []
        (warning,) = [each for each in check.warnings(conn) if each.code == "ledger.unsealed"]
        assert f"prepared as {LEFT} by postgres in database countersign" in warning.what
        assert f"ROLLBACK PREPARED {LEFT}" in warning.mend

        preparing.execute(f"COMMIT PREPARED {LEFT}".encode())
        assert seal_all(conn) == [2]
        assert sealed(conn)[-1] == held + others
        assert check.check(conn, full=True) == []


# Another server, acted: what a rebase does in one database

OTHER_SERVER = "UPDATE countersign.seals SET system_identifier = 1"
AHEAD = "UPDATE countersign.seals SET horizon = '999999999'"


@pytest.mark.parametrize("change", [OTHER_SERVER, AHEAD])
def test_another_identifier_or_a_horizon_ahead_make_a_rebase(database, change):
    conn, owner = database.connect(), database.owner()
    sign(conn, 2)
    seal_all(conn)
    tamper(owner, f"{change}; {RECHAIN}")
    acts = sign(conn, 2)
    assert check.check(conn, full=True) == []

    assert seals.seal(conn) == 2

    assert newest(conn)[0].rebase
    assert sealed(conn)[-1] == acts
    assert check.check(conn, full=True) == []


def test_a_restored_ledger_without_a_new_act_gets_its_rebase_once(database):
    conn, owner = database.connect(), database.owner()
    sign(conn)
    seal_all(conn)
    tamper(owner, f"{OTHER_SERVER}; {RECHAIN}")
    assert seal_all(conn) == []
    assert newest(conn)[0].rebase
    assert seal_all(conn) == []
    assert len(newest(conn)) == 2


def test_a_rebase_does_not_wait_for_whoever_is_adding_acts(database):
    conn, owner = database.connect(), database.owner()
    late = database.connect(autocommit=False)
    sign(conn)
    seal_all(conn)
    tamper(owner, f"{OTHER_SERVER}; {RECHAIN}")
    sign(late)
    with pytest.raises(psycopg.errors.LockNotAvailable):
        seals.seal(conn)
    late.commit()
    assert seals.seal(conn) == 1


def test_transactions_of_the_other_server_are_not_sealed_when_their_numbers_come(database):
    """Acts keep the xids they had: this server gets there, and they are sealed already."""
    conn, owner = database.connect(), database.owner()
    old = sign(conn, 3)
    tamper(owner, "UPDATE countersign.acts SET xid = (xid::text::bigint + 40)::text::xid8")
    assert seal_all(conn) == [3]
    assert newest(conn)[0].rebase
    new = [sign(conn)[0] for _ in range(60)]
    seal_all(conn)
    found = [act for seal in sealed(conn) for act in seal]
    assert sorted(found) == old + new
    assert check.check(conn, full=True) == []
    assert check.check(conn) == []


def test_acts_of_before_the_rebase_put_in_later_are_named(database):
    conn, owner = database.connect(), database.owner()
    sign(conn, 2)
    owner.execute("SELECT nextval('countersign.acts_id')")
    sign(conn)
    seal_all(conn)
    tamper(owner, f"{OTHER_SERVER}; {RECHAIN}")
    seal_all(conn)
    tamper(
        owner,
        "INSERT INTO countersign.acts (id, at, xid, by, act, subject_kind, subject_name, reason, "
        "via) SELECT 3, acts.at, pg_current_xact_id(), 'ops:mallory', 'added', 'operator', 'x', "
        "'x', 'code' FROM countersign.acts WHERE acts.id = 2",
    )
    assert seal_all(conn) == []
    assert [found.code for found in check.check(conn, full=True)] == ["ledger.act_inserted"]
