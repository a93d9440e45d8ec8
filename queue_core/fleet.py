"""The workers' own rows: they register, beat and stop; others declare the silent ones lost."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

import psycopg

from queue_core.database import execute, rows, value


@dataclass(frozen=True, slots=True)
class Identity:
    """What a worker says of itself when it registers.

    `pid_namespace` tells containers apart, `process_start` a process from a later one of its pid.
    """

    host: str
    pid: int
    boot_id: str
    pid_namespace: str
    version: str
    queues: Sequence[str]
    slots: int
    name: str | None = None
    process_start: str | None = None


@dataclass(frozen=True, slots=True)
class Started:
    """A run that a beat tells of: it began `seconds` ago in the child `child_pid`."""

    id: UUID
    attempt: int
    child_pid: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Held:
    """A run that the database has under a worker, and whether it is asked to stop."""

    id: UUID
    attempt: int
    stop_requested: bool


@dataclass(frozen=True, slots=True)
class Asked:
    """A run that is asked to stop, since a person cancelled its job.

    `kill_after` is how many seconds it may go on then, None for as long as it likes.
    """

    id: UUID
    attempt: int
    kill_after: int | None


@dataclass(frozen=True, slots=True)
class Peer:
    """A live worker's row on the same host, boot and pid namespace."""

    id: UUID
    pid: int
    process_start: str | None = None


@dataclass(frozen=True, slots=True)
class _Id:
    """A row that is only an id."""

    id: UUID


REGISTER = """
INSERT INTO countersign.workers (id, name, host, pid, boot_id, pid_namespace, version, queues,
    slots, process_start)
VALUES (countersign.new_id(), %(name)s, %(host)s, %(pid)s, %(boot_id)s, %(pid_namespace)s,
    %(version)s, %(queues)s::text[], %(slots)s, %(process_start)s)
RETURNING workers.id
"""


def register(conn: psycopg.Connection[object], identity: Identity) -> UUID:
    """Add a row for a new worker session and return its id: never an earlier session's."""
    parameters: dict[str, object] = {
        "name": identity.name,
        "process_start": identity.process_start,
        "host": identity.host,
        "pid": identity.pid,
        "boot_id": identity.boot_id,
        "pid_namespace": identity.pid_namespace,
        "version": identity.version,
        "queues": list(identity.queues),
        "slots": identity.slots,
    }
    return rows(conn, REGISTER, parameters, _Id)[0].id


# A lost beat costs nothing, a synchronous commit each does: the next beat is a twelfth of the
# stale time away.
BEAT = """
WITH quick AS (
    SELECT set_config('synchronous_commit', 'off', true)
)
UPDATE countersign.workers
SET beat_at = clock_timestamp()
FROM quick
WHERE workers.id = %(worker)s AND workers.stopped_at IS NULL AND workers.lost_at IS NULL
RETURNING workers.id
"""
STARTED = """
UPDATE countersign.running
SET child_pid = began.child_pid, started_at = now() - make_interval(secs => began.seconds)
FROM unnest(%(ids)s::uuid[], %(attempts)s::integer[], %(child_pids)s::integer[],
    %(seconds)s::double precision[]) AS began (id, attempt, child_pid, seconds)
WHERE running.id = began.id
    AND running.attempt = began.attempt
    AND running.worker = %(worker)s
    AND running.started_at IS NULL
"""
HELD = """
SELECT running.id, running.attempt, running.stop_requested_at IS NOT NULL AS stop_requested
FROM countersign.running
WHERE running.worker = %(worker)s
"""


def beat(
    conn: psycopg.Connection[object], worker: UUID, started: Iterable[Started] = ()
) -> list[Held] | None:
    """Say that a worker lives and which runs began; returns the runs the database has under it.

    None means that the worker has been declared lost or stopped: it holds nothing any more.
    """
    if value(conn, BEAT, {"worker": worker}) is None:
        return None
    began = list(started)
    if began:
        parameters = {
            "worker": worker,
            "ids": [run.id for run in began],
            "attempts": [run.attempt for run in began],
            "child_pids": [run.child_pid for run in began],
            "seconds": [run.seconds for run in began],
        }
        execute(conn, STARTED, parameters)
    return rows(conn, HELD, {"worker": worker}, Held)


