"""Workers of this host whose process is proven gone: lost at once, however fresh their beat."""

from collections.abc import Iterable
from uuid import UUID

from queue_core import fleet
from queue_core.outcomes import Moved
from queue_core.transitions.recover import recover
from queue_core.worker import logs
from queue_core.worker.processes import can_judge, is_gone
from queue_core.worker.requests import Connection


def bury_dead(conn: Connection, worker: UUID, us: fleet.Identity) -> list[UUID]:
    """Declare workers lost whose pids we can see and whose processes are gone; returns which."""
    if not can_judge(us):
        return []
    peers = fleet.same_host(conn, worker, us)
    dead = [peer.id for peer in peers if is_gone(peer.pid, peer.process_start)]
    lost = fleet.bury_dead(conn, worker, dead) if dead else []
    for each in lost:
        logs.warning("worker declared lost", lost=each, why="its process is gone")
    return lost


def succeed(conn: Connection, worker: UUID, us: fleet.Identity) -> None:
    """Bury those that were here before us and free their runs, so that our first claim finds them.

    What does not work now is a chore of maintenance, and done again there.
    """
    try:
        for dead in bury_dead(conn, worker, us):
            tell_recovered(recover(conn, worker=dead))
    except Exception as error:  # noqa: BLE001 - no reason not to start
        logs.warning("a chore failed", chore="succeed", cause=logs.cause(error))


def tell_recovered(moved: Iterable[Moved]) -> None:
    """Say in the log what became of the runs of lost workers."""
    for each in moved:
        logs.warning("run recovered", job=each.id, attempt=each.attempt, state=each.state)
