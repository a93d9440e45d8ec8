"""The database that a command works on: DATABASE_URL, or else the embedded one."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from queue_core import check, database, embedded
from queue_core.operators import require_enabled
from queue_core.settings import Settings, from_environment

NAME: Final = "countersign cli"


def service_url(settings: Settings) -> str:
    """Return the URL of the service role; without DATABASE_URL this starts the embedded server."""
    return settings.database_url or embedded.start(settings.data).url


def worker_urls(settings: Settings) -> tuple[str, str | None]:
    """Return the URLs of the service role and of the owner, as `service_url` does."""
    if settings.database_url:
        return settings.database_url, settings.owner_url
    server = embedded.start(settings.data)
    return server.url, server.owner_url


@contextmanager
def reading() -> Generator[database.AnyConnection]:
    """Open a connection for a command that only reads.

    Raises SchemaError where the schema is missing or not this code's.
    """
    with anyhow() as conn:
        check.require_schema(conn)
        yield conn


@contextmanager
def acting() -> Generator[database.AnyConnection]:
    """Open a connection for a command that writes.

    Raises SchemaError where schema or ledger are unsound: what is done must be kept.
    """
    with anyhow() as conn:
        check.require_sound(conn)
        yield conn


@contextmanager
def signing(by: str) -> Generator[database.AnyConnection]:
    """Open a transaction for an act that `by` signs, committed at the end of the block.

    Raises NotACodeError and OperatorRefusedError unless that is an enabled operator who may act,
    and SchemaError as `acting` does.
    """
    with acting() as conn, one_commit(conn, by):
        yield conn


@contextmanager
def one_commit(conn: database.AnyConnection, by: str) -> Generator[None]:
    """Make the block a transaction that `by` may sign, and that waits 0.4 s for others' rows.

    Raises NotACodeError and OperatorRefusedError.
    """
    with database.transaction(conn):
        database.limit_waits(conn)
        require_enabled(conn, by, role="operator")
        yield


@contextmanager
def anyhow() -> Generator[database.AnyConnection]:
    """Open a connection whatever the state of the schema."""
    with database.connect(service_url(from_environment()), name=NAME) as conn:
        yield conn


@contextmanager
def owning() -> Generator[database.AnyConnection]:
    """Open a connection of the owner's: QUEUE_OWNER_URL, or the embedded server's own."""
    settings = from_environment()
    url = settings.owner_url or embedded.start(settings.data).owner_url
    with database.connect(url, name=NAME) as conn:
        yield conn