ASKED_TO_STOP = """
SELECT running.id, running.attempt, running.kill_after
FROM countersign.running
WHERE running.worker = %(worker)s AND running.stop_requested_at IS NOT NULL
"""


def asked_to_stop(conn: psycopg.Connection[object], worker: UUID) -> list[Asked]:
    """Return the runs of a worker whose jobs were cancelled while they run."""
    return rows(conn, ASKED_TO_STOP, {"worker": worker}, Asked)


DRAIN = """
UPDATE countersign.workers
SET draining_at = now()
WHERE workers.id = %(worker)s AND workers.draining_at IS NULL
"""


def drain(conn: psycopg.Connection[object], worker: UUID) -> None:
    """Note that a worker takes no more jobs, and stops when those in hand have ended."""
    execute(conn, DRAIN, {"worker": worker})


STOP = """
UPDATE countersign.workers
SET stopped_at = now()
WHERE workers.id = %(worker)s AND workers.stopped_at IS NULL AND workers.lost_at IS NULL
"""


def stop(conn: psycopg.Connection[object], worker: UUID) -> bool:
    """Note that a worker has stopped by itself; False where it was declared lost before."""
    return execute(conn, STOP, {"worker": worker}) == 1


GIVE_UP = """
UPDATE countersign.workers
SET lost_at = now(), lost_by = workers.id, lost_rule = 'gave_up'
WHERE workers.id = %(worker)s AND workers.stopped_at IS NULL AND workers.lost_at IS NULL
"""


def give_up(conn: psycopg.Connection[object], worker: UUID) -> bool:
    """Note that a worker declared itself lost, since it could not beat; False where it was so."""
    return execute(conn, GIVE_UP, {"worker": worker}) == 1


BURY_STALE = """
UPDATE countersign.workers
SET lost_at = now(), lost_by = %(worker)s, lost_rule = 'stale'
WHERE workers.stopped_at IS NULL
    AND workers.lost_at IS NULL
    AND workers.id <> %(worker)s
    AND workers.beat_at < clock_timestamp() - make_interval(secs => %(stale_after)s)
RETURNING workers.id
"""


def bury_stale(conn: psycopg.Connection[object], worker: UUID, stale_after: float) -> list[UUID]:
    """Declare workers lost that have not beaten for `stale_after` seconds; returns which.

    Only for a worker whose own beats the database has answered for that long: an outage
    common to all loses nobody.
    """
    parameters = {"worker": worker, "stale_after": stale_after}
    return [row.id for row in rows(conn, BURY_STALE, parameters, _Id)]


SAME_HOST = """
SELECT workers.id, workers.pid, workers.process_start
FROM countersign.workers
WHERE workers.stopped_at IS NULL
    AND workers.lost_at IS NULL
    AND workers.id <> %(worker)s
    AND workers.host = %(host)s
    AND workers.boot_id = %(boot_id)s
    AND workers.pid_namespace = %(pid_namespace)s
"""


def same_host(conn: psycopg.Connection[object], worker: UUID, identity: Identity) -> list[Peer]:
    """Return the other live workers whose pids `identity` can see: same host, boot, namespace."""
    parameters: dict[str, object] = {
        "worker": worker,
        "host": identity.host,
        "boot_id": identity.boot_id,
        "pid_namespace": identity.pid_namespace,
    }
    return rows(conn, SAME_HOST, parameters, Peer)


BURY_DEAD = """
UPDATE countersign.workers
SET lost_at = now(), lost_by = %(worker)s, lost_rule = 'same_host'
WHERE workers.id = ANY(%(dead)s) AND workers.stopped_at IS NULL AND workers.lost_at IS NULL
RETURNING workers.id
"""


def bury_dead(conn: psycopg.Connection[object], worker: UUID, dead: Iterable[UUID]) -> list[UUID]:
    """Declare workers lost whose process is proven gone; returns which were not lost before."""
    parameters = {"worker": worker, "dead": list(dead)}
    return [row.id for row in rows(conn, BURY_DEAD, parameters, _Id)]
