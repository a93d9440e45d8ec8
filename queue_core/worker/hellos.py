"""What is in a child's hello, read from its frame: a child is not trusted."""

from dataclasses import asdict
from datetime import datetime
from typing import Literal, cast

from queue_core.handlers import Declared
from queue_core.jobs import LONGEST_SECONDS
from queue_core.rules import SHORTEST_SECONDS, Schedule
from queue_core.sharing import Shares
from queue_core.transitions.claim import Claimable
from queue_core.worker.frames import Frame, FrameError


def offered(offer: Frame) -> Claimable:
    """Return the name that a frame offers."""
    match offer:
        case {
            "name": str(name),
            "attempts": int(attempts),
            "on_lost": "attempts" | "review" as on_lost,
            "time_limit": float() | int() | None as time_limit,
            "limit": int() | None as limit,
            "safe_to_repeat": bool() as safe,
        } if (
            attempts >= 1
            and (time_limit is None or time_limit > 0)
            and (limit is None or limit >= 1)
        ):
            what = cast("Literal['attempts', 'review']", on_lost)
            return Claimable(name, attempts, what, time_limit, limit, safe, _shares(offer))
        case _:
            raise FrameError("the frame offers no name")


def _shares(offer: Frame) -> Shares | None:
    match offer.get("shares"):
        case None:
            return None
        case "loop" | "threads" as shares:
            return cast("Shares", shares)
        case _:
            raise FrameError("the frame offers no name")


def scheduled(schedule: Frame) -> Schedule:
    """Return the schedule that a frame holds."""
    match schedule:
        case {
            "name": str(name),
            "every": float(every),
            "first_at": str() | None as first_at,
            "job": str(job),
            "queue": str(queue),
            "args": str(args),
            "priority": int(priority),
            "attempts": int() | None as attempts,
            "time_limit": float() | None as time_limit,
        } if SHORTEST_SECONDS <= every <= LONGEST_SECONDS:
            first = None if first_at is None else datetime.fromisoformat(first_at)
            return Schedule(name, every, first, job, queue, args, priority, attempts, time_limit)
        case _:
            raise FrameError("the frame holds no schedule")


def declared(said: Frame) -> Declared:
    """Return what a frame tells of a handler."""
    offer = offered(said)
    match said:
        case {
            "queue": str(queue),
            "effects": str() | None as effects,
            "how_to_check": str() | None as how_to_check,
            "owner": str() | None as owner,
            "runbook": str() | None as runbook,
        }:
            return Declared(
                name=offer.name,
                queue=queue,
                attempts=offer.attempts,
                time_limit=offer.time_limit,
                on_lost=offer.on_lost,
                safe_to_repeat=offer.safe_to_repeat,
                limit=offer.limit,
                effects=effects,
                how_to_check=how_to_check,
                owner=owner,
                runbook=runbook,
            )
        case _:
            raise FrameError("the frame tells of no handler")


def said_of(schedule: Schedule) -> dict[str, object]:
    """Return a schedule as a frame holds it."""
    first_at = None if schedule.first_at is None else schedule.first_at.isoformat()
    return {**asdict(schedule), "first_at": first_at}
