"""Databases for what must commit: copies of the migrated one, emptied and lent again.

A copy costs a tenth of a second by the time somebody has asked it something: the server copies
some six hundred files, and each new session learns the whole schema. To empty one costs a
twentieth of that. Whoever changes its schema, or fills it, has had it to himself: it is dropped.
"""

import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Final, LiteralString

import psycopg
from psycopg import conninfo, sql
from psycopg.rows import DictRow, dict_row

from queue_core import embedded
from queue_core.poolers import allow_for_pooler

CHANGED: Final = """
SELECT count(*), sum(hashtext(of || oid || found)::bigint) AS schema FROM (
    SELECT 'class' AS of, oid::text, concat(xmin, ' ', reltuples) AS found FROM pg_class
    WHERE relnamespace NOT IN ('pg_toast'::regnamespace, 'pg_catalog'::regnamespace)
    UNION ALL SELECT 'attribute', attrelid::text || attnum, xmin::text
    FROM pg_attribute WHERE attrelid >= 16384
    UNION ALL SELECT 'proc', oid::text, xmin::text FROM pg_proc WHERE oid >= 16384
    UNION ALL SELECT 'type', oid::text, xmin::text FROM pg_type WHERE oid >= 16384
    UNION ALL SELECT 'constraint', oid::text, xmin::text FROM pg_constraint WHERE oid >= 16384
    UNION ALL SELECT 'rewrite', oid::text, xmin::text FROM pg_rewrite WHERE oid >= 16384
    UNION ALL SELECT 'index', indexrelid::text, xmin::text FROM pg_index WHERE indexrelid >= 16384
    UNION ALL SELECT 'trigger', oid::text, concat(tgenabled, tgrelid, tgfoid) FROM pg_trigger
    UNION ALL SELECT 'statistic', starelid::text, xmin::text
    FROM pg_statistic WHERE starelid >= 16384
    UNION ALL SELECT 'namespace', oid::text, xmin::text FROM pg_namespace
    WHERE nspname !~ '^pg_(toast_)?temp_'
    UNION ALL SELECT 'setting', setrole::text, array_to_string(setconfig, ',')
    FROM pg_db_role_setting
    UNION ALL SELECT 'default acl', oid::text, xmin::text FROM pg_default_acl
    UNION ALL SELECT 'event', oid::text, xmin::text FROM pg_event_trigger
    UNION ALL SELECT 'extension', oid::text, xmin::text FROM pg_extension
    UNION ALL SELECT 'policy', oid::text, xmin::text FROM pg_policy
    UNION ALL SELECT 'publication', oid::text, xmin::text FROM pg_publication
    UNION ALL SELECT 'sequence', seqrelid::text, xmin::text FROM pg_sequence
    UNION ALL SELECT 'parent', inhrelid::text, xmin::text FROM pg_inherits
    UNION ALL SELECT 'migration', name, xmin::text FROM countersign.migrations
    UNION ALL SELECT 'database', datname, concat(datacl, datconnlimit, datallowconn)
    FROM pg_database WHERE datname = current_database()
) AS things
"""
"""Finds whether anything was changed but the rows of tables."""

TABLES: Final = """
SELECT pg_class.relname AS name
FROM pg_class
WHERE pg_class.relnamespace = 'countersign'::regnamespace
    AND pg_class.relkind IN ('r', 'p')
    AND NOT pg_class.relispartition
    AND pg_class.relname NOT IN ('migrations', 'acts', 'seals')
ORDER BY 1
"""

SIZE: Final = """
SELECT sum(pg_relation_size(pg_class.oid)) AS bytes
FROM pg_class
WHERE pg_class.relnamespace = 'countersign'::regnamespace
"""

OTHERS: Final = """
SELECT count(pg_terminate_backend(pg_stat_activity.pid))
FROM pg_stat_activity
WHERE pg_stat_activity.datname = current_database()
    AND pg_stat_activity.pid != pg_backend_pid()
    AND pg_stat_activity.backend_type = 'client backend'
"""

GUARDED: Final = """
SELECT
    EXISTS (SELECT FROM countersign.acts) AS acts,
    EXISTS (SELECT FROM countersign.seals) AS seals
"""

RESTART: Final = """
SELECT setval(pg_sequence.seqrelid::regclass, pg_sequence.seqstart, FALSE)
FROM pg_sequence
WHERE pg_sequence.seqrelid >= 16384
"""

LENT_AT_MOST: Final = 40
"""Times that one is emptied before it is dropped: what was deleted stays in its files."""

GROWN: Final = 600_000
"""Bytes more than at first: whoever left so many was measuring, or loading."""


@dataclass
class Database:
    """A database of a test's own, for what must commit."""

    url: str
    owner_url: str
    _stack: ExitStack = field(repr=False)

    def connect(self, *, autocommit: bool = True) -> psycopg.Connection[dict[str, object]]:
        """Open a connection of the service role, closed at the end of the test."""
        return self._open(self.url, autocommit=autocommit)

    def owner(self, *, autocommit: bool = True) -> psycopg.Connection[dict[str, object]]:
        """Open a connection of the superuser, closed at the end of the test."""
        return self._open(self.owner_url, autocommit=autocommit)

    def _open(self, url: str, *, autocommit: bool) -> psycopg.Connection[dict[str, object]]:
        return self._stack.enter_context(connect(url, autocommit=autocommit))


def connect(url: str, *, autocommit: bool) -> psycopg.Connection[DictRow]:
    """Open a connection as services do, through a pooler or not."""
    connection = psycopg.Connection[DictRow].connect(url, autocommit=True, row_factory=dict_row)
    allow_for_pooler(connection)
    connection.autocommit = autocommit
    return connection


class Keeper:
    """One copy of the migrated database, with the session that empties it."""

    def __init__(self, server: embedded.Server) -> None:
        self.name = f"test_{uuid.uuid4().hex[:12]}"
        self.url = conninfo.make_conninfo(server.url, dbname=self.name)
        self.owner_url = conninfo.make_conninfo(server.owner_url, dbname=self.name)
        self._server = server
        self._lent = 0
        with maintenance(server) as admin:
            make = sql.SQL("CREATE DATABASE {} TEMPLATE pristine")
            admin.execute(make.format(sql.Identifier(self.name)))
        self._conn = psycopg.Connection[DictRow].connect(
            self.owner_url, autocommit=True, row_factory=dict_row, prepare_threshold=0
        )
        self._conn.execute("SET session_replication_role = replica")
        self._conn.execute("SET plan_cache_mode = force_generic_plan")
        self._tables = [row["name"] for row in self._conn.execute(TABLES)]
        self._size: int = self._one(SIZE)["bytes"]
        self._schema = self._one(CHANGED)

    @contextmanager
    def database(self) -> Iterator[Database]:
        """Give the database, and close at the end what connections it opened."""
        with ExitStack() as stack:
            yield Database(self.url, self.owner_url, stack)

    def is_clean(self) -> bool:
        """Empty every table, and return whether all is as it was at first."""
        self._lent += 1
        try:
            self._alone()
            if self._lent >= LENT_AT_MOST or self._one(CHANGED) != self._schema:
                return False
            self._empty()
            return self._one(SIZE)["bytes"] <= self._size + GROWN
        except psycopg.Error:
            return False

    def drop(self) -> None:
        """Drop the database, whoever is connected."""
        self._conn.close()
        with maintenance(self._server) as admin:
            drop = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)")
            admin.execute(drop.format(sql.Identifier(self.name)))

    def _one(self, query: LiteralString) -> DictRow:
        (row,) = self._conn.execute(query).fetchall()
        return row

    def _alone(self) -> None:
        while self._one(OTHERS)["count"]:
            time.sleep(0.002)

    def _empty(self) -> None:
        emptied = sql.SQL("{table} AS (DELETE FROM countersign.{table})")
        deletes = [emptied.format(table=sql.Identifier(table)) for table in self._tables]
        with self._conn.transaction():
            self._conn.execute(sql.SQL("WITH {} SELECT 1").format(sql.SQL(", ").join(deletes)))
            self._conn.execute(RESTART)
            for table, has_rows in self._one(GUARDED).items():
                if has_rows:
                    self._empty_guarded(sql.Identifier("countersign", table), table)

    def _empty_guarded(self, table: sql.Identifier, name: str) -> None:
        refusing = [sql.Identifier(f"{name}_refuse_{what}") for what in ("row", "statement")]
        for trigger in refusing:
            self._conn.execute(sql.SQL("ALTER TABLE {} DISABLE TRIGGER {}").format(table, trigger))
        self._conn.execute(sql.SQL("DELETE FROM {}").format(table))
        enable = sql.SQL("ALTER TABLE {} ENABLE ALWAYS TRIGGER {}")
        for trigger in refusing:
            self._conn.execute(enable.format(table, trigger))


class Pool:
    """The databases that nobody has at the moment."""

    def __init__(self, server: embedded.Server) -> None:
        self._server = server
        self._idle: list[Keeper] = []

    @contextmanager
    def lend(self) -> Iterator[Database]:
        """Lend an empty migrated database, until the block ends."""
        keeper = self._idle.pop() if self._idle else Keeper(self._server)
        try:
            with keeper.database() as lent:
                yield lent
        finally:
            if keeper.is_clean():
                self._idle.append(keeper)
            else:
                keeper.drop()

    @contextmanager
    def make(self) -> Iterator[Database]:
        """Lend one that was never lent, and drop it when the block ends."""
        keeper = Keeper(self._server)
        try:
            with keeper.database() as lent:
                yield lent
        finally:
            keeper.drop()

    def close(self) -> None:
        """Drop them all."""
        while self._idle:
            self._idle.pop().drop()


def maintenance(server: embedded.Server) -> psycopg.Connection:
    """Open a connection that makes and drops databases."""
    url = conninfo.make_conninfo(server.owner_url, dbname="postgres")
    return psycopg.connect(url, autocommit=True)
